"""An ensemble of members: its plan, fit, weights and predictions."""

from sswim.ensemble.ensemble import Ensemble, HeldOutFolds, PendingUpdates, make_ensemble
from sswim.ensemble.fit import Combined, fit_members
from sswim.ensemble.joint_posterior import JointPosterior
from sswim.ensemble.mixture import Mixture
from sswim.ensemble.noise_learning import learn_noise
from sswim.ensemble.plan import FittedKind, Recipe, Size, choose_size, make_plan

__all__ = [
    "Combined",
    "Ensemble",
    "FittedKind",
    "HeldOutFolds",
    "JointPosterior",
    "Mixture",
    "PendingUpdates",
    "Recipe",
    "Size",
    "choose_size",
    "fit_members",
    "learn_noise",
    "make_ensemble",
    "make_plan",
]
