"""The commands that compare a model with new rows: ``evaluate``, ``calibrate``, ``monitor``."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Option

from sswim.base.validation import UserError, as_bytes
from sswim.cli import options
from sswim.cli.console import cell, messages, output, print_facts, say, say_left_out, user_errors
from sswim.files.output_files import check_output_file, save_somewhere

if TYPE_CHECKING:
    from sswim.conformal import MonitorReport
    from sswim.estimator.evaluation import Importance, Scores
    from sswim.maps import BlockEvaluation

DRIFTED = 4
"""Exit code if rows have drifted."""


def evaluate(
    model: options.ModelPath,
    table: options.TablePath,
    level: options.Level = 0.9,
    drop_missing: options.DropMissing = False,
    drop_missing_target: options.DropMissingTarget = False,
    separator: options.Separator = None,
    decimal: options.Decimal = None,
    encoding: options.Encoding = None,
    header: options.Header = None,
    memory: options.Memory = "2GiB",
    timeout: options.Timeout = 1800.0,
    blocks: Annotated[
        float | None,
        Option(help="Side of blocks of the map: fit again without blocks, and score these."),
    ] = None,
    folds: Annotated[int, Option(help="Number of folds, with --blocks.")] = 5,
    coordinates: options.Coordinates = None,
    importance: Annotated[
        bool, Option("--importance", help="Shuffle each column, and show how much worse it gets.")
    ] = False,
) -> None:
    """Compare predictions with the target column of a table.

    With --blocks, the settings of the model are fitted to the table again: without each fold of
    blocks of the map, and without each of as many random folds.
    """
    from sswim.estimator.evaluation import evaluate_table, permutation_importance
    from sswim.tables import LeftOut

    left_out = LeftOut(drop_missing, drop_missing_target)
    with user_errors():
        csv = options.csv_options(separator, decimal, encoding, header)
        if importance and blocks is not None:
            raise UserError(
                "--importance is about the model of the file, and --blocks fits others. Got both; "
                "give one at a time."
            )
        if blocks is not None:
            from sswim.maps import evaluate_table_blocks

            evaluation = evaluate_table_blocks(
                *options.load_model(model),
                table,
                blocks,
                n_folds=folds,
                coordinates=options.split_coordinates(coordinates),
                level=level,
                left_out=left_out,
                csv=csv,
                say=partial(say, messages),
            )
            n_rows, n_left_out = evaluation.blocks.n_rows, evaluation.blocks.n_left_out
            say_left_out(n_left_out, n_left_out + n_rows)
            title = f"settings of {model} on {n_rows} rows of {table}, {folds} folds"
            _print_side_by_side(title, evaluation, level)
            return
    with user_errors(), options.join_launched(timeout) as processes:
        regressor, schema = options.load_model(model)
        size = as_bytes(memory)
        scores = evaluate_table(regressor, schema, table, level, left_out, processes, size, csv)
        if processes.is_first:
            say_left_out(scores.n_left_out, scores.n_left_out + scores.n_rows)
            title = f"{model} on {scores.n_rows} rows of {table}"
            print_facts(output, title, _score_texts(scores, level))
        if importance:
            reading: dict[str, Any] = {"left_out": left_out, "memory": size, "csv": csv}
            rises = permutation_importance(
                regressor, schema, table, processes=processes, say=partial(say, messages), **reading
            )
            if processes.is_first:
                _print_importance(rises)


def _print_importance(importance: Importance) -> None:
    """Print how much worse predictions become when a column is shuffled."""
    from rich.table import Table

    n_rows, n_all = importance.scores.n_rows, importance.n_rows
    rows = f"{n_rows} rows" if n_rows == n_all else f"{n_rows} of {n_all} rows"
    table = Table("column", title=f"rise of scores when a column is shuffled ({rows})")
    for score in ("RMSE", "MNLP"):
        table.add_column(score, justify="right", no_wrap=True)
    for column in importance.columns:
        rises = [f"{rise.mean:+.3g} ± {rise.deviation:.1g}" for rise in (column.rmse, column.mnlp)]
        table.add_row(cell(column.name), *rises)
    output.print(table)


def _print_side_by_side(title: str, evaluation: BlockEvaluation, level: float) -> None:
    """Print the scores of blocks and of random rows as two columns."""
    from rich.table import Table

    table = Table("", f"{evaluation.n_blocks} blocks", "random rows", title=cell(title))
    at_random = _score_texts(evaluation.random, level)
    for name, text in _score_texts(evaluation.blocks, level).items():
        table.add_row(name, text, at_random[name])
    output.print(table)


def _score_texts(scores: Scores, level: float) -> dict[str, str]:
    """Return scores as text, by their names."""
    return {
        "RMSE": f"{scores.rmse:.6g}",
        "MNLP": f"{scores.mnlp:.6g}",
        "R²": f"{scores.r2:.6g}",
        f"coverage of {level:.0%} intervals": f"{scores.coverage:.1%}",
    }


def calibrate(
    model: options.ModelPath,
    table: options.TablePath,
    out: Annotated[Path, Option(help="File to write the calibrated model to.")],
    force: options.Force = False,
) -> None:
    """Learn the sizes of conformal intervals from a table of rows that the fit did not get.

    `sswim predict --conformal` then covers new observations as often as --level says, even if
    the model is wrong. The model and its predictions stay as they are.
    """
    with user_errors():
        options.check_model_output(out, [model, table], force=force)
        regressor, schema = options.load_model(model)
        regressor.calibrate(table, schema.require_target())
        save_somewhere(regressor.save, out)
        say(output, f"Calibrated {model} with {regressor.n_held_out_:g} rows and wrote {out}.")


def monitor(
    model: options.ModelPath,
    table: options.TablePath,
    false_alarm: Annotated[
        float, Option(help="Largest probability of an alarm if nothing has changed.")
    ] = 0.01,
    inputs_only: Annotated[
        bool, Option("--inputs-only", help="Watch the inputs alone, without the target.")
    ] = False,
    plot: Annotated[Path | None, Option(help="Picture to write: .png, .svg or .pdf.")] = None,
) -> None:
    """Say whether the rows of a table, in their order, still look like those of the fit.

    The exit code is 4 if they do not.
    """
    with user_errors():
        if plot is not None:
            check_output_file(plot, [model, table])
        regressor, schema = options.load_model(model)
        target = None if inputs_only else schema.require_target()
        report = regressor.monitor(table, target, false_alarm=false_alarm)
        print_facts(output, f"{model} on {report.n_rows} rows of {table}", _monitor_texts(report))
        say(output, report.says)
        if plot is not None:
            from sswim.plotting import plot_monitor

            plot_monitor(report).savefig(plot)
            say(output, f"Wrote {plot}.")
    if report.alarms:
        raise typer.Exit(DRIFTED)


def _monitor_texts(report: MonitorReport) -> dict[str, str]:
    """Return the numbers of a report as text, by their names."""
    texts: dict[str, str] = {}
    if report.coverage is not None:
        coverage = report.coverage
        shares = (coverage.nominal, coverage.observed, coverage.expected, coverage.error)
        for nominal, observed, expected, error in zip(*shares, strict=True):
            text = f"{observed:.1%} (held-out rows {expected:.1%}, ± {error:.1%})"
            texts[f"coverage of {nominal:.0%} intervals"] = text
        texts["distance of the PIT"] = f"{report.pit_distance:.3g} (p = {report.pit_p_value:.2g})"
    for name, share in (("95 %", report.share_beyond_95), ("99 %", report.share_beyond_99)):
        texts[f"inputs beyond {name} of held-out rows"] = f"{share:.1%}"
    return texts
