"""What the processes of GPyTorch have in common, without importing it."""

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

from sswim.lab.peers.protocol import Gaussian
from sswim.lab.peers.scales import Scales

PREDICTED_ROWS = 1000
"""Test rows at a time, whose joint covariance is held in memory."""


@dataclass(frozen=True)
class Standardised:
    """Training rows as a process sees them."""

    x: Float[Tensor, "N D"]
    y: Float[Tensor, " N"]
    scales: Scales
    seed: int
    """Of everything random."""

    @classmethod
    def of(
        cls,
        x: Float64[np.ndarray, "N D"],
        y: Float64[np.ndarray, " N"],
        scales: Scales,
        seed: int,
    ) -> Standardised:
        """To zero means and unit spreads."""
        return cls(scales.inputs(x), scales.targets(y), scales, seed)

    def every_step(self, steps: int) -> Iterator[tuple[Tensor, Tensor]]:
        """All rows, for every step."""
        for _ in range(steps):
            yield self.x, self.y

    def shuffled(self, batch: int, epochs: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Batches of rows, in another order in every epoch."""
        generator = torch.Generator().manual_seed(self.seed)  # the same on every device
        for _ in range(epochs):
            order = torch.randperm(len(self.y), generator=generator).to(self.x.device)
            for rows in order.split(batch):
                yield self.x[rows], self.y[rows]


@dataclass(frozen=True)
class FittedProcess:
    """A trained process that knows its likelihood, and the scales of its rows."""

    model: Any
    rows: Standardised
    context: Callable[[], AbstractContextManager[None]] = nullcontext
    """The settings of GPyTorch to predict under."""

    def predict(self, x: Float64[np.ndarray, "M D"]) -> Gaussian:
        """The densities of the targets of rows."""
        scales = self.rows.scales
        with quiet(), seeded(self.rows.seed, scales.device), self.context(), torch.no_grad():
            return Gaussian(*scales.original(*in_batches(self._observation, scales.inputs(x))))

    def _observation(self, x: Float[Tensor, "M D"]) -> tuple[Tensor, Tensor]:
        prediction = self.model.likelihood(self.model(x))
        return prediction.mean, prediction.variance


def in_batches(
    predict: Callable[[Tensor], tuple[Tensor, Tensor]], x: Float[Tensor, "M D"]
) -> tuple[Float[Tensor, "*samples M"], Float[Tensor, "*samples M"]]:
    """Means and variances of all rows, predicted a few rows at a time."""
    means, variances = zip(*map(predict, x.split(PREDICTED_ROWS)), strict=True)
    return torch.cat(means, dim=-1), torch.cat(variances, dim=-1)


def maximise(
    model: Any,
    objective: Callable[[Any, Tensor], Tensor],
    batches: Iterable[tuple[Tensor, Tensor]],
    learning_rate: float,
) -> None:
    """Train a process by a step of Adam for every batch, and leave it ready to predict."""
    optimiser = torch.optim.Adam(model.parameters(), lr=learning_rate)
    model.train()
    for x, y in batches:
        optimiser.zero_grad()
        loss = -objective(model(x), y)
        loss.backward()
        optimiser.step()
    model.eval()


@contextmanager
def quiet() -> Iterator[None]:
    """No warnings: GPyTorch warns under a new PyTorch, and of added jitter."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextmanager
def seeded(seed: int, device: str) -> Iterator[None]:
    """Seed the global random state, which GPyTorch draws from, and restore it at the end."""
    place = torch.device(device)
    devices = [place] if place.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        torch.default_generator.manual_seed(seed)
        if devices:
            with torch.cuda.device(place):
                torch.cuda.manual_seed(seed)
        yield
