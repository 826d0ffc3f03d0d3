"""Parquet files, one or many, read a part at a time."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from sswim.distributed.share import WHOLE, Share
from sswim.tables.file_listing import require_same_names, table_files
from sswim.tables.schema import kind_of
from sswim.tables.table_io import (
    TableError,
    reading,
    require_shape,
    require_unique,
    without_view,
    without_views,
)
from sswim.tables.table_parts import PART_BYTES, Part, gathered, part_rows

BUFFER_BYTES = 2**18
"""The most that is read ahead in a column. Without a limit it is the column's whole row group."""


@dataclass(frozen=True)
class ParquetFile:
    """What is known of a file without reading its rows."""

    path: str
    first: int
    """The number of its first row among all of the table."""
    n_rows: int
    constants: Mapping[str, pa.Scalar]
    """The columns that the names of its folders are."""


@dataclass(frozen=True)
class ParquetTables:
    """A Parquet file, or all in a folder, where a name such as ``year=2020`` is a column."""

    name: str
    schema: pa.Schema
    nbytes: int
    files: tuple[ParquetFile, ...]

    @classmethod
    def open(cls, path: str | Path) -> ParquetTables:
        """Look at every file, and refuse those that do not fit together; no row is read."""
        paths = table_files(path)
        fields: dict[str, pa.Field] = {}
        sizes, nbytes = [], 0
        for file in paths:
            with _opened(file) as reader:
                metadata, schema = reader.metadata, reader.schema_arrow
                names = schema.names
            require_unique(names, file)
            fields = _united(fields, paths[0], schema, file)
            sizes.append(metadata.num_rows)
            groups = range(metadata.num_row_groups)
            nbytes += sum(metadata.row_group(group).total_byte_size for group in groups)
        constants = _constants(paths, path, fields)
        fields |= {name: pa.field(name, value.type) for name, value in constants[0].items()}
        n_rows = sum(sizes)
        require_shape(n_rows, len(fields), path)
        return cls(
            str(path),
            pa.schema(list(fields.values())),
            max(nbytes, 8 * n_rows * len(fields)),
            tuple(map(ParquetFile, paths, accumulate(sizes, initial=0), sizes, constants)),
        )

    @property
    def n_rows(self) -> int:
        """Of all files."""
        return self.files[-1].first + self.files[-1].n_rows

    def parts(self, columns: Sequence[str], share: Share = WHOLE) -> Iterator[Part]:
        """Some columns of the rows of a share, which follow each other."""
        start, stop = share.span(self.n_rows)
        for file in self.files:
            first = max(start, file.first)
            end = min(stop, file.first + file.n_rows)
            if first < end:
                batches = _batches(file, columns, first - file.first, end - file.first)
                for table in gathered(batches, part_rows(len(columns))):
                    yield Part(first, without_views(table), file.path)
                    first += table.num_rows


def _united(
    fields: dict[str, pa.Field], first: str, schema: pa.Schema, file: str
) -> dict[str, pa.Field]:
    """Columns with those of another file, which must be of the same kind.

    A column without any value may be of no type in one file and of some type in another.
    """
    more = {field.name: pa.field(field.name, without_view(field.type)) for field in schema}
    if not fields:
        return more
    require_same_names(list(more), file, list(fields), first)
    for name, field in fields.items():
        old, new = field.type, more[name].type
        if pa.types.is_null(old):
            fields = fields | {name: more[name]}
        elif kind_of(new) != kind_of(old) and not pa.types.is_null(new):
            raise TableError(
                "A column must be of one kind in all files of a table. "
                f"Got {name!r} of type {new} in {file!r}, and of type {old} in files before it."
            )
    return fields


def _constants(
    paths: Sequence[str], folder: str | Path, fields: Collection[str]
) -> list[dict[str, pa.Scalar]]:
    """The columns that the names of folders are, unless the files have them, for each file."""
    if not os.path.isdir(folder):
        return [{}]
    with reading(folder, "a folder of .parquet files"):
        found = ds.dataset(
            paths, format="parquet", partitioning="hive", partition_base_dir=str(Path(folder))
        )
        keys = {
            fragment.path: ds.get_partition_keys(fragment.partition_expression)
            for fragment in found.get_fragments()
        }
    constants = [
        {
            field.name: pa.scalar(keys[path][field.name], field.type)
            for field in found.schema
            if field.name in keys[path] and field.name not in fields
        }
        for path in paths
    ]
    for path, values in zip(paths, constants, strict=True):
        require_same_names(list(values), path, list(constants[0]), paths[0])
    return constants


def _batches(
    file: ParquetFile, columns: Sequence[str], start: int, stop: int
) -> Iterator[pa.RecordBatch]:
    """The rows of a file from one to before another. Row groups without any are not read."""
    stored = [name for name in columns if name not in file.constants]
    with _opened(file.path, len(columns)) as reader:
        if reader.metadata.num_rows != file.n_rows:
            raise TableError(
                f"A table must stay as it is while it is used. Got {reader.metadata.num_rows} rows "
                f"in {file.path!r}, which had {file.n_rows}; begin anew."
            )
        first = 0
        for group in range(reader.num_row_groups):
            end = first + reader.metadata.row_group(group).num_rows
            if max(first, start) < min(end, stop):
                with reading(file.path, f".parquet, in row group {group} (counted from 0)"):
                    batches = reader.iter_batches(
                        part_rows(len(columns)), row_groups=[group], columns=stored
                    )
                    for batch in _between(batches, start - first, stop - first):
                        yield _selected(batch, columns, file.constants)
            first = end


def _between(batches: Iterator[pa.RecordBatch], start: int, stop: int) -> Iterator[pa.RecordBatch]:
    """The rows of all batches from one to before another; what follows is not read."""
    for batch in batches:
        if start < batch.num_rows:
            yield batch.slice(max(start, 0), stop - max(start, 0))
        start, stop = start - batch.num_rows, stop - batch.num_rows
        if stop <= 0:
            return


def _selected(
    batch: pa.RecordBatch, columns: Sequence[str], constants: Mapping[str, pa.Scalar]
) -> pa.RecordBatch:
    """Some columns, in this order."""
    batch.validate(full=True)  # as read_table does
    arrays = [
        pa.repeat(constants[name], batch.num_rows) if name in constants else batch.column(name)
        for name in columns
    ]
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))


@contextmanager
def _opened(path: str, n_columns: int = 1) -> Iterator[pq.ParquetFile]:
    """A file of which so many columns are to be read."""
    with reading(path, ".parquet"), pa.OSFile(path) as stream:
        yield pq.ParquetFile(
            stream,
            pre_buffer=False,
            buffer_size=min(BUFFER_BYTES, PART_BYTES // n_columns),
            page_checksum_verification=True,
        )
