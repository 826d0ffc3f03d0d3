"""The ensemble: plan, folds, fit, stacking, mixtures."""

from sswim.ensemble.noise_learning import learn_noise
from sswim.ensemble.plan import FittedKind, Recipe
from sswim.ensemble.scores import mnlp, rmse

__all__ = ["FittedKind", "Recipe", "learn_noise", "mnlp", "rmse"]
