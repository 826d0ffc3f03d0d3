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
- ``estimator``: ``SSWIMRegressor``, model files, evaluation
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
    from sswim.base.cholesky import FactorisationError
    from sswim.ensemble.noise_learning import learn_noise
    from sswim.ensemble.plan import Recipe
    from sswim.ensemble.scores import mnlp, rmse
    from sswim.estimator import NeighbourGPRegressor, SSWIMRegressor, WarpedGPRegressor, load
    from sswim.estimator.evaluation import Scores, evaluate
    from sswim.members.architecture import Architecture
    from sswim.members.checkpoints import Checkpoints
    from sswim.members.feature_predictor import condition
    from sswim.members.history import Step, Training
    from sswim.members.linear_regression import Prediction
    from sswim.members.model import SSWIM
    from sswim.members.objective import EVIDENCE, LEAVE_ONE_OUT, MAP, Objective
    from sswim.members.predictor import Predictor
    from sswim.members.start import enrich, start
    from sswim.members.training import Adam, train
    from sswim.rows.rows import Measure, Rows, as_measure, as_rows

_HOMES = {
    "base.cholesky": ("FactorisationError",),
    "ensemble.noise_learning": ("learn_noise",),
    "ensemble.plan": ("Recipe",),
    "ensemble.scores": (
        "mnlp",
        "rmse",
    ),
    "estimator.evaluation": (
        "Scores",
        "evaluate",
    ),
    "estimator": ("NeighbourGPRegressor", "SSWIMRegressor", "WarpedGPRegressor", "load"),
    "members.architecture": ("Architecture",),
    "members.checkpoints": ("Checkpoints",),
    "members.feature_predictor": ("condition",),
    "members.history": (
        "Step",
        "Training",
    ),
    "members.linear_regression": ("Prediction",),
    "members.model": ("SSWIM",),
    "members.objective": (
        "EVIDENCE",
        "LEAVE_ONE_OUT",
        "MAP",
        "Objective",
    ),
    "members.predictor": ("Predictor",),
    "members.start": (
        "enrich",
        "start",
    ),
    "members.training": (
        "Adam",
        "train",
    ),
    "rows.rows": (
        "Measure",
        "Rows",
        "as_measure",
        "as_rows",
    ),
}
"""The module that defines each public name."""

_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "EVIDENCE",
    "LEAVE_ONE_OUT",
    "MAP",
    "SSWIM",
    "Adam",
    "Architecture",
    "Checkpoints",
    "FactorisationError",
    "Measure",
    "NeighbourGPRegressor",
    "Objective",
    "Prediction",
    "Predictor",
    "Recipe",
    "Rows",
    "SSWIMRegressor",
    "Scores",
    "Step",
    "Training",
    "WarpedGPRegressor",
    "__version__",
    "as_measure",
    "as_rows",
    "condition",
    "enrich",
    "evaluate",
    "learn_noise",
    "load",
    "mnlp",
    "rmse",
    "start",
    "train",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for."""
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names, imported or not."""
    return sorted({*globals(), *__all__})
