"""A member of a fitted ensemble."""

from __future__ import annotations

from dataclasses import dataclass

from sswim.model.sswim import SSWIM
from sswim.posterior.predictor import Predictor


@dataclass(frozen=True)
class Member:
    """One trained model of the ensemble, and its weight."""

    model: SSWIM
    """Architecture and parameters."""
    predictor: Predictor
    """The model conditioned on all rows; it predicts standardised inputs."""
    weight: float
    """Weight in the mixture; the weights of all members add up to one."""
