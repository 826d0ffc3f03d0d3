"""What the scripts share: options, results files, tables in Markdown, rows in Parquet files."""

from __future__ import annotations

import argparse
import csv
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from numpy.typing import NDArray

DEVICES = ("auto", "cpu", "cuda")

DType = Literal["float64", "float32"]
DTYPES: dict[DType, torch.dtype] = {"float64": torch.float64, "float32": torch.float32}


def script_parser(description: str | None, epilog: str | None = None) -> argparse.ArgumentParser:
    """Return a parser whose help begins with the docstring of a script."""
    return argparse.ArgumentParser(
        description=description, epilog=epilog, formatter_class=argparse.RawTextHelpFormatter
    )


def add_device(parser: argparse.ArgumentParser) -> None:
    """Add ``--device``."""
    parser.add_argument(
        "--device",
        choices=DEVICES,
        default="auto",
        help="device to measure on; auto is the GPU if there is one",
    )


def add_dtype(parser: argparse.ArgumentParser) -> None:
    """Add ``--dtype``."""
    parser.add_argument(
        "--dtype", choices=get_args(DType), default="float64", help="precision of the features"
    )


def add_out(parser: argparse.ArgumentParser, default: str) -> None:
    """Add ``--out``, the result file of one device; see ``result_path``."""
    parser.add_argument("--out", default=default, help=f"result file, by default {default}")


def add_results(parser: argparse.ArgumentParser, default: str, *, picture: bool = False) -> None:
    """Add ``--out``, and what ``shows_stored`` does instead of measuring."""
    parser.add_argument("--out", type=Path, default=Path(default), help="result file")
    parser.add_argument("--table", action="store_true", help="print the table instead")
    if picture:
        parser.add_argument("--picture", type=Path, help="draw this picture instead")


def result_path(out: str, device: str) -> Path:
    """Return the path of a result file whose name may contain ``<device>``."""
    return Path(out.replace("<device>", device))


RESULTS = Path(__file__).resolve().parents[1] / "results"
"""The results that the pages of the documentation cite."""


def stored(path: Path) -> Path:
    """Return a results file, or that of the same name which the documentation cites."""
    return path if path.exists() else RESULTS / path.name


def shows_stored(
    given: argparse.Namespace,
    table: Callable[[list[Any]], str],
    draw: Callable[[list[Any], Path], None] | None = None,
) -> bool:
    """Print or draw the stored results if that is asked for, and return whether it was."""
    picture = getattr(given, "picture", None)
    if given.table:
        print(table(read_lines(stored(given.out))))
    elif draw is not None and picture is not None:
        draw(read_lines(stored(given.out)), picture)
    else:
        return False
    return True


def read_lines(path: Path) -> list[Any]:
    """Return the values in a file; an empty list if it does not exist."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def append_line(path: Path, value: Any) -> None:
    """Append a value to a file, which is made if it does not exist."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(value) + "\n")


def read_rows(path: Path) -> list[dict[str, str]]:
    """Return the rows of a file; an empty list if it does not exist."""
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def append_row(path: Path, row: Mapping[str, Any]) -> None:
    """Append a row with the current date to a file; a new file gets a header first."""
    dated = {"date": datetime.now(UTC).isoformat(timespec="seconds"), **row}
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(dated), lineterminator="\n")
        if file.tell() == 0:
            writer.writeheader()
        writer.writerow(dated)


def table_line(cells: Iterable[str]) -> str:
    """Return one line of a table."""
    return f"| {' | '.join(cells)} |"


def markdown_table(titles: Sequence[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a table in Markdown."""
    rule = f"|{'---|' * len(titles)}"
    return "\n".join([table_line(titles), rule, *map(table_line, rows)])


def rmse(errors: NDArray[np.float64]) -> float:
    """Return the root of the mean square of errors."""
    return float(np.sqrt(np.mean(np.square(errors))))


def write_file(
    path: Path, random: np.random.Generator, n_rows: int, n_inputs: int, group_rows: int
) -> None:
    """Write rows of a smooth function with noise: inputs x0, x1, … and target y."""
    x = random.normal(size=(n_rows, n_inputs))
    y = np.sin(3 * x[:, 0]) * np.exp(x[:, 1] / 2) + 0.1 * random.normal(size=n_rows)
    columns = {f"x{column}": x[:, column] for column in range(n_inputs)} | {"y": y}
    pq.write_table(pa.table(columns), path, row_group_size=group_rows)
