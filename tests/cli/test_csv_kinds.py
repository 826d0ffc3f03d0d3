"""Kinds of CSV files through fit, predict and evaluate: what is said, and that nothing changes."""

from __future__ import annotations

import csv
import functools
import gzip
import io
import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from builders.commands import invoke

TINY = (
    "--depth",
    "0",
    "--n-components",
    "16",
    "--max-iter",
    "2",
    "--random-state",
    "0",
    "--no-verbose",
)
NAMES = ["x", "n", "colour", "y"]
PREDICTED = ["mean", "std", "median", "lower", "upper"]

Row = list[str]


def rows() -> list[Row]:
    """Return the cells of a table with a number, a whole number, a category and a target."""
    random = np.random.default_rng(0)
    found = []
    for number in range(40):
        x = round(float(random.uniform(-2, 2)), 3)
        colour = ["red", "grün", "blue"][int(random.integers(3))]
        y = round(float(np.sin(2 * x) + (colour == "red") + 0.1 * random.normal()), 4)
        found.append([str(x), str(1000 + 37 * number), colour, str(y)])
    return found


def written(
    table: list[Row], separator: str = ",", end: str = "\n", header: Row | None = None
) -> str:
    """Return cells as CSV; cells are quoted by the caller."""
    lines = [separator.join(cells) for cells in [NAMES if header is None else header, *table]]
    return end.join(lines) + end


def each(table: list[Row], change: Callable[[str], str]) -> list[Row]:
    return [[change(cell) for cell in cells] for cells in table]


def comma(cell: str) -> str:
    return cell.replace(".", ",")


def with_first(table: list[Row], start: int = 0) -> list[Row]:
    return [[str(number), *cells] for number, cells in enumerate(table, start)]


def with_last(table: list[Row], cells: Callable[[int], str]) -> list[Row]:
    return [[*row, cells(number)] for number, row in enumerate(table)]


def column_changed(table: list[Row], place: int, change: Callable[[int, str], str]) -> list[Row]:
    return [
        [change(number, cell) if place == column else cell for column, cell in enumerate(cells)]
        for number, cells in enumerate(table)
    ]


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
    fitting: tuple[str, ...] = ()
    """Options of ``fit``."""
    target: str = "y"
    clean: str | None = None
    """Usual CSV file with the same values, if it is not that of ``rows``."""


SEMICOLON = "Read with separator ';'"
INDEX = "Column 1 has no name and only counts the rows: it is left out; give --keep-index"


def gap(mark: str) -> list[Row]:
    return column_changed(rows(), 0, lambda number, cell: mark if number == 5 else cell)


def coded(letter: str) -> list[Row]:
    return column_changed(rows(), 1, lambda number, _: f"{letter}00{number % 3}")


def kinds() -> dict[str, Kind]:
    table = rows()
    text = written(table)
    german = each(table, comma)
    quoted = '"{}"'.format
    long = with_last(table, lambda number: f"{10**19 + number}")
    zoned = with_last(table, lambda number: f"2020-01-{number % 28 + 1:02}T10:00:00+02:00")
    lines = with_last(table, lambda number: f'"line {number}\n\nand, ""more"""')
    return {
        "usual": Kind(text),
        "semicolons": Kind(written(table, ";"), (SEMICOLON,), separator=";"),
        "tsv": Kind(written(table, "\t"), name="t.tsv", separator="\t"),
        "bars": Kind(written(table, "|"), ("Read with separator '|'",), "t.txt", "|"),
        "blanks": Kind(written(table, "   "), separator=" ", reading=("--separator", "blanks")),
        "another separator": Kind(written(table, "~"), separator="~", reading=("--separator", "~")),
        "UTF-8 mark": Kind(text, encoding="utf-8-sig"),
        "UTF-16": Kind(text, ("Read with encoding utf-16-le; give --encoding",), encoding="utf-16"),
        "given encoding": Kind(text, encoding="cp437", reading=("--encoding", "cp437")),
        "Excel": Kind(
            written(german, ";", "\r\n"),
            ("Read with separator ';', decimal comma and encoding cp1252; give --separator,",),
            separator=";",
            decimal=",",
            encoding="cp1252",
        ),
        "carriage returns": Kind(written(table, end="\r")),
        "no last line end": Kind(text.removesuffix("\n")),
        "empty lines": Kind("\n" + text.replace("\n", "\n\n")),
        "quoted numbers": Kind(written(each(table, quoted), header=[*map(quoted, NAMES)])),
        "quoted decimal commas": Kind(
            written(each(german, quoted)), ("Read with decimal comma; give --decimal",), decimal=","
        ),
        "thousands": Kind(
            written(column_changed(table, 1, lambda _, cell: f'"{int(cell):,}"')),
            ("Column 'n' is text, and all of it numbers: read as numbers, with '.'",),
        ),
        "index": Kind(written(with_first(table), header=["", *NAMES]), (INDEX,)),
        "table of R": Kind(
            written(
                [
                    [quoted(str(number)), x, n, quoted(colour), y]
                    for number, (x, n, colour, y) in enumerate(table, 1)
                ],
                " ",
                header=[*map(quoted, NAMES)],
            ),
            ("Read with separator blanks", INDEX),
            name="t.txt",
            separator=" ",
        ),
        "index of pandas": Kind(
            written(with_first(table, 1), header=["Unnamed: 0", *NAMES]),
            ("Column 'Unnamed: 0' only counts the rows: it is left out",),
        ),
        "repeated name": Kind(
            written(table, header=["x", "x", "colour", "y"]),
            ("Column 2 is 'x' too, as another one: it is called 'x.1'.",),
        ),
        "empty name": Kind(
            written(table, header=["x", "", "colour", "y"]),
            ("Column 2 has no name: it is called 'column 2'.",),
        ),
        "padded names": Kind(
            written(table, header=["x", " n", "colour ", " y"]),
            ("Blanks around the names ' n', 'colour ', ' y' are left out.",),
        ),
        "last separator": Kind(
            written(with_last(table, lambda _: ""), header=[*NAMES, ""]),
            ("Column 5 has neither a name nor values: it is left out.",),
        ),
        "compressed": Kind(written(table, ";"), (SEMICOLON,), "t.csv.gz", ";"),
        "no header": Kind(
            written(table[1:], header=table[0]), reading=("--no-header",), target="column 4"
        ),
        "numbers and a mark": Kind(
            written(gap("?")),
            ("Column 'x' has 39 numbers and 1 other value, '?': read as numbers, with 1 missing",),
            clean=written(gap("")),
        ),
        "leading zeros": Kind(
            written(coded("")), fitting=("--text", "n"), clean=written(coded("a"))
        ),
        "long integers": Kind(written(long, header=[*NAMES, "id"]), fitting=("--drop", "id")),
        "time zones": Kind(written(zoned, header=[*NAMES, "when"]), fitting=("--drop", "when")),
        "line ends in cells": Kind(
            written(lines, header=[*NAMES, '"the\nnote"']), fitting=("--drop", "the\nnote")
        ),
    }


