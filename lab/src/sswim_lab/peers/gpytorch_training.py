"""Training and prediction that the GPs of GPyTorch share, without importing it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Float64
from torch import Tensor

from sswim_lab.peers.protocol import Gaussian
from sswim_lab.peers.standardised_rows import StandardisedRows

PREDICTED_ROWS = 1000
"""Number of test rows in a chunk, whose joint covariance is in memory."""


@dataclass(frozen=True)
class FittedGPyTorchModel:
    """A trained model of GPyTorch that has a likelihood."""

    model: Any
    rows: StandardisedRows
    seed: int
    """Seed of the predictions, some of which are random."""
    context: Callable[[], AbstractContextManager[None]] = nullcontext
    """Settings of GPyTorch for predictions."""

    def predict(self, x: Float64[np.ndarray, "M D"]) -> Gaussian:
        """Return the predictive densities at rows."""
        inputs = self.rows.inputs(x)
        with quiet(), seeded(self.seed, inputs.device), self.context(), torch.no_grad():
            return self.rows.gaussian(*predict_in_chunks(self._observation, inputs))

    def _observation(self, x: Float[Tensor, "M D"]) -> tuple[Tensor, Tensor]:
        """Return the standardised mean and variance of observations."""
        prediction = self.model.likelihood(self.model(x))
        return prediction.mean, prediction.variance


def predict_in_chunks(
    predict: Callable[[Tensor], tuple[Tensor, Tensor]], x: Float[Tensor, "M D"]
) -> tuple[Float[Tensor, "*samples M"], Float[Tensor, "*samples M"]]:
    """Return the means and variances of all rows, predicted one chunk after another."""
    means, variances = zip(*map(predict, x.split(PREDICTED_ROWS)), strict=True)
    return torch.cat(means, dim=-1), torch.cat(variances, dim=-1)


def maximise(
    model: Any,
    objective: Callable[[Any, Tensor], Tensor],
    batches: Iterable[tuple[Tensor, Tensor]],
    learning_rate: float,
) -> None:
    """Train a model by one step of Adam for every mini-batch, and leave it ready to predict."""
    optimiser = torch.optim.Adam(model.parameters(), lr=learning_rate)
    model.train()
    for x, y in batches:
        optimiser.zero_grad()
        loss = -objective(model(x), y)
        loss.backward()
        optimiser.step()
    model.eval()


def mini_batches(
    rows: StandardisedRows, size: int, epochs: int, seed: int
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield mini-batches of rows, in another random order in every epoch."""
    generator = torch.Generator().manual_seed(seed)  # the same on every device
    for _ in range(epochs):
        order = torch.randperm(len(rows.y), generator=generator).to(rows.x.device)
        for chosen in order.split(size):
            yield rows.x[chosen], rows.y[chosen]


@contextmanager
def quiet() -> Iterator[None]:
    """Suppress warnings: GPyTorch warns under a new PyTorch, and of added jitter."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Seed the global random state, which GPyTorch draws from, and restore it at the end."""
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        torch.default_generator.manual_seed(seed)
        if devices:
            with torch.cuda.device(device):
                torch.cuda.manual_seed(seed)
        yield
