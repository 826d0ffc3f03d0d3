"""Parquet files, one or many, read in chunks."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from sswim.distributed.processes import ALL_ROWS, Share
from sswim.tables.table import (
    CHUNK_BYTES,
    TableChunk,
    TableError,
    reading,
    rechunk,
    require_same_names,
    require_shape,
    require_unique,
    rows_per_chunk,
    table_files,
)
from sswim.tables.values import kind_of, without_string_views

BUFFER_BYTES = 2**18
"""Maximum read-ahead per column. Without a limit, a column's whole row group is buffered."""


@dataclass(frozen=True)
class ParquetFile:
    """One file of the table, as its metadata describes it."""

    path: str
    first: int
    """Number of the file's first row in the whole table."""
    n_rows: int
    partition_values: Mapping[str, pa.Scalar]
    """Hive partition columns: values that folder names such as ``year=2020`` give all rows."""


@dataclass(frozen=True)
class ParquetTable:
    """A Parquet file, or all Parquet files in a folder, with Hive partition columns if any."""

    name: str
    schema: pa.Schema
    nbytes: int
    files: tuple[ParquetFile, ...]
    notes: tuple[str, ...] = ()

    @classmethod
    def open(cls, path: str | Path) -> ParquetTable:
        """Read the metadata of every file; raise an error if the files do not fit together."""
        paths = table_files(path)
        fields: dict[str, pa.Field] = {}
        sizes, nbytes = [], 0
        for file in paths:
            with _open_file(file) as reader:
                metadata, schema = reader.metadata, reader.schema_arrow
            require_unique(schema.names, file)
            fields = _merge_fields(fields, paths[0], schema, file)
            sizes.append(metadata.num_rows)
            groups = range(metadata.num_row_groups)
            nbytes += sum(metadata.row_group(group).total_byte_size for group in groups)
        partitions = _partition_values(paths, path, fields)
        fields |= {name: pa.field(name, value.type) for name, value in partitions[0].items()}
        n_rows = sum(sizes)
        require_shape(n_rows, len(fields), path)
        return cls(
            str(path),
            pa.schema(list(fields.values())),
            max(nbytes, 8 * n_rows * len(fields)),
            tuple(map(ParquetFile, paths, accumulate(sizes, initial=0), sizes, partitions)),
        )

    @property
    def n_rows(self) -> int:
        """Number of rows in all files."""
        return self.files[-1].first + self.files[-1].n_rows

    def split(self) -> list[ParquetTable]:
        """Return a table for each file."""
        return [
            replace(self, name=file.path, files=(replace(file, first=0),)) for file in self.files
        ]

    def as_written(self) -> ParquetTable:
        """Return the columns that the first file itself has, without Hive partition columns."""
        path = self.files[0].path
        with _open_file(path) as reader:
            schema = reader.schema_arrow
        return replace(self, schema=without_string_views(schema.empty_table()).schema)

    def chunks(self, columns: Sequence[str], share: Share = ALL_ROWS) -> Iterator[TableChunk]:
        """Read some columns of a share's rows, which are consecutive."""
        start, stop = share.span(self.n_rows)
        for file in self.files:
            first = max(start, file.first)
            end = min(stop, file.first + file.n_rows)
            if first < end:
                batches = _read_batches(file, columns, first - file.first, end - file.first)
                for table in rechunk(batches, rows_per_chunk(len(columns))):
                    yield TableChunk(first, without_string_views(table), file.path)
                    first += table.num_rows


def _merge_fields(
    fields: dict[str, pa.Field], first: str, schema: pa.Schema, file: str
) -> dict[str, pa.Field]:
    """Combine the columns so far with those of another file, which must be of the same kinds.

    A column without any value may have no type in one file and some type in another.
    """
    plain = without_string_views(schema.empty_table()).schema
    more = {field.name: pa.field(field.name, field.type) for field in plain}
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


def _partition_values(
    paths: Sequence[str], folder: str | Path, fields: Collection[str]
) -> list[dict[str, pa.Scalar]]:
    """Return the Hive partition columns of each file, without those that the files store."""
    if not os.path.isdir(folder):
        return [{}]
    with reading(folder, "a folder of .parquet files"):
        dataset = ds.dataset(
            paths, format="parquet", partitioning="hive", partition_base_dir=str(Path(folder))
        )
        keys = {
            fragment.path: ds.get_partition_keys(fragment.partition_expression)
            for fragment in dataset.get_fragments()
        }
    partitions = [
        {
            field.name: pa.scalar(keys[path][field.name], field.type)
            for field in dataset.schema
            if field.name in keys[path] and field.name not in fields
        }
        for path in paths
    ]
    for path, values in zip(paths, partitions, strict=True):
        require_same_names(list(values), path, list(partitions[0]), paths[0])
    return partitions


def _read_batches(
    file: ParquetFile, columns: Sequence[str], start: int, stop: int
) -> Iterator[pa.RecordBatch]:
    """Read the rows from ``start`` to before ``stop``; skip row groups without any of them."""
    stored = [name for name in columns if name not in file.partition_values]
    with _open_file(file.path, len(columns)) as reader:
        if reader.metadata.num_rows != file.n_rows:
            raise TableError(
                f"A table must not change while it is used. Got {reader.metadata.num_rows} rows "
                f"in {file.path!r}, which had {file.n_rows}; start again."
            )
        first = 0
        for group in range(reader.num_row_groups):
            n_rows = reader.metadata.row_group(group).num_rows
            if first + n_rows <= start:
                first += n_rows
                continue
            with reading(file.path, f".parquet, in row group {group} (counted from 0)"):
                for batch in reader.iter_batches(
                    rows_per_chunk(len(columns)), row_groups=[group], columns=stored
                ):
                    begin, first = first, first + batch.num_rows
                    if start < first:
                        offset = max(start - begin, 0)
                        part = batch.slice(offset, stop - begin - offset)
                        yield _select_columns(part, columns, file.partition_values)
                    if first >= stop:
                        return


def _select_columns(
    batch: pa.RecordBatch, columns: Sequence[str], partition_values: Mapping[str, pa.Scalar]
) -> pa.RecordBatch:
    """Return some columns, stored ones and partition columns, in the given order."""
    batch.validate(full=True)  # as read_table does
    arrays = [
        pa.repeat(partition_values[name], batch.num_rows)
        if name in partition_values
        else batch.column(name)
        for name in columns
    ]
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))


@contextmanager
def _open_file(path: str, n_columns: int = 1) -> Iterator[pq.ParquetFile]:
    """Open a file to read ``n_columns`` of its columns."""
    with reading(path), pa.OSFile(path) as stream:
        yield pq.ParquetFile(
            stream,
            pre_buffer=False,
            buffer_size=min(BUFFER_BYTES, CHUNK_BYTES // n_columns),
            page_checksum_verification=True,
        )
