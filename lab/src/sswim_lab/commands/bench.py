"""The commands ``sswim bench``: accuracy on data sets, and the minimisation of functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Protocol

import typer

from sswim.cli.console import messages, output, say, user_errors
from sswim.cli.options import Device
from sswim_lab.commands import AddToResults, DataFolder, Repeats, Retry, Workers

app = typer.Typer(help="Compare with other methods on named data sets.", no_args_is_help=True)

RESULTS = Path("results") / "accuracy.csv"
RUNS = Path("results") / "optimisation.jsonl"


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


@app.command()
def optimisation(
    problems: Annotated[str, typer.Option(help="Problems, separated by commas.")] = "",
    methods: Annotated[str, typer.Option(help="Methods, separated by commas.")] = "",
    seeds: Annotated[int, typer.Option(help="Runs of every method on every problem.")] = 10,
    evaluations: Annotated[int, typer.Option(help="Evaluations of a run, in all.")] = 60,
    out: Annotated[Path, typer.Option(help="Results file, to which runs are added.")] = RUNS,
    workers: Workers = 1,
    time_limit: Annotated[
        float | None, typer.Option(help="Seconds after which no run starts.")
    ] = None,
    retry: Retry = False,
) -> None:
    """Minimise expensive functions, and store how fast every method does."""
    from sswim_lab.optimisation.runs import (
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


@app.command()
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
        _print_tables(files or [RUNS], evaluations, as_markdown=markdown, plots=plots)


def _print_tables(
    files: Sequence[Path], evaluations: int, *, as_markdown: bool, plots: Path | None
) -> None:
    from sswim.base.validation import UserError
    from sswim_lab.optimisation.runs import read_runs
    from sswim_lab.optimisation.summary import summarise
    from sswim_lab.optimisation.table import describe_ratios, markdown, rich_tables, save_plots

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


class Done(Protocol):
    """The result of a fit, or of another job."""

    @property
    def job(self) -> object:
        """The job, which prints as what was done."""


@contextmanager
def show_fits(n_fits: int) -> Iterator[Callable[[Done], None]]:
    """Show finished fits, the time left and the latest fit on the standard error stream.

    Yields:
        A function to call with the result of each finished fit.
    """
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    with Progress(
        TextColumn("fits"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[latest]}", markup=False),
        console=messages,
    ) as bar:
        task = bar.add_task("fits", total=n_fits, latest="")
        yield lambda row: bar.update(task, advance=1, latest=str(row.job))
