"""The commands ``sswim bench optimisation`` and ``sswim bench optimisation-table``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from sswim.cli.console import messages, output, say, user_errors
from sswim.cli.options import Retry, Workers
from sswim_lab.commands.progress import show_fits

RESULTS = Path("results") / "optimisation.jsonl"


def optimisation(
    problems: Annotated[str, typer.Option(help="Problems, separated by commas.")] = "",
    methods: Annotated[str, typer.Option(help="Methods, separated by commas.")] = "",
    seeds: Annotated[int, typer.Option(help="Runs of every method on every problem.")] = 10,
    evaluations: Annotated[int, typer.Option(help="Evaluations of a run, in all.")] = 60,
    out: Annotated[Path, typer.Option(help="Results file, to which runs are added.")] = RESULTS,
    workers: Workers = 1,
    time_limit: Annotated[
        float | None, typer.Option(help="Seconds after which no run starts.")
    ] = None,
    retry: Retry = False,
) -> None:
    """Minimise expensive functions, and store how fast every method does."""
    from sswim_lab.optimisation.runner import (
        Bench,
        do_runs,
        method_names,
        missing_runs,
        problem_names,
    )

    with user_errors():
        bench = Bench(
            problem_names(problems),
            method_names(methods),
            out,
            seeds,
            evaluations,
            workers,
            time_limit,
            retry,
        )
        jobs = missing_runs(bench)
        say(messages, f"{len(jobs)} runs to do.")
        with show_fits(len(jobs)) as show:
            failures = do_runs(bench, jobs, show)
        if left := missing_runs(bench):
            say(messages, f"{len(left)} runs are left: the time was up. The same command goes on.")
    for run in failures:
        say(messages, f"Failed: {run.job}: {run.failure}")
    if failures:
        raise typer.Exit(1)


def optimisation_table(
    files: Annotated[
        list[Path] | None,
        typer.Argument(help="Results files; default: results/optimisation.jsonl."),
    ] = None,
    evaluations: Annotated[
        int, typer.Option(help="Evaluations after which regrets are shown.")
    ] = 60,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown.")] = False,
    plots: Annotated[
        Path | None, typer.Option(help="Folder for a figure of every problem's regrets.")
    ] = None,
) -> None:
    """Show regrets and seconds of existing runs of the benchmark of optimisation."""
    with user_errors():
        _print_tables(files or [RESULTS], evaluations, as_markdown=markdown, plots=plots)


def _print_tables(
    files: Sequence[Path], evaluations: int, *, as_markdown: bool, plots: Path | None
) -> None:
    from sswim.base.validation import UserError
    from sswim_lab.optimisation.plots import save_plots
    from sswim_lab.optimisation.results import read_runs
    from sswim_lab.optimisation.summary import summarise
    from sswim_lab.optimisation.table import describe_ratios, markdown, rich_tables

    summary = summarise((run for file in files for run in read_runs(file)), evaluations)
    if not summary.problems:
        places = ", ".join(repr(str(file)) for file in files)
        raise UserError(f"No run of {evaluations} evaluations is in {places}.")
    if as_markdown:
        print(markdown(summary))  # a console would wrap its lines
    else:
        regrets, seconds = rich_tables(summary)
        output.print(regrets)
        for sentence in describe_ratios(summary):
            say(output, sentence)
        output.print(seconds)
    if plots is not None:
        for file in save_plots(summary, plots):
            say(messages, f"Wrote {file}.")
