"""A trained model conditioned on rows, ready to predict."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from operator import itemgetter

import torch
from jaxtyping import Float64
from torch import Tensor

from sswim.linear import Posterior, Statistics, leave_one_out, posterior
from sswim.measure import Measure
from sswim.model import SSWIM, Factors, row_features, warped
from sswim.objective import total_statistics
from sswim.prediction import Prediction
from sswim.record import Record
from sswim.rows import Rows

CHUNK_ROWS = 4096
"""Rows looked at together, so that memory does not grow with the number of rows."""


@dataclass(frozen=True)
class Predictor(Record):
    """All that predictions and further rows need; none of the rows it was made of."""

    factors: Factors
    signal: Float64[Tensor, " T"]
    """s²"""
    statistics: Statistics
    posterior: Posterior

    @torch.no_grad()
    def predict(self, inputs: Measure) -> Prediction:
        """Predict the targets of inputs, certain or not."""
        return _concatenate(
            self.posterior.predict(row_features(self.factors, chunk)) for chunk in _cut(inputs)
        )

    @torch.no_grad()
    def leave_one_out(self, rows: Rows) -> Prediction:
        """Predict each of the rows this was conditioned on from all the others."""
        return _concatenate(
            leave_one_out(
                row_features(self.factors, chunk.inputs),
                chunk.targets,
                self.posterior,
                chunk.weight,
            )
            for chunk in rows.chunks(CHUNK_ROWS)
        )

    @torch.no_grad()
    def covariance(self, inputs: Measure) -> Float64[Tensor, "T N N"]:
        """Joint latent covariance of the inputs' function values, for every target."""
        return self.posterior.covariance(row_features(self.factors, inputs))

    @torch.no_grad()
    def sample(
        self, n: int, generator: torch.Generator
    ) -> Callable[[Measure], Float64[Tensor, "n N T"]]:
        """Draw n functions from the posterior, to be evaluated anywhere and any number of times."""
        weights = self.posterior.sample_weights(n, generator)

        @torch.no_grad()
        def functions(inputs: Measure) -> Float64[Tensor, "n N T"]:
            values = [
                row_features(self.factors, chunk).to(torch.float64) @ weights
                for chunk in _cut(inputs)
            ]
            return torch.cat(values, dim=1)

        return functions

    @torch.no_grad()
    def warp(self, inputs: Measure) -> list[Measure]:
        """The measures after each warp in turn, beginning with the inputs themselves."""
        return warped(self.factors, inputs)

    @torch.no_grad()
    def update(self, rows: Rows) -> Predictor:
        """Condition on more rows as well; exact, parameters kept, old rows not needed."""
        total = self.statistics + total_statistics(self.factors, rows.chunks(CHUNK_ROWS))
        return replace(
            self,
            statistics=total,
            posterior=posterior(total, self.posterior.noise, self.signal),
        )


@torch.no_grad()
def condition(model: SSWIM, rows: Rows) -> Predictor:
    """Condition a model on rows; the model may change afterwards without effect on the result."""
    factors = model.condition()[0].to(dtype=rows.inputs.mean.dtype)
    total = total_statistics(factors, rows.chunks(CHUNK_ROWS))
    signal, noise = model.signal(), model.noise()
    return Predictor(factors, signal, total, posterior(total, noise, signal))


def _cut(inputs: Measure) -> Iterable[Measure]:
    for start in range(0, len(inputs.mean), CHUNK_ROWS):
        yield inputs.map(itemgetter(slice(start, start + CHUNK_ROWS)))


def _concatenate(predictions: Iterable[Prediction]) -> Prediction:
    parts = [prediction.tensors() for prediction in predictions]
    return Prediction(*(torch.cat(tensors) for tensors in zip(*parts, strict=True)))
