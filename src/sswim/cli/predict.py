"""The command ``sswim predict``."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from sswim.base.validation import as_bytes
from sswim.cli import options
from sswim.cli.console import messages, output, say, say_left_out, user_errors
from sswim.files.output_files import check_output_file, check_output_folder

if TYPE_CHECKING:
    from sswim.estimator import IntervalMethod


def predict(
    model: options.ModelPath,
    table: options.TablePath,
    out: Annotated[Path, Option(help="File or folder to write, with the predictions.")],
    level: options.Level = 0.9,
    conformal: Annotated[
        bool,
        Option(
            "--conformal",
            help="Intervals by the errors of rows that the model has not seen: held out, or given "
            "to `sswim calibrate`.",
        ),
    ] = False,
    prefix: Annotated[str, Option(help="Prefix of the names of the new columns.")] = "",
    drop_missing: options.DropMissing = False,
    separator: options.Separator = None,
    decimal: options.Decimal = None,
    encoding: options.Encoding = None,
    header: options.Header = None,
    no_formulas: Annotated[
        bool,
        Option(
            "--no-formulas",
            help="CSV: put an apostrophe before text that a spreadsheet would run as a formula.",
        ),
    ] = False,
    memory: options.Memory = "2GiB",
    timeout: options.Timeout = 1800.0,
) -> None:
    """Add the columns mean, std, median, lower and upper to a table.

    A CSV file becomes a CSV file in which all that it has stays byte for byte, or a file of another
    format. A folder of files becomes a folder of Parquet files with the same names.
    """
    from sswim.estimator.table_prediction import TablePrediction, predicted_columns
    from sswim.tables import (
        append_columns,
        complete_rows,
        is_csv,
        keep_rows,
        plain_table,
        read_small_table,
        require_columns,
        require_writable_suffix,
        write_table,
    )

    with user_errors(), options.join_launched(timeout) as processes:
        check_output = check_output_folder if table.is_dir() else check_output_file
        processes.run_everywhere(lambda: check_output(out, [model, table]))
        regressor, schema = options.load_model(model)
        csv = options.csv_options(separator, decimal, encoding, header)
        method: IntervalMethod = "conformal" if conformal else "model"
        small = None
        if processes.size == 1 and not is_csv(table):  # CSV files are copied as they are written
            small = read_small_table(table, as_bytes(memory))
        if small is not None:  # in any format
            require_writable_suffix(out)
            require_columns(small.table.schema, schema.used)
            rows = small.table
            if drop_missing:
                rows = keep_rows(rows, complete_rows(rows, schema.used))
                say_left_out(small.table.num_rows - rows.num_rows, small.table.num_rows)
            n_rows = rows.num_rows
            inputs = regressor._reader.impute(schema.encode(rows))
            columns = predicted_columns(regressor, inputs, level, method)
            written = append_columns(rows, {prefix + name: columns[name] for name in columns})
            write_table(plain_table(written) if no_formulas and is_csv(out) else written, out)
        else:
            prediction = TablePrediction(
                regressor, schema, level, prefix, drop_missing, csv, no_formulas, method
            )
            n_rows = prediction.write(table, out, partial(say, messages), processes)
        if processes.is_first:
            say(output, f"Predicted {n_rows} rows and wrote {out}.")
