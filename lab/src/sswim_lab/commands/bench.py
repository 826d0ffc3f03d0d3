"""The commands ``sswim bench``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from sswim.cli.console import messages, output, say, user_errors
from sswim.cli.options import AddToResults, DataFolder, Device, Repeats, Retry, Workers
from sswim_lab.commands.optimisation import optimisation, optimisation_table
from sswim_lab.commands.progress import show_fits

app = typer.Typer(help="Compare with other methods on named data sets.", no_args_is_help=True)
for command in (optimisation, optimisation_table):
    app.command()(command)

RESULTS = Path("results") / "accuracy.csv"


@app.command()
def accuracy(
    sets: Annotated[str, typer.Option(help="Data sets, separated by commas; default: all.")] = "",
    methods: Annotated[str, typer.Option(help="Methods, separated by commas.")] = "sswim",
    repeats: Repeats = None,
    device: Device = "auto",
    data: DataFolder = None,
    out: Annotated[Path, typer.Option(help="Results file, to which rows are added.")] = RESULTS,
    resume: AddToResults = True,
    workers: Workers = 1,
    retry: Retry = False,
) -> None:
    """Fit methods to repeated splits of data sets, and score their predictions."""
    from sswim_lab.bench.runner import Bench, make_plan, run

    folder = None if data is None else str(data)
    with user_errors():
        bench = Bench.named(sets, methods, out, repeats, device, folder, resume, workers, retry)
        plan = make_plan(bench)
        for note in (*plan.notes, plan.progress):
            say(messages, note)
        with show_fits(len(plan.jobs)) as show:
            failures = run(bench, plan, show)
        if out.exists():
            _print_table([out], as_markdown=False)
    for row in failures:
        say(messages, f"Failed: {row.job}: {row.failure}")
    if failures:
        raise typer.Exit(1)


@app.command()
def table(
    files: Annotated[
        list[Path] | None, typer.Argument(help="Results files; default: results/accuracy.csv.")
    ] = None,
    repeat: Annotated[
        int | None,
        typer.Option(help="Only this repeat, where methods have different numbers of them."),
    ] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown.")] = False,
    compact: Annotated[
        bool,
        typer.Option("--compact", help="Print Markdown: the default beside the best other method."),
    ] = False,
) -> None:
    """Show existing results beside the best published ones."""
    with user_errors():
        _print_table(files or [RESULTS], as_markdown=markdown, compact=compact, repeat=repeat)


def _print_table(
    files: Sequence[Path],
    *,
    as_markdown: bool,
    compact: bool = False,
    repeat: int | None = None,
) -> None:
    from sswim_lab.bench.results import read_results
    from sswim_lab.bench.summary import summarise
    from sswim_lab.bench.table import compact_markdown, describe_wins, markdown, rich_table

    rows = [row for file in files for row in read_results(file)]
    summary = summarise(row for row in rows if repeat is None or row.repeat == repeat)
    if as_markdown or compact:
        # A console would wrap its lines.
        print(compact_markdown(summary) if compact else markdown(summary))
        return
    output.print(rich_table(summary))
    for wins in summary.wins:
        say(output, describe_wins(wins))
