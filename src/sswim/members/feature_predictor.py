"""The predictor by features: a trained model conditioned on the statistics of all rows.

Conditioning a trained model on rows, in the way that its architecture says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float64
from torch import Tensor

from sswim.base.record import chunks, concatenate, map_chunks, rows_at_once
from sswim.distributed.processes import ALONE, Processes
from sswim.kernels.features import expected_features, expected_quadratic
from sswim.members.linear_regression import (
    JointPrediction,
    Posterior,
    Prediction,
    leave_one_out,
    negative_log_evidence,
    posterior,
)
from sswim.members.model import SSWIM
from sswim.members.neighbour_predictor import condition_on_rows
from sswim.members.observations import (
    log_precision,
    observe,
    row_features,
    warped_measures,
)
from sswim.members.predictor import Predictor, count_rows
from sswim.members.statistics import Statistics, total_statistics
from sswim.rows.rows import Measure, Rows

NO_SIGNAL = 1e-9
"""s² below which standardised targets are not followed at all."""

PAIRS = 2**22
"""Largest number of pairs of frequencies, over all rows of a chunk, where inputs are uncertain; it
limits the memory."""

ROWS_PER_FEATURE = 4
"""Largest number of rows per feature of which the statistics are quickly computed again."""

MAX_QUICK_ENTRIES = 2**26
"""Largest number of entries of a Gram matrix that is computed again rather than stored: 512 MiB."""


@dataclass(frozen=True)
class FeaturePredictor(Predictor):
    """A trained model conditioned on all rows by their features.

    It holds all that predictions and updates need, and none of the rows.
    """

    signal: Float64[Tensor, " T"]
    """s², the prior variance of the weights."""
    statistics: Statistics
    """Sums over all rows, to which further rows can be added."""
    posterior: Posterior
    """Posterior of the weights."""

    @property
    def count(self) -> Float64[Tensor, ""]:
        """Number of rows that the model is conditioned on, each counted by its weight."""
        return self.statistics.count

    def is_quick(self, rows: Rows) -> bool:
        """Return whether the statistics of rows are computed quickly."""
        n_features = self.statistics.gram.shape[-1]
        return n_features**2 <= MAX_QUICK_ENTRIES and len(rows) <= ROWS_PER_FEATURE * n_features

    def follows_from(self, rows: Rows) -> bool:
        """Return whether rows are those of the statistics, and these are computed quickly.

        Rows that count as many times in total are taken to be the same.
        """
        same = torch.isclose(count_rows(rows).to(self.count.device), self.count, rtol=1e-9)
        return self.is_quick(rows) and bool(same)

    @property
    def is_constant(self) -> bool:
        """Whether it predicts the same for all inputs, because it has no signal."""
        return bool((self.signal < NO_SIGNAL).all())

    def _predict_exact(self, inputs: Measure) -> Prediction:
        return self.posterior.predict(
            row_features(self.factors, inputs), log_precision(self.factors, inputs)
        )

    @torch.no_grad()
    def predict_mean_chunk(self, inputs: Measure) -> Float64[Tensor, "N T"]:
        """Predict the mean of z at one chunk of inputs, for a fraction of the cost."""
        return row_features(self.factors, inputs).to(torch.float64) @ self.posterior.mean

    def _predict_uncertain(self, inputs: Measure) -> Prediction:
        """Predict z at uncertain inputs, with the expected features φ̄.

            mean φ̄ᵀα,    latent variance E[φᵀ(e^a·σ²A⁻¹ + ααᵀ)φ] − (φ̄ᵀα)²

        The latent variance includes how much the function varies with the uncertain input.
        """
        alpha, noise = self.posterior.mean.mT, self.posterior.latent_scale
        forms = noise[:, None, None] * torch.cholesky_inverse(self.posterior.factor)
        forms = forms + alpha[:, :, None] * alpha[:, None, :]
        factors = self.factors
        size = max(1, PAIRS // len(factors.frequencies) ** 2)

        def predict(chunk: Measure) -> Prediction:
            top = warped_measures(factors, chunk)[-1].to(dtype=torch.float64)
            mean = expected_features(factors.frequencies, top) @ self.posterior.mean
            second_moments = [expected_quadratic(factors.frequencies, top, form) for form in forms]
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

    def predict_jointly(self, points: Measure) -> JointPrediction:
        """Predict z jointly at sets of points; see :meth:`Predictor.predict_jointly`."""
        sets = points.mean.shape[:2]
        flat = Measure(points.mean.flatten(0, 1))
        features = row_features(self.factors, flat).to(torch.float64).unflatten(0, sets)
        noise = self.posterior.noise_at(log_precision(self.factors, flat))
        return JointPrediction(
            features @ self.posterior.mean,
            self.posterior.set_covariance(features),
            noise.expand(len(flat.mean), -1).unflatten(0, sets),
        )

    def sample(
        self, n: int, generator: torch.Generator, *, include_noise: bool = False
    ) -> Callable[[Measure], Float64[Tensor, "n N T"]]:
        """Draw n functions, each by its weights; see :meth:`Predictor.sample`."""
        weights = self.posterior.sample_weights(n, generator)

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
    def update(self, rows: Rows) -> FeaturePredictor:
        """Condition the model on more rows: exactly, with the same parameters."""
        return self._with_statistics(self.statistics + total_statistics(self.factors, rows))

    @torch.no_grad()
    def condition_again(self, rows: Rows) -> FeaturePredictor:
        """Condition the model on rows in place of those that it is conditioned on now."""
        return self._with_statistics(total_statistics(self.factors, rows))

    @torch.no_grad()
    def without(self, rows: Rows) -> FeaturePredictor:
        """Condition the model on its rows without some of them."""
        return self._with_statistics(self.statistics - total_statistics(self.factors, rows))

    def _with_statistics(self, total: Statistics) -> FeaturePredictor:
        old = self.posterior
        updated = posterior(total, old.noise, self.signal, old.calibration, old.latent_calibration)
        return replace(self, statistics=total, posterior=updated)

    def log_evidence(self) -> Float64[Tensor, ""]:
        """Return log p(y) of the standardised targets of all rows."""
        return -negative_log_evidence(self.statistics, self.posterior.noise, self.signal)


@torch.no_grad()
def condition_on_statistics(model: SSWIM, statistics: Statistics) -> FeaturePredictor:
    """Condition a model on rows whose statistics were computed with its present parameters."""
    factors = model.condition()[0].map(torch.clone)  # some of them are the model's parameters
    signal, noise = model.signal(), model.noise()
    calibrations = model.calibration.clone(), model.latent_calibration.clone()
    conditioned = posterior(statistics, noise, signal, *calibrations)
    return FeaturePredictor(factors, signal, statistics, conditioned)


def condition_by_features(
    model: SSWIM, rows: Rows | Iterable[Rows], processes: Processes = ALONE
) -> FeaturePredictor:
    """Condition a model on rows; see :func:`sswim.members.feature_predictor.condition`."""
    factors, _ = model.condition()
    return condition_on_statistics(model, total_statistics(factors, rows, processes))


def condition(model: SSWIM, rows: Rows | Iterable[Rows], processes: Processes = ALONE) -> Predictor:
    """Condition a model on rows.

    Later changes of the model do not change the predictor.

    Args:
        model: A single model, not a batch.
        rows: Rows in memory, or chunks of rows in an iterable that can be started again.
        processes: Processes whose rows are added up. For a model that predicts by neighbours, every
            process has all rows.
    """
    if model.architecture.n_neighbors:
        return condition_on_rows(model, rows if isinstance(rows, Rows) else concatenate(rows))
    return condition_by_features(model, rows, processes)