@dataclass(frozen=True)
class Results:
    """What the three commands said and wrote."""

    said: list[str]
    """Notes of ``fit``."""
    text: str
    """Text with the predictions."""
    rmse: str


def run(kind: Kind, folder: Path) -> Results:
    """Fit, predict and evaluate a file."""
    table, model, out = folder / kind.name, folder / "model.sswim", folder / f"out.{kind.name}"
    content = kind.text.encode(kind.encoding)
    table.write_bytes(gzip.compress(content) if kind.name.endswith("gz") else content)
    options = [*kind.reading, *kind.fitting, "--target", kind.target]
    fitted = invoke("fit", table, "--out", model, *options, *TINY)
    assert fitted.exit_code == 0, fitted.output
    predicted = invoke("predict", model, table, "--out", out, *kind.reading)
    assert predicted.exit_code == 0, predicted.output
    scored = invoke("evaluate", model, table, *kind.reading)
    assert scored.exit_code == 0, scored.output
    (rmse,) = re.findall(r"RMSE *│ *(\S+)", scored.output)
    found = out.read_bytes()
    found = gzip.decompress(found) if kind.name.endswith("gz") else found
    text = found.decode(kind.encoding)
    assert text.encode(kind.encoding) == found
    return Results(re.findall("Note: (.*)", fitted.output), text, rmse)


@functools.cache
def clean_results(text: str) -> tuple[Results, list[Row]]:
    """Return the results of a usual file, and its predictions."""
    with tempfile.TemporaryDirectory() as folder:
        results = run(Kind(text), Path(folder))
    assert results.said == []
    return results, new_cells(Kind(text), results.text)[1:]


def new_cells(kind: Kind, text: str) -> list[Row]:
    """Return the last five cells of each record."""
    records = csv.reader(io.StringIO(text, newline=""), delimiter=kind.separator)
    return [cells[-5:] for cells in records if cells]


def without(text: str, kind: Kind, added: list[Row]) -> str:
    """Return a text without cells that were added at the ends of its records."""
    place = 0
    for cells in added:
        shown = [f'"{cell}"' if kind.separator in cell else cell for cell in cells]
        tail = "".join(kind.separator + cell for cell in shown)
        start = text.index(tail, place)
        text, place = text[:start] + text[start + len(tail) :], start
    return text


@pytest.mark.parametrize("name", kinds())
def test_a_kind_of_csv_is_told_used_and_kept(name: str, tmp_path: Path) -> None:
    kind = kinds()[name]
    clean, expected = clean_results(kind.clean or written(rows()))
    results = run(kind, tmp_path)
    assert len(results.said) == len(kind.said), results.said
    for note, start in zip(results.said, kind.said, strict=True):
        assert note.startswith(start)
    assert results.rmse == clean.rmse
    added = new_cells(kind, results.text)
    if "--no-header" not in kind.reading:
        assert added[0] == PREDICTED
    values = [[float(cell.replace(kind.decimal, ".")) for cell in cells] for cells in added[-40:]]
    np.testing.assert_allclose(values, np.array(expected, dtype=float), rtol=1e-9)
    assert without(results.text, kind, added) == kind.text
