"""Members of an ensemble: their parameters, training and predictions."""

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

__all__ = [
    "EVIDENCE",
    "LEAVE_ONE_OUT",
    "MAP",
    "SSWIM",
    "Adam",
    "Architecture",
    "Checkpoints",
    "Objective",
    "Prediction",
    "Predictor",
    "Step",
    "Training",
    "condition",
    "enrich",
    "start",
    "train",
]
