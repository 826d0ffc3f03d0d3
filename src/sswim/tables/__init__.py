"""Tables in files: Parquet, CSV and Arrow, their schemas and categories.

- ``open_table.open_table`` opens a file or folder as a ``chunked_table.ChunkedTable``
- ``schema.Schema`` says how columns become numbers
- ``table_source.open_source`` opens a table as a source of rows to fit
- ``table_io.read_table`` and ``table_io.write_table`` read and write whole files

Nothing is imported here, because ``import sswim`` must not load pyarrow.
"""

__all__: list[str] = []
