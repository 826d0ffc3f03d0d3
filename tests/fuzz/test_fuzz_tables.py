"""Clean, odd and damaged tables of every format through ``info``, ``fit`` and ``predict``."""

from __future__ import annotations

import csv
import gzip
import io
import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from builders.commands import TINY, invoke, succeed
from builders.forgeries import Damage, damaged, damages
from builders.fuzzing import fuzz
from hypothesis import example
from hypothesis import strategies as st
from typer.testing import Result

from sswim import load
from sswim.tables import open_table

NAMES = ("x", "n", "colour", "y")
"""Columns of all tables; y is the target."""

ODD_CELLS = (
    *("", " ", "NA", "nan", "inf", "-Infinity", "1e400", "9" * 40, "-" + "9" * 25, "0x10", "1_000"),
    *("1,5", "1.234,5", "1 000", "00123", "2020-01-01", "31.02.2020", "12:30", "TRUE", "null"),
    *("\0", "\x1b[31m", "\r", "\n", "\r\n", '"', '""', "'", "a;b", "a,b", "a\tb", "=1+1", "\\"),
    *("ü", "\ufeff", "\u200b", "\u2028", "日本", "\U0001f600", "long " * 2000, "٣", "−1"),
)
"""Cells that are read in other ways than they look, or not at all."""


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
        records = _rows(self.n_rows)
        for cells in records:
            for place in range(len(cells)):
                if random.random() < self.odd:
                    cells[place] = str(random.choice(ODD_CELLS))
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

    def _ragged(self, random: np.random.Generator, cells: list[str]) -> list[str]:
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


def _values(n: int) -> dict[str, Callable[[], Any]]:
    """Return columns of every type, with missing and extreme values."""
    numbers = np.arange(n)
    return {
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


TYPES = [*_values(0)]
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
        values = _values(self.n_rows)
        columns = [values[kind]() for kind in self.types]
        table = pa.Table.from_arrays(columns, names=[*NAMES])
        sink = io.BytesIO()
        if self.suffix == ".parquet":
            text = {pa.string_view(): pa.string()}  # Parquet has no views
            plain = [field.with_type(text.get(field.type, field.type)) for field in table.schema]
            pq.write_table(table.cast(pa.schema(plain)), sink)
        else:
            new = pa.ipc.new_stream if self.stream else pa.ipc.new_file
            with new(sink, table.schema) as writer:
                writer.write_table(table)
        return damaged(sink.getvalue(), self.changes)


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


MAX_PROBLEMS = 6
"""Largest number of lines of an error."""

OLD = b"an older file"

_model: list[bytes] = []


@pytest.fixture(autouse=True, scope="module")
def _fitted(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Fit the model whose predictions are asked for."""
    folder = tmp_path_factory.mktemp("clean")
    table, model = folder / "table.csv", folder / "model.sswim"
    table.write_bytes(TextTable().to_bytes())
    succeed("fit", table, "--target", "y", "--out", model, *TINY)
    _model[:] = [model.read_bytes()]


def require_clear(result: Result) -> None:
    """Check that a command ended with one error: a line, or one for each of several problems."""
    assert result.exit_code == 1
    (place,) = (found.start() for found in re.finditer("^Error: ", result.stderr, re.MULTILINE))
    assert len(result.stderr[place:].splitlines()) <= MAX_PROBLEMS, result.stderr
    assert "Traceback" not in result.output


# A target of durations, and a byte of a time zone's name flipped: errors of Arrow.
@fuzz(small=8, full=1000, part=40, limit=60.0, table=tables())
@example(table=ArrowTable(types=("float", "integer", "text", "duration")))
@example(
    table=ArrowTable(
        ".arrow",
        20,
        ("float", "boolean", "time", "float"),
        True,
        (Damage("flip", 0.15455228259265066, 0.8966115539777764, b"\x15"),),
    )
)
def test_a_table_is_used_or_refused_clearly(table: Table) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder, data = Path(name), table.to_bytes()
        path, model = folder / f"table{table.suffix}", folder / "model.sswim"
        out, predicted = folder / "new.sswim", folder / f"predicted{table.suffix}"
        path.write_bytes(data)
        model.write_bytes(_model[0])
        for file in (out, predicted):
            file.write_bytes(OLD)
        described = invoke("info", path)
        fitted = invoke("fit", path, "--target", "y", "--out", out, "--force", *TINY)
        made = invoke("predict", model, path, "--out", predicted)
        if described.exit_code:
            require_clear(described)
        for result, file in ((fitted, out), (made, predicted)):
            if result.exit_code:
                require_clear(result)
                assert file.read_bytes() == OLD
        if fitted.exit_code == 0:
            n_rows = said(r"Learnt 'y' from (\d+) rows", fitted)
            assert n_rows == round(load(out).n_samples_seen_)
        if made.exit_code == 0:
            n_rows = said(r"Predicted (\d+) rows", made)
            assert n_rows == open_table(predicted).n_rows
        if table.is_clean:
            assert described.exit_code == fitted.exit_code == 0, described.output + fitted.output
            assert said(r"Learnt 'y' from (\d+) rows", fitted) == table.n_rows
        assert path.read_bytes() == data
        assert {file.name for file in folder.iterdir()} == {
            each.name for each in (path, model, out, predicted)
        }


def said(pattern: str, result: Result) -> int:
    """Return the number that a command printed."""
    (number,) = re.findall(pattern, result.output)
    return int(number)
