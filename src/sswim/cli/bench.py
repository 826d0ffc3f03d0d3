"""The commands ``sswim bench``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sswim.cli.console import messages, output, say, user_errors

if TYPE_CHECKING:
    from sswim.lab.bench.accuracy import Row

app = typer.Typer(help="Compare with other methods on named data sets.", no_args_is_help=True)

RESULTS = Path("results") / "accuracy.csv"


@app.command()
def accuracy(
    sets: Annotated[str, typer.Option(help="Data sets, with commas between; all by default.")] = "",
    methods: Annotated[str, typer.Option(help="Methods, with commas between.")] = "sswim",
    repeats: Annotated[
        int | None, typer.Option(help="By default 10 up to 10,000 rows, 3 above.")
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, …")] = "auto",
    data: Annotated[
        Path | None, typer.Option(help="The folder of the data sets; or set SSWIM_DATA.")
    ] = None,
    out: Annotated[Path, typer.Option(help="The file of results, to which rows are added.")] = (
        RESULTS
    ),
    resume: Annotated[bool, typer.Option(help="Add to results that are there.")] = True,
    workers: Annotated[int, typer.Option(help="Processes.")] = 1,
    retry: Annotated[bool, typer.Option("--retry", help="Repeat fits that failed.")] = False,
) -> None:
    """Fit methods to repeated splits of data sets, and score their predictions."""
    from sswim.lab.bench.runner import (  # noqa: PLC0415 (other commands start sooner)
        Bench,
        make_plan,
        run,
    )

    folder = None if data is None else str(data)
    with user_errors():
        bench = Bench.named(sets, methods, out, repeats, device, folder, resume, workers, retry)
        plan = make_plan(bench)
        for note in (*plan.notes, plan.progress):
            say(messages, note)
        with progress(len(plan.jobs)) as show:
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
        list[Path] | None, typer.Argument(help="Files of results, results/accuracy.csv by default.")
    ] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="For a page on GitHub.")] = False,
) -> None:
    """Show results that are there, beside the best published."""
    with user_errors():
        _print_table(files or [RESULTS], as_markdown=markdown)


def _print_table(files: Sequence[Path], *, as_markdown: bool) -> None:
    from sswim.lab.bench.results import read_results  # noqa: PLC0415 (as above)
    from sswim.lab.bench.summary import summarise  # noqa: PLC0415
    from sswim.lab.bench.table import markdown, rich_table, tally  # noqa: PLC0415

    summary = summarise(row for file in files for row in read_results(file))
    if as_markdown:
        print(markdown(summary))  # as it is: a console would wrap its lines
        return
    output.print(rich_table(summary))
    for counts in summary.tallies:
        say(output, tally(counts))


@contextmanager
def progress(n_fits: int) -> Iterator[Callable[[Row], None]]:
    """Show fits done, time left and the latest of them on the standard error stream."""
    from rich.progress import (  # noqa: PLC0415 (as above)
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
        yield lambda result: bar.update(task, advance=1, latest=str(result.job))
