"""Kinds of CSV files through fit, predict and evaluate: what is said, and that nothing changes."""

from __future__ import annotations

import csv
import gzip
import io
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from builders.commands import TINY, succeed

PREDICTED = ["mean", "std", "median", "lower", "upper"]
N_ROWS = 40


def rows(**changes: Any) -> pd.DataFrame:
    """Return a table with a number, a whole number, a category and a target."""
    random = np.random.default_rng(0)
    x = random.uniform(-2, 2, N_ROWS).round(3)
    colour = random.choice(["red", "grün", "blue"], N_ROWS)
    y = (np.sin(2 * x) + (colour == "red") + 0.1 * random.normal(size=N_ROWS)).round(4)
    n = 1000 + 37 * np.arange(N_ROWS)
    return pd.DataFrame({"x": x, "n": n, "colour": colour, "y": y}).assign(**changes)


def text(table: pd.DataFrame | None = None, **options: Any) -> str:
    """Return a table as CSV."""
    options = {"index": False, "lineterminator": "\n"} | options
    return str((rows() if table is None else table).to_csv(**options))


@dataclass(frozen=True)
class Kind:
    """A kind of CSV file."""

    text: str
    said: tuple[str, ...] = ()
    """Starts of the notes of ``fit``, all of them."""
    name: str = "t.csv"
    separator: str = ","
    decimal: str = "."
    encoding: str = "utf-8"
    reading: tuple[str, ...] = ()
    """Options of all three commands."""
    fitting: tuple[str, ...] = ("--target", "y")
    """Options of ``fit``."""


def kinds() -> dict[str, Kind]:
    """Return kinds that are written in other ways; tests of tables read many more."""
    usual, numbers = text(), range(N_ROWS)
    of_r = rows().set_index(pd.Index([str(number + 1) for number in numbers]))
    lines = rows(**{"the\nnote": [f'line {number}\n\nand, "more"' for number in numbers]})
    return {
        "blanks": Kind(usual.replace(",", "   "), separator=" ", reading=("--separator", "blanks")),
        "another separator": Kind(text(sep="~"), separator="~", reading=("--separator", "~")),
        "UTF-8 mark": Kind(usual, encoding="utf-8-sig"),
        "given encoding": Kind(usual, encoding="cp437", reading=("--encoding", "cp437")),
        "Excel": Kind(
            text(sep=";", decimal=",", lineterminator="\r\n"),
            ("Read with separator ';', decimal comma and encoding cp1252; give --separator,",),
            separator=";",
            decimal=",",
            encoding="cp1252",
        ),
        "carriage returns": Kind(text(lineterminator="\r")),
        "no last line end": Kind(usual.removesuffix("\n")),
        "empty lines": Kind("\n" + usual.replace("\n", "\n\n")),
        "quoted decimal commas": Kind(
            text(decimal=",", quoting=csv.QUOTE_ALL),
            ("Read with decimal comma; give --decimal",),
            decimal=",",
        ),
        "table of R": Kind(
            text(of_r, sep=" ", quoting=csv.QUOTE_NONNUMERIC, index=True, index_label=False),
            (
                "Read with separator blanks",
                "Column 1 has no name and only counts the rows: it is left out; give --keep-index",
            ),
            name="t.txt",
            separator=" ",
        ),
        "repeated name": Kind(
            text(header=["x", "x", " colour", "y"]),
            (
                "Blanks around the names ' colour' are left out.",
                "Column 2 is 'x' too, as another one: it is called 'x.1'.",
            ),
        ),
        "last separator": Kind(
            usual.replace("\n", ",\n"),
            ("Column 5 has neither a name nor values: it is left out.",),
        ),
        "compressed": Kind(text(sep=";"), ("Read with separator ';'",), "t.csv.gz", ";"),
        "no header": Kind(
            text(header=False), reading=("--no-header",), fitting=("--target", "column 4")
        ),
        "line ends in cells": Kind(text(lines), fitting=("--target", "y", "--drop", "the\nnote")),
    }


@dataclass(frozen=True)
class Results:
    """What the three commands said and wrote."""

    said: list[str]
    """Notes of ``fit``."""
    text: str
    """Text with the predictions."""
    rmse: str

    def new_cells(self, separator: str) -> list[list[str]]:
        """Return the last five cells of each record."""
        records = csv.reader(io.StringIO(self.text, newline=""), delimiter=separator)
        return [cells[-5:] for cells in records if cells]


def run(kind: Kind, folder: Path) -> Results:
    """Fit, predict and evaluate a file."""
    table, model, out = folder / kind.name, folder / "model.sswim", folder / f"out.{kind.name}"
    content = kind.text.encode(kind.encoding)
    is_compressed = kind.name.endswith("gz")
    table.write_bytes(gzip.compress(content) if is_compressed else content)
    fitted = succeed("fit", table, "--out", model, *kind.reading, *kind.fitting, *TINY)
    succeed("predict", model, table, "--out", out, *kind.reading)
    scored = succeed("evaluate", model, table, *kind.reading)
    (rmse,) = re.findall(r"RMSE *│ *(\S+)", scored.output)
    found = gzip.decompress(out.read_bytes()) if is_compressed else out.read_bytes()
    text = found.decode(kind.encoding)
    assert text.encode(kind.encoding) == found
    return Results(re.findall("Note: (.*)", fitted.output), text, rmse)


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """The results of a usual file."""
    results = run(Kind(text()), tmp_path_factory.mktemp("usual"))
    assert results.said == []
    return results


def without(text: str, kind: Kind, added: list[list[str]]) -> str:
    """Return a text without cells that were added at the ends of its records."""
    place = 0
    for cells in added:
        shown = [f'"{cell}"' if kind.separator in cell else cell for cell in cells]
        tail = "".join(kind.separator + cell for cell in shown)
        start = text.index(tail, place)
        text, place = text[:start] + text[start + len(tail) :], start
    return text


@pytest.mark.parametrize("name", kinds())
def test_a_kind_of_csv_is_told_used_and_kept(name: str, usual: Results, tmp_path: Path) -> None:
    kind = kinds()[name]
    results = run(kind, tmp_path)
    assert len(results.said) == len(kind.said), results.said
    for note, start in zip(results.said, kind.said, strict=True):
        assert note.startswith(start)
    assert results.rmse == usual.rmse
    added = results.new_cells(kind.separator)
    if "--no-header" not in kind.reading:
        assert added[0] == PREDICTED
    found = [[float(cell.replace(kind.decimal, ".")) for cell in row] for row in added[-N_ROWS:]]
    expected = np.array(usual.new_cells(",")[1:], dtype=float)
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    assert without(results.text, kind, added) == kind.text
