"""The command ``sswim calibrate``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sswim.base.outputs import save_somewhere
from sswim.cli.console import output, say, user_errors
from sswim.cli.models import check_model_output, load_model
from sswim.cli.options import Force, ModelPath, TablePath


def calibrate(
    model: ModelPath,
    table: TablePath,
    out: Annotated[Path, typer.Option(help="File to write the calibrated model to.")],
    force: Force = False,
) -> None:
    """Learn the sizes of conformal intervals from a table of rows that the fit did not get.

    `sswim predict --conformal` then covers new observations as often as --coverage says, even if
    the model is wrong. The model and its predictions stay as they are.
    """
    with user_errors():
        check_model_output(out, [model, table], force=force)
        regressor, schema = load_model(model)
        regressor.calibrate(table, schema.require_target())
        save_somewhere(regressor.save, out)
        say(output, f"Calibrated {model} with {regressor.n_held_out_:g} rows and wrote {out}.")
