"""A trained model conditioned on rows, ready to predict."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float64
from torch import Tensor

from sswim.base.record import Record, chunks, concatenate, map_chunks, rows_at_once
from sswim.distributed.processes import ALONE, Processes
from sswim.model.observations import (
    expected_top_quadratic,
    log_precision,
    observe,
    row_features,
    top_features,
    warped,
)
from sswim.model.sswim import SSWIM, Factors
from sswim.posterior.linear_regression import Posterior, leave_one_out, posterior
from sswim.posterior.prediction import Mean, Prediction
from sswim.posterior.statistics import Statistics, total_statistics
from sswim.rows.measure import Measure
from sswim.rows.rows import Rows

PAIRS = 2**22
"""Pairs of frequencies looked at together where inputs are uncertain, for the same reason."""


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
        """Predict the warped targets of inputs; of uncertain ones by the first two moments."""
        if inputs.input_variance is not None:
            return self._predict_uncertain(inputs)
        return map_chunks(
            lambda chunk: self.posterior.predict(
                row_features(self.factors, chunk), log_precision(self.factors, chunk)
            ),
            inputs,
            rows_at_once(inputs),
        )

    @torch.no_grad()
    def predict_mean(self, inputs: Measure) -> Mean:
        """The means alone, for a fraction of the cost."""

        def predict(chunk: Measure) -> Mean:
            return Mean(row_features(self.factors, chunk).to(torch.float64) @ self.posterior.mean)

        return map_chunks(predict, inputs, rows_at_once(inputs))

    def _predict_uncertain(self, inputs: Measure) -> Prediction:
        """Mean φ̄ᵀα and latent variance E[φᵀ(σ²A⁻¹ + ααᵀ)φ] − (φ̄ᵀα)², φ̄ the expected features.

        It includes how much the function varies over where the input may be.
        """
        alpha, noise = self.posterior.mean.mT, self.posterior.noise
        forms = noise[:, None, None] * torch.cholesky_inverse(self.posterior.factor)
        forms = forms + alpha[:, :, None] * alpha[:, None, :]
        factors = self.factors
        size = max(1, PAIRS // len(factors.frequencies) ** 2)

        def predict(chunk: Measure) -> Prediction:
            top = warped(factors, chunk)[-1].to(dtype=torch.float64)
            raw = chunk.to(dtype=torch.float64)
            mean = top_features(factors, raw, top) @ self.posterior.mean
            second = [expected_top_quadratic(factors, raw, top, form) for form in forms]
            latent = (torch.stack(second, dim=-1) - mean.square()).clamp(min=0)
            observed = self.posterior.noise_at(log_precision(factors, chunk))
            return Prediction(mean, latent, latent + observed)

        return map_chunks(predict, inputs, size)

    @torch.no_grad()
    def leave_one_out(self, rows: Rows) -> Prediction:
        """Predict each of the rows this was conditioned on from all the others."""
        return map_chunks(
            lambda chunk: leave_one_out(observe(self.factors, chunk), self.posterior),
            rows,
            rows_at_once(rows),
        )

    @torch.no_grad()
    def covariance(self, inputs: Measure) -> Float64[Tensor, "T N N"]:
        """Joint latent covariance of the inputs' function values, for every target."""
        covariance = self.posterior.covariance(row_features(self.factors, inputs))
        if inputs.input_variance is not None:
            # Inputs are uncertain independently of each other: only the diagonal knows of it.
            latent = self.predict(inputs).latent_variance
            covariance.diagonal(dim1=-2, dim2=-1).copy_(latent.mT)
        return covariance

    @torch.no_grad()
    def sample(
        self, n: int, generator: torch.Generator, *, noisy: bool = False
    ) -> Callable[[Measure], Float64[Tensor, "n N T"]]:
        """Draw n functions of the posterior, to be evaluated anywhere and any number of times.

        They are functions of the warped target; observations of them, if noisy.
        """
        weights = self.posterior.sample_weights(n, generator)

        @torch.no_grad()
        def functions(inputs: Measure) -> Float64[Tensor, "n N T"]:
            values = [
                self._draw(chunk, weights, generator if noisy else None)
                for chunk in chunks(inputs, rows_at_once(inputs))
            ]
            return torch.cat(values, dim=1)

        return functions

    def _draw(
        self,
        inputs: Measure,
        weights: Float64[Tensor, "n F T"],
        generator: torch.Generator | None,
    ) -> Float64[Tensor, "n N T"]:
        values = row_features(self.factors, inputs).to(torch.float64) @ weights
        if generator is None:
            return values
        noise = self.posterior.noise_at(log_precision(self.factors, inputs))
        normal = torch.randn(values.shape, generator=generator, dtype=torch.float64)
        return values + noise.sqrt() * normal.to(values.device)

    @torch.no_grad()
    def warp(self, inputs: Measure) -> list[Measure]:
        """The measures after each warp in turn, beginning with the inputs; see ``warped``."""
        parts = [warped(self.factors, chunk) for chunk in chunks(inputs, rows_at_once(inputs))]
        return [concatenate(measures) for measures in zip(*parts, strict=True)]

    @torch.no_grad()
    def update(self, rows: Rows) -> Predictor:
        """Condition on more rows as well; exact, parameters kept, old rows not needed."""
        total = self.statistics + total_statistics(self.factors, rows)
        old = self.posterior
        updated = posterior(total, old.noise, self.signal, old.calibration)
        return replace(self, statistics=total, posterior=updated)


@torch.no_grad()
def condition(model: SSWIM, rows: Rows | Iterable[Rows], processes: Processes = ALONE) -> Predictor:
    """Condition a model on rows; the model may change afterwards without effect on the result.

    Args:
        model: Not a batch.
        rows: Rows in memory, or chunks of them in any iterable that can be started again.
        processes: Whose rows all count.
    """
    factors, _ = model.condition()
    return predictor(model, total_statistics(factors, rows, processes))


@torch.no_grad()
def predictor(model: SSWIM, statistics: Statistics) -> Predictor:
    """Condition a model on the rows behind statistics that were taken with its parameters."""
    factors = model.condition()[0].map(torch.clone)  # some are parameters of the model themselves
    signal, noise, calibration = model.signal(), model.noise(), model.calibration.clone()
    conditioned = posterior(statistics, noise, signal, calibration)
    return Predictor(factors, signal, statistics, conditioned)
