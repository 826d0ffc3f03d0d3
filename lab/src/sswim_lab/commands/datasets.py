"""The command ``sswim datasets``."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sswim.cli.console import output, print_facts, say, user_errors
from sswim_lab.commands import DataFolder

if TYPE_CHECKING:
    from sswim_lab.datasets.catalogue import DataSet


def datasets(
    name: Annotated[str, typer.Argument(help="Data set to describe in full.")] = "",
    data: DataFolder = None,
) -> None:
    """List the named data sets, and show which are available."""
    from sswim_lab.datasets.catalogue import DATA_SETS, data_set

    with user_errors():
        if name:
            _print_one(data_set(name), data)
        else:
            _print_all(DATA_SETS.values(), data)


def _print_all(sets: Iterable[DataSet], data: Path | None) -> None:
    from rich.box import SIMPLE
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=SIMPLE, pad_edge=False)  # narrow, because there are many columns
    table.add_column("name", no_wrap=True)
    table.add_column("N", justify="right", no_wrap=True)
    table.add_column("D", justify="right", no_wrap=True)
    for heading in ("target", "source", "licence", "available"):
        table.add_column(heading, overflow="fold")
    places: dict[Path, list[str]] = {}
    for each in sets:
        folder, state = _availability(each, data)
        if folder is not None:
            places.setdefault(folder, []).append(each.name)
        words = map(escape, (each.target, each.source, each.licence, state))
        table.add_row(each.name, f"{each.n_rows:,}", f"{each.n_inputs:,}", *words)
    output.print(table)
    for folder, names in places.items():
        say(output, f"Available in {folder}: {', '.join(names)}.")


def _print_one(each: DataSet, data: Path | None) -> None:
    folder, state = _availability(each, data)
    facts = {
        "rows": f"{each.n_rows:,}, of which {each.n_train or 'two thirds'} train",
        "inputs": f"{each.n_inputs:,}",
        "target": each.target,
        "source": each.source,
        "described at": each.page,
        "downloaded from": "nowhere" if each.original is None else each.original.url,
        "licence": each.licence,
        "in the paper": "yes" if each.in_paper else "no",
        "preparation": each.treatment,
        "remark": each.remark or "none",
        "available": state if folder is None else f"{state}, in {folder}",
    }
    print_facts(output, each.name, facts)


def _availability(each: DataSet, data: Path | None) -> tuple[Path | None, str]:
    """Return the folder of a data set's file, and whether the file is as expected."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from sswim_lab.datasets.download import find

    path = find(each.name, data)
    if path is None:
        return None, "no"
    try:
        n_rows = pq.read_metadata(path).num_rows
    except (OSError, pa.ArrowException):
        return path.parent, "unreadable"
    expected = n_rows == each.n_rows + each.n_left_out
    return path.parent, "yes" if expected else f"{n_rows:,} rows"
