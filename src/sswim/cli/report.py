"""The command ``sswim report``."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Annotated

from typer import Option

from sswim.base.validation import as_bytes, require_integer
from sswim.cli import options
from sswim.cli.console import messages, output, say, say_left_out, user_errors
from sswim.files.output_files import check_output_file, require_replaceable, save_somewhere


def report(
    model: options.ModelPath,
    table: options.TablePath,
    out: Annotated[Path, Option(help="The page to write.")] = Path("report.html"),
    max_rows: Annotated[
        int, Option(help="Largest number of rows to use; of more, a random sample.")
    ] = 5000,
    random_state: Annotated[
        int, Option(help="Seed of the sample and of the intervals of scores.")
    ] = 0,
    drop_missing: options.DropMissing = False,
    drop_missing_target: options.DropMissingTarget = False,
    separator: options.Separator = None,
    decimal: options.Decimal = None,
    encoding: options.Encoding = None,
    header: options.Header = None,
    memory: options.Memory = "2GiB",
    force: Annotated[
        bool, Option("--force", help="Replace an existing file that is no page.")
    ] = False,
) -> None:
    """Write a page about a model and a table of rows that it was not fitted to.

    The page has scores, calibration, residuals, effects and the rows that surprise most, and needs
    nothing but a browser.
    """
    with user_errors():
        require_integer("--max-rows", max_rows, 1)
        require_integer("--random-state", random_state, 0)
        csv = options.csv_options(separator, decimal, encoding, header)
        check_output_file(out, [model, table])
        if not force:
            require_replaceable(out, b"<!DOCTYPE html>", "page")
        regressor, schema = options.load_model(model)

        from sswim.report import report_page, table_report_rows
        from sswim.report.page import write_page
        from sswim.tables import LeftOut, TableNote, sample_table

        sample = sample_table(
            schema,
            table,
            max_rows,
            random_state=random_state,
            left_out=LeftOut(drop_missing, drop_missing_target),
            memory=as_bytes(memory),
            csv=csv,
        )
        for note in sample.notes:
            warnings.warn(note, TableNote, stacklevel=2)
        say_left_out(sample.n_left_out, sample.n_left_out + sample.n_rows)
        if len(sample.rows.numbers) < sample.n_rows:
            say(messages, f"Using {max_rows:,} of {sample.n_rows:,} rows, seed {random_state}.")
        page = report_page(
            regressor,
            table_report_rows(regressor, sample, schema.require_target()),
            random_state=random_state,
            facts={"model file": model.name, "table": table.name},
            say=lambda text: say(messages, text),
        )
        save_somewhere(lambda path: write_page(path, page), out)
        say(output, f"Wrote {out} ({len(page.encode()) / 1e6:.2f} MB).")
