"""The command ``sswim monitor``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sswim.cli.console import output, print_facts, say, user_errors
from sswim.cli.options import ModelPath, TablePath, load_model
from sswim.files.output_files import check_output_file

if TYPE_CHECKING:
    from sswim.conformal import MonitorReport

DRIFTED = 4
"""Exit code if rows have drifted."""


def monitor(
    model: ModelPath,
    table: TablePath,
    false_alarm: Annotated[
        float, typer.Option(help="Largest probability of an alarm if nothing has changed.")
    ] = 0.01,
    inputs_only: Annotated[
        bool, typer.Option("--inputs-only", help="Watch the inputs alone, without the target.")
    ] = False,
    plot: Annotated[Path | None, typer.Option(help="Picture to write: .png, .svg or .pdf.")] = None,
) -> None:
    """Say whether the rows of a table, in their order, still look like those of the fit.

    The exit code is 4 if they do not.
    """
    with user_errors():
        if plot is not None:
            check_output_file(plot, [model, table])
        regressor, schema = load_model(model)
        target = None if inputs_only else schema.require_target()
        report = regressor.monitor(table, target, false_alarm=false_alarm)
        print_facts(output, f"{model} on {report.n_rows} rows of {table}", _as_texts(report))
        say(output, report.says)
        if plot is not None:
            _save_plot(report, plot)
    if report.alarms:
        raise typer.Exit(DRIFTED)


def _as_texts(report: MonitorReport) -> dict[str, str]:
    """Return the numbers of a report as text, by their names."""
    texts: dict[str, str] = {}
    if report.coverage is not None:
        coverage = report.coverage
        parts = zip(
            coverage.nominal, coverage.observed, coverage.expected, coverage.error, strict=True
        )
        texts |= {
            f"coverage of {nominal:.0%} intervals": (
                f"{observed:.1%} (held-out rows {expected:.1%}, ± {error:.1%})"
            )
            for nominal, observed, expected, error in parts
        }
        texts["distance of the PIT"] = f"{report.pit_distance:.3g} (p = {report.pit_p_value:.2g})"
    for name, share in (("95 %", report.share_beyond_95), ("99 %", report.share_beyond_99)):
        texts[f"inputs beyond {name} of held-out rows"] = f"{share:.1%}"
    return texts


def _save_plot(report: MonitorReport, path: Path) -> None:
    """Draw a report to a file."""
    from sswim.plotting.monitor import plot_monitor

    plot_monitor(report).savefig(path)
    say(output, f"Wrote {path}.")
