"""Measure how large reports are, and how long they take.

    python lab/benchmarks/report.py
    python lab/benchmarks/report.py --tables mcycle concrete --folder pages
    python lab/benchmarks/report.py --table

The default is fitted to some rows of each table, as it is (text and dates included), and a report
is written about others. Every report is one line of ``results/report.jsonl``; with ``--folder`` the
pages are kept there. Seconds are those of the processor: a shared machine does not change them
much. Set OMP_NUM_THREADS=1 for those of one core.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from scripting import append_line, read_lines, script_parser, stored, table_line
from sswim_lab.datasets import find

from sswim import SSWIMRegressor
from sswim.report import write_report

RESULTS = Path("results/report.jsonl")


@dataclass(frozen=True)
class Task:
    """How many rows of a table are for the fit and for the report."""

    n_train: int
    n_test: int
    drop: tuple[str, ...] = ()
    """Columns that are not used."""


TASKS = {
    "mcycle": Task(100, 33),
    "prism_elevation": Task(2000, 2000),
    "concrete": Task(773, 257),
    "abalone": Task(1500, 2600),
    "ailerons": Task(1000, 3000, ("part",)),
    "nycflights13": Task(
        1500,
        2000,
        # They are known only after the flight, or repeat time_hour.
        (
            *("dep_delay", "dep_time", "arr_time", "air_time"),
            *("year", "month", "day", "hour", "minute"),
        ),
    ),
}


def read_rows(name: str, task: Task) -> tuple[pa.Table, pa.Table]:
    """Return random rows of a table for the fit and for the report; the target is last."""
    path = find(name)
    if path is None:
        raise SystemExit(f"There is no {name}.parquet; see docs/data.md.")
    table = pq.read_table(path).drop_columns(list(task.drop))
    order = np.random.default_rng(0).permutation(len(table))
    ends = task.n_train, task.n_train + task.n_test
    return table.take(order[: ends[0]]), table.take(order[ends[0] : ends[1]])


def measure(name: str, folder: Path) -> dict[str, Any]:
    """Fit a table, write a report, and return its size and its time."""
    task = TASKS[name]
    train, test = read_rows(name, task)
    target = train.column_names[-1]
    model = SSWIMRegressor(random_state=0).fit(train, target)
    page = folder / f"{name}.html"
    began = process_time()
    write_report(model, test, target, page)
    seconds = process_time() - began
    return {
        "table": name,
        "columns": train.num_columns - 1,
        "rows_of_fit": len(train),
        "rows": len(test),
        "members": len(model.members_),
        "bytes": page.stat().st_size,
        "seconds": round(seconds, 1),
        "threads": torch.get_num_threads(),
    }


def print_table() -> None:
    """Print the results as a table."""
    latest = {line["table"]: line for line in read_lines(stored(RESULTS))}
    print(table_line(["table", "columns", "rows", "members", "size, kB", "seconds"]))
    print(table_line(["---"] * 6))
    for line in latest.values():
        size = f"{line['bytes'] / 1000:.0f}"
        names = (line["table"], line["columns"], f"{line['rows']:,}", line["members"])
        print(table_line([*map(str, names), size, f"{line['seconds']:.0f}"]))


def main() -> None:
    """Measure tables, or print what was measured."""
    parser = script_parser(__doc__)
    parser.add_argument("--tables", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--folder", type=Path, help="folder that keeps the pages")
    parser.add_argument("--table", action="store_true", help="print the results as a table")
    options = parser.parse_args()
    if options.table:
        print_table()
        return
    with tempfile.TemporaryDirectory() as temporary:
        for name in options.tables:
            line = measure(name, options.folder or Path(temporary))
            append_line(RESULTS, line)
            print(line, flush=True)


if __name__ == "__main__":
    main()
