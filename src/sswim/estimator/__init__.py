"""The scikit-learn estimators, their model files and their evaluation."""

from sswim.estimator.base import BaseRegressor, SamplePaths
from sswim.estimator.fitted import IntervalMethod
from sswim.estimator.model_file import ModelFileError, load
from sswim.estimator.regressor import SSWIMRegressor
from sswim.estimator.settings import make_estimator
from sswim.estimator.warped_gp import NeighbourGPRegressor, WarpedGPRegressor

__all__ = [
    "BaseRegressor",
    "IntervalMethod",
    "ModelFileError",
    "NeighbourGPRegressor",
    "SSWIMRegressor",
    "SamplePaths",
    "WarpedGPRegressor",
    "load",
    "make_estimator",
]
