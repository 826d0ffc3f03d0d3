"""The predictor: a trained model conditioned on rows."""

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
    warped_measures,
)
from sswim.model.sswim import SSWIM, Factors
from sswim.posterior.linear_regression import Posterior, leave_one_out, posterior
from sswim.posterior.prediction import Prediction
from sswim.posterior.statistics import Statistics, total_statistics
from sswim.rows.measure import Measure
from sswim.rows.rows import Rows

PAIRS = 2**22
"""Largest number of pairs of frequencies, over all rows of a chunk, where inputs are uncertain; it
limits the memory."""


@dataclass(frozen=True)
class Predictor(Record):
    """A trained model conditioned on rows.

    It holds all that predictions and updates need, and none of the rows. It predicts the warped
    targets z = T(y) of standardised rows. There may be any number of rows, which are cut into
    chunks, except in the methods with ``chunk`` in their names.
    """

    factors: Factors
    """Tensors of the model that features, targets and noise are computed from."""
    signal: Float64[Tensor, " T"]
    """s², the prior variance of the weights."""
    statistics: Statistics
    """Sums over all rows, to which further rows can be added."""
    posterior: Posterior
    """Posterior of the weights."""

    def predict(self, inputs: Measure) -> Prediction:
        """Predict z at inputs; for uncertain inputs, its first two moments."""
        if inputs.input_variance is not None:
            return self.predict_chunk(inputs)  # which cuts uncertain inputs into smaller chunks
        return map_chunks(self.predict_chunk, inputs, rows_at_once(inputs))

    @torch.no_grad()
    def predict_chunk(self, inputs: Measure) -> Prediction:
        """Predict z at one chunk of inputs; see :meth:`predict`."""
        if inputs.input_variance is not None:
            return self._predict_uncertain(inputs)
        return self.posterior.predict(
            row_features(self.factors, inputs), log_precision(self.factors, inputs)
        )

    @torch.no_grad()
    def predict_mean_chunk(self, inputs: Measure) -> Float64[Tensor, "N T"]:
        """Predict the mean of z at one chunk of inputs, for a fraction of the cost."""
        return row_features(self.factors, inputs).to(torch.float64) @ self.posterior.mean

    def _predict_uncertain(self, inputs: Measure) -> Prediction:
        """Predict z at uncertain inputs, with the expected features φ̄.

            mean φ̄ᵀα,    latent variance E[φᵀ(σ²A⁻¹ + ααᵀ)φ] − (φ̄ᵀα)²

        The latent variance includes how much the function varies with the uncertain input.
        """
        alpha, noise = self.posterior.mean.mT, self.posterior.noise
        forms = noise[:, None, None] * torch.cholesky_inverse(self.posterior.factor)
        forms = forms + alpha[:, :, None] * alpha[:, None, :]
        factors = self.factors
        size = max(1, PAIRS // len(factors.frequencies) ** 2)

        def predict(chunk: Measure) -> Prediction:
            top = warped_measures(factors, chunk)[-1].to(dtype=torch.float64)
            raw = chunk.to(dtype=torch.float64)
            mean = top_features(factors, raw, top) @ self.posterior.mean
            second_moments = [expected_top_quadratic(factors, raw, top, form) for form in forms]
            latent = (torch.stack(second_moments, dim=-1) - mean.square()).clamp(min=0)
            row_noise = self.posterior.noise_at(log_precision(factors, chunk))
            return Prediction(mean, latent, latent + row_noise)

        return map_chunks(predict, inputs, size)

    @torch.no_grad()
    def leave_one_out(self, rows: Rows) -> Prediction:
        """Predict z of each row that the model is conditioned on from all other rows."""
        return map_chunks(
            lambda chunk: leave_one_out(observe(self.factors, chunk), self.posterior),
            rows,
            rows_at_once(rows),
        )

    @torch.no_grad()
    def covariance(self, inputs: Measure) -> Float64[Tensor, "T N N"]:
        """Return the joint latent covariance of z at inputs, for every target."""
        covariance = self.posterior.covariance(row_features(self.factors, inputs))
        if inputs.input_variance is not None:
            # Inputs are uncertain independently of each other, which changes only the diagonal.
            latent = self.predict(inputs).latent_variance
            covariance.diagonal(dim1=-2, dim2=-1).copy_(latent.mT)
        return covariance

    @torch.no_grad()
    def sample(
        self, n: int, generator: torch.Generator, *, include_noise: bool = False
    ) -> Callable[[Measure], Float64[Tensor, "n N T"]]:
        """Draw n functions from the posterior of z, or observations of them.

        Returns:
            A function of inputs that returns the values of all n draws there. It can be called any
            number of times; with noise, each call draws new noise.
        """
        weights = self.posterior.sample_weights(n, generator)

        @torch.no_grad()
        def functions(inputs: Measure) -> Float64[Tensor, "n N T"]:
            values = [
                self._draw(chunk, weights, generator if include_noise else None)
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
        """Evaluate functions with given weights at a chunk of inputs; add noise if asked to.

        Args:
            inputs: One chunk of inputs.
            weights: Weights of the functions.
            generator: Generator of the noise; None for no noise.
        """
        values = row_features(self.factors, inputs).to(torch.float64) @ weights
        if generator is None:
            return values
        noise = self.posterior.noise_at(log_precision(self.factors, inputs))
        normal = torch.randn(values.shape, generator=generator, dtype=torch.float64)
        return values + noise.sqrt() * normal.to(values.device)

    @torch.no_grad()
    def warp(self, inputs: Measure) -> list[Measure]:
        """Return the measure of the inputs, and the measures after each warp in turn.

        See :func:`sswim.model.observations.warped_measures`.
        """
        parts = [
            warped_measures(self.factors, chunk) for chunk in chunks(inputs, rows_at_once(inputs))
        ]
        return [concatenate(measures) for measures in zip(*parts, strict=True)]

    @torch.no_grad()
    def update(self, rows: Rows) -> Predictor:
        """Condition the model on more rows: exactly, with the same parameters."""
        total = self.statistics + total_statistics(self.factors, rows)
        old = self.posterior
        updated = posterior(total, old.noise, self.signal, old.calibration)
        return replace(self, statistics=total, posterior=updated)


@torch.no_grad()
def condition(model: SSWIM, rows: Rows | Iterable[Rows], processes: Processes = ALONE) -> Predictor:
    """Condition a model on rows.

    Later changes of the model do not change the predictor.

    Args:
        model: A single model, not a batch.
        rows: Rows in memory, or chunks of rows in an iterable that can be started again.
        processes: Processes whose rows are added up.
    """
    factors, _ = model.condition()
    return condition_on_statistics(model, total_statistics(factors, rows, processes))


@torch.no_grad()
def condition_on_statistics(model: SSWIM, statistics: Statistics) -> Predictor:
    """Condition a model on rows whose statistics were computed with its present parameters."""
    factors = model.condition()[0].map(torch.clone)  # some of them are the model's parameters
    signal, noise, calibration = model.signal(), model.noise(), model.calibration.clone()
    conditioned = posterior(statistics, noise, signal, calibration)
    return Predictor(factors, signal, statistics, conditioned)
