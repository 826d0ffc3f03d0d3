"""How good predictions are: the two metrics of the paper."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from sswim.posterior.prediction import Prediction


def rmse(prediction: Prediction, targets: Float[Tensor, "N T"]) -> float:
    """Root mean square error."""
    return (prediction.mean - targets).square().mean().sqrt().item()


def mnlp(prediction: Prediction, targets: Float[Tensor, "N T"]) -> float:
    """Mean negative log probability of the observations, in nats."""
    return -prediction.log_density(targets).mean().item()
