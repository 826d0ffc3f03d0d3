"""Sparse spectrum warped input measures: nonstationary probabilistic regression.

Data flows one way, and the modules follow it: ``rows`` → ``warp`` → ``features`` → ``linear`` →
``predictor`` → ``density``; ``model`` holds the parameters, ``objective`` and ``training`` learn
them.
"""

from sswim.architecture import Architecture
from sswim.factorisation import FactorisationError
from sswim.measure import Measure
from sswim.metrics import mnlp, rmse
from sswim.model import SSWIM, enrich, start
from sswim.noise_learning import learn_noise
from sswim.objective import EVIDENCE, LEAVE_ONE_OUT, MAP, Objective
from sswim.prediction import Prediction
from sswim.predictor import Predictor, condition
from sswim.recipe import Recipe
from sswim.regressor import SSWIMRegressor
from sswim.rows import Rows, as_measure, as_rows
from sswim.training import LBFGS, Adam, Step, Stopping, Training, train

__version__ = "0.1.0"

__all__ = [
    "EVIDENCE",
    "LBFGS",
    "LEAVE_ONE_OUT",
    "MAP",
    "SSWIM",
    "Adam",
    "Architecture",
    "FactorisationError",
    "Measure",
    "Objective",
    "Prediction",
    "Predictor",
    "Recipe",
    "Rows",
    "SSWIMRegressor",
    "Step",
    "Stopping",
    "Training",
    "as_measure",
    "as_rows",
    "condition",
    "enrich",
    "learn_noise",
    "mnlp",
    "rmse",
    "start",
    "train",
]
