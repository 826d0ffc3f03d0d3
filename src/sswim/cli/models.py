"""Model files and the tables that they can read."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from sswim.base.outputs import check_output_file, require_replaceable

if TYPE_CHECKING:
    from sswim.estimator.regressor import SSWIMRegressor
    from sswim.tables.schema import Schema


def load_model(path: Path) -> tuple[SSWIMRegressor, Schema]:
    """Read a model file, and how the model reads tables."""
    from sswim.estimator.regressor import SSWIMRegressor

    regressor = SSWIMRegressor.load(path)
    return regressor, table_schema(regressor)


def check_model_output(out: Path, inputs: Iterable[Path], *, force: bool) -> None:
    """Raise before work if a model could not be written, or would replace something else.

    Args:
        out: The model file to write.
        inputs: Files and folders that the command reads.
        force: Whether a file of another kind may be replaced.
    """
    from sswim.estimator.model_file import MODEL

    check_output_file(out, inputs)
    if not force:
        require_replaceable(out, f'{{"__metadata__":{{"{MODEL.key}"'.encode(), MODEL.key)


def table_schema(regressor: SSWIMRegressor) -> Schema:
    """Return how a model reads tables.

    A model that was fitted in Python on named columns reads numbers by these names.
    """
    from sswim.tables.columns import NumberColumn
    from sswim.tables.schema import Schema
    from sswim.tables.schema_file import schema_from_dict
    from sswim.tables.table_io import TableError

    if regressor.n_targets_ > 1:
        raise TableError(
            f"The command line predicts one target. Got a model of {regressor.n_targets_}; "
            "use it in Python, or fit one model for each target."
        )
    if hasattr(regressor, "table_schema_"):
        return schema_from_dict(regressor.table_schema_)
    names = getattr(regressor, "feature_names_in_", None)
    if names is None:
        raise TableError(
            "The model must know the names of its columns. This one was fitted on arrays without "
            "names; fit it on a data frame, or with `sswim fit`."
        )
    return Schema("", tuple(NumberColumn(str(name)) for name in names))
