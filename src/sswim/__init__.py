"""Sparse spectrum warped input measures: nonstationary probabilistic regression.

Data flows one way, and each room imports only the rooms above it:

- ``base``: records, factorisations, checks
- ``files``: files that are complete or absent
- ``distributed``: several processes
- ``search``: nearest points
- ``rows``: where rows come from
- ``kernels``: kernels, frequencies, features
- ``warps``: warps of inputs and targets, the noise field
- ``members``: members of an ensemble: parameters, training, predictions
- ``ensemble``: the default ensemble: plan, folds, fit, stacking, mixtures
- ``insight``: what a model has learnt: relevance of columns, local metrics, effects
- ``conformal``: intervals with a guarantee and signs of drift, from rows that were not seen
- ``surrogate``: models of few rows for optimisation
- ``tables``: Parquet, CSV and Arrow
- ``estimator``: the three estimators, model files, evaluation
- ``maps``: predictions on grids, their files, errors of blocks
- ``plotting``: figures and pages
- ``report``: one page about a model and rows with known targets
- ``integrations``: sswim inside other libraries
- ``cli``: the command line

Names are imported on first use, so that ``import sswim`` and ``sswim --version`` are fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sswim.base.version import __version__

if TYPE_CHECKING:
    from sswim.base.validation import UserError
    from sswim.ensemble.plan import Recipe
    from sswim.estimator import NeighbourGPRegressor, SSWIMRegressor, WarpedGPRegressor, load
    from sswim.estimator.evaluation import Scores, evaluate
    from sswim.members.checkpoints import Checkpoints

__all__ = [
    "Checkpoints",
    "NeighbourGPRegressor",
    "Recipe",
    "SSWIMRegressor",
    "Scores",
    "UserError",
    "WarpedGPRegressor",
    "__version__",
    "evaluate",
    "load",
]

_HOMES = {
    "Checkpoints": "sswim.members.checkpoints",
    "NeighbourGPRegressor": "sswim.estimator",
    "Recipe": "sswim.ensemble.plan",
    "SSWIMRegressor": "sswim.estimator",
    "Scores": "sswim.estimator.evaluation",
    "UserError": "sswim.base.validation",
    "WarpedGPRegressor": "sswim.estimator",
    "evaluate": "sswim.estimator.evaluation",
    "load": "sswim.estimator",
}
"""Where each public name comes from."""

_MOVED = {
    "sswim.base.cholesky": ("FactorisationError",),
    "sswim.ensemble": ("learn_noise",),
    "sswim.members": (
        *("EVIDENCE", "LEAVE_ONE_OUT", "MAP", "SSWIM", "Adam", "Architecture", "Objective"),
        *("Prediction", "Step", "Training", "condition", "enrich", "start", "train"),
    ),
    "sswim.rows": ("Measure", "Rows", "as_measure", "as_rows"),
}
"""Names that stood here until version 0.3, and the rooms that have them."""


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for."""
    if name in _HOMES:
        globals()[name] = value = getattr(import_module(_HOMES[name]), name)
        return value
    for room, names in _MOVED.items():
        if name in names:
            raise AttributeError(f"{name} has moved: from {room} import {name}.")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """List the public names, imported or not."""
    return sorted({*globals(), *__all__})
