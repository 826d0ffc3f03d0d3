"""The two metrics of the paper: root mean square error and mean negative log probability."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from sswim.posterior.prediction import Prediction


def rmse(prediction: Prediction, targets: Float[Tensor, "N T"]) -> float:
    """Return the root mean square error of the means."""
    return (prediction.mean - targets).square().mean().sqrt().item()


def mnlp(prediction: Prediction, targets: Float[Tensor, "N T"]) -> float:
    """Return the mean negative log probability of the observations, in nats."""
    return -prediction.log_density(targets).mean().item()
