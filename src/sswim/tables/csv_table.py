"""CSV files, one or many, read in chunks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import pairwise
from pathlib import Path

import pyarrow as pa

from sswim.distributed.share import ALL_ROWS, Share
from sswim.tables.chunked_table import TableChunk, chunk_rows, rechunk
from sswim.tables.csv_file import CsvFile
from sswim.tables.csv_options import AS_FOUND, CsvOptions
from sswim.tables.csv_scan import CsvScan, look_through, merge_types
from sswim.tables.csv_text import text_size
from sswim.tables.csv_written import written_types
from sswim.tables.file_listing import require_same_names, table_files
from sswim.tables.table_errors import require_shape


@dataclass(frozen=True)
class CsvTable:
    """A CSV file, or all CSV files in a folder.

    All rows are looked through once, so that the type of each column suits them all. With several
    processes each reads all rows and keeps one chunk in n.
    """

    name: str
    schema: pa.Schema
    nbytes: int
    files: tuple[CsvFile, ...]
    file_rows: tuple[int, ...]
    """Number of rows of each file."""
    notes: tuple[str, ...] = ()
    """What the user should know about how the files are read, one line each."""

    @classmethod
    def open(cls, path: str | Path, options: CsvOptions = AS_FOUND) -> CsvTable:
        """Find the columns of all files; raise an error if the files do not fit together."""
        files = [CsvFile.open(file, options) for file in table_files(path)]
        scan, n_rows = CsvScan(), [0]
        for file in files:
            require_same_names(file.names, file.path, files[0].names, files[0].path)
            scan = look_through(scan, file, options)
            n_rows.append(scan.n_rows)
        require_shape(scan.n_rows, len(files[0].names), path)
        left_out = scan.left_out(files[0], options)
        names = [name for name in files[0].names if name not in left_out]
        notes = [note for file in files for note in (*file.notes, *scan.notes(file, options))]
        return cls(
            str(path),
            pa.schema([pa.field(name, scan.types[name]) for name in names]),
            sum(text_size(file.path) for file in files),
            tuple(files),
            tuple(last - first for first, last in pairwise(n_rows)),
            tuple(dict.fromkeys(notes)),
        )

    @property
    def n_rows(self) -> int:
        """Number of rows in all files."""
        return sum(self.file_rows)

    @cached_property
    def written_types(self) -> dict[str, pa.DataType]:
        """Types of all columns that keep what is written in the files, such as leading zeros."""
        types = {field.name: field.type for field in self.schema}
        found = [written_types(file, types) for file in self.files]
        return {name: reduce(merge_types, (each[name] for each in found)) for name in found[0]}

    def chunks(self, columns: Sequence[str], share: Share = ALL_ROWS) -> Iterator[TableChunk]:
        """Read some columns of a share's rows: every n-th chunk, for n shares."""
        number = first = 0
        types = {name: self.schema.field(name).type for name in columns}
        for file in self.files:
            for table in rechunk(file.stream(types, columns), chunk_rows(len(columns))):
                if number % share.size == share.rank:
                    yield TableChunk(first, table, file.path)
                number += 1
                first += table.num_rows
