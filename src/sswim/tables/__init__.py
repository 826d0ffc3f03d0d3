"""Tables in files: Parquet, CSV and Arrow, their schemas and categories.

``import sswim`` does not import this room, which loads pyarrow.
"""

from sswim.tables.csv_dialect import CsvOptions
from sswim.tables.open_table import open_table
from sswim.tables.schema import Schema
from sswim.tables.table_io import TableError, read_table, write_table
from sswim.tables.table_source import TableSource, open_source

__all__ = [
    "CsvOptions",
    "Schema",
    "TableError",
    "TableSource",
    "open_source",
    "open_table",
    "read_table",
    "write_table",
]
