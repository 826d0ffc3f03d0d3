"""Files of random tables, as Hypothesis draws them: of every format, clean, odd or damaged."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st

from builders.forgeries import Damage, damaged, damages

NAMES = ("x", "n", "colour", "y")
"""Columns of all tables; y is the target."""

ODD_CELLS = (
    *("", " ", "NA", "nan", "inf", "-Infinity", "1e400", "9" * 40, "-" + "9" * 25, "0x10", "1_000"),
    *("1,5", "1.234,5", "1 000", "00123", "2020-01-01", "31.02.2020", "12:30", "TRUE", "null"),
    *("\0", "\x1b[31m", "\r", "\n", "\r\n", '"', '""', "'", "a;b", "a,b", "a\tb", "=1+1", "\\"),
    *("ü", "\ufeff", "\u200b", "\u2028", "日本", "\U0001f600", "long " * 2000, "٣", "−1"),
)
"""Cells that are read in other ways than they look, or not at all."""

Random = np.random.Generator


@dataclass(frozen=True)
class TextTable:
    """A text file."""

    suffix: str = ".csv"
    n_rows: int = 20
    odd: float = 0.0
    """Share of odd cells."""
    ragged: float = 0.0
    """Share of records with one cell more or less."""
    separator: str = ","
    quoted: Literal["all", "needed", "none"] = "needed"
    encoding: str = "utf-8"
    end: str = "\n"
    header: Literal["names", "none", "repeated", "empty"] = "names"
    seed: int = 0
    changes: tuple[Damage, ...] = ()

    @property
    def is_clean(self) -> bool:
        """Whether the table must be read, with all of its rows."""
        is_whole = not (self.odd or self.ragged or self.changes) and self.n_rows >= 10
        separator = {".tsv": "\t"}.get(self.suffix, self.separator)
        usual = self.header == "names" and self.separator in ",;\t|" and self.separator == separator
        return is_whole and usual and self.end in ("\n", "\r\n") and self.encoding != "cp037"

    def to_bytes(self) -> bytes:
        """Return the file."""
        random = np.random.default_rng(self.seed)
        records = [[self._cell(random, cell) for cell in cells] for cells in _rows(self.n_rows)]
        header = {
            "names": [[*NAMES]],
            "none": [],
            "repeated": [["x", "x", "y", "y"]],
            "empty": [["", "", "", "y"]],
        }[self.header]
        lines = [self._ragged(random, cells) for cells in header + records]
        data = self._text(lines).encode(self.encoding, errors="replace")
        data = damaged(data, self.changes)
        return gzip.compress(data) if self.suffix.endswith(".gz") else data

    def _cell(self, random: Random, cell: str) -> str:
        return str(random.choice(ODD_CELLS)) if random.random() < self.odd else cell

    def _ragged(self, random: Random, cells: list[str]) -> list[str]:
        if random.random() >= self.ragged:
            return cells
        return [*cells, "more"] if random.random() < 0.5 else cells[:-1]

    def _text(self, records: list[list[str]]) -> str:
        if self.quoted == "none":
            return "".join(self.separator.join(cells) + self.end for cells in records)
        text = io.StringIO(newline="")
        csv.writer(
            text,
            delimiter=self.separator,
            quoting=csv.QUOTE_ALL if self.quoted == "all" else csv.QUOTE_MINIMAL,
            lineterminator=self.end,
        ).writerows(records)
        return text.getvalue()


def _rows(n: int) -> list[list[str]]:
    random = np.random.default_rng(7)
    rows = []
    for number in range(n):
        x, colour = random.uniform(-2, 2), random.choice(["red", "green", "blue"])
        y = np.sin(2 * x) + (colour == "red") + 0.1 * random.normal()
        rows.append([f"{x:.3f}", str(number), str(colour), f"{y:.4f}"])
    return rows


def _values(kind: str, n: int) -> pa.Array:
    """Return a column of a type, with missing and extreme values."""
    numbers = np.arange(n)
    lists: dict[str, Callable[[], Any]] = {
        "float": lambda: pa.array(np.sin(numbers)),
        "float with gaps": lambda: pa.array([None if k % 3 else float(k) for k in range(n)]),
        "float with infinity": lambda: pa.array(np.where(numbers % 4, numbers, np.inf)),
        "float32": lambda: pa.array(np.float32(numbers)),
        "float16": lambda: pa.array(np.float16(numbers)),
        "integer": lambda: pa.array(numbers),
        "huge integer": lambda: pa.array(np.uint64(2**63) + numbers.astype(np.uint64)),
        "decimal": lambda: pa.array(numbers).cast(pa.decimal128(38, 18)),
        "boolean": lambda: pa.array(numbers % 2 == 0),
        "text": lambda: pa.array([f"level {k % 3}" for k in range(n)]),
        "odd text": lambda: pa.array([ODD_CELLS[k % len(ODD_CELLS)] for k in range(n)]),
        "view": lambda: pa.array([f"level {k % 3}" for k in range(n)]).cast(pa.string_view()),
        "dictionary": lambda: pa.array([f"{k % 3}" for k in range(n)]).dictionary_encode(),
        "binary": lambda: pa.array([b"\xff\0" for _ in range(n)]),
        "time": lambda: pa.array(numbers * 10**6).cast(pa.timestamp("us", "UTC")),
        "date": lambda: pa.array(np.int32(numbers)).cast(pa.date32()),
        "duration": lambda: pa.array(numbers).cast(pa.duration("s")),
        "list": lambda: pa.array([[1.0, None]] * n, pa.list_(pa.float64())),
        "struct": lambda: pa.array([{"a": 1}] * n, pa.struct([("a", pa.int64())])),
        "null": lambda: pa.nulls(n),
    }
    return lists[kind]()


TYPES = (
    *("float", "float with gaps", "float with infinity", "float32", "float16", "integer"),
    *("huge integer", "decimal", "boolean", "text", "odd text", "view", "dictionary", "binary"),
    *("time", "date", "duration", "list", "struct", "null"),
)
USABLE = ("float", "float32", "integer", "boolean", "text", "dictionary", "time", "date")


@dataclass(frozen=True)
class ArrowTable:
    """A Parquet, Arrow or Feather file."""

    suffix: str = ".parquet"
    n_rows: int = 20
    types: tuple[str, str, str, str] = ("float", "integer", "text", "float")
    """Types of the columns ``NAMES``."""
    stream: bool = False
    """Whether an Arrow file is a stream."""
    changes: tuple[Damage, ...] = ()

    @property
    def is_clean(self) -> bool:
        """Whether the table must be read, with all of its rows."""
        return (
            self.n_rows >= 10
            and not self.changes
            and all(kind in USABLE for kind in self.types[:3])
            and self.types[3] == "float"
        )

    def to_bytes(self) -> bytes:
        """Return the file."""
        columns = [_values(kind, self.n_rows) for kind in self.types]
        table = pa.Table.from_arrays(columns, names=[*NAMES])
        sink = io.BytesIO()
        if self.suffix == ".parquet":
            views = [field.with_type(_no_view(field.type)) for field in table.schema]
            pq.write_table(table.cast(pa.schema(views)), sink)
        else:
            new = pa.ipc.new_stream if self.stream else pa.ipc.new_file
            with new(sink, table.schema) as writer:
                writer.write_table(table)
        return damaged(sink.getvalue(), self.changes)


def _no_view(dtype: pa.DataType) -> pa.DataType:
    return pa.string() if dtype == pa.string_view() else dtype


Table = TextTable | ArrowTable


def tables() -> st.SearchStrategy[Table]:
    """Return a strategy of tables; about a third of them are clean."""
    n_rows = st.just(20) | st.integers(0, 30)
    share = st.just(0.0) | st.just(0.0) | st.sampled_from([0.03, 0.3, 1.0])
    changes = st.just(()) | st.just(()) | damages()
    text = st.builds(
        TextTable,
        st.sampled_from([".csv", ".tsv", ".txt", ".csv.gz"]),
        n_rows,
        share,
        share,
        st.sampled_from([",", ";", "\t", "|", " ", ":", "~"]),
        st.sampled_from(["all", "needed", "none"]),
        st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-32", "latin-1", "cp1252", "cp037"]),
        st.sampled_from(["\n", "\r\n", "\r", "\n\n"]),
        st.sampled_from(["names", "names", "names", "none", "repeated", "empty"]),
        st.integers(0, 1000),
        changes,
    )
    kinds = st.sampled_from(TYPES) | st.sampled_from(USABLE)
    target = st.just("float") | st.just("float") | kinds
    arrow = st.builds(
        ArrowTable,
        st.sampled_from([".parquet", ".arrow", ".feather"]),
        n_rows,
        st.tuples(kinds, kinds, kinds, target),
        st.booleans(),
        changes,
    )
    return text | arrow
