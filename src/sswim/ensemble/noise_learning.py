"""Input-dependent noise, learnt after the mean from leave-one-out residuals.

If it were learnt jointly with the warps by the evidence, input-dependent noise would reinforce
itself: rows that the warps fit well get less noise, hence more weight, and are fitted better still,
at the cost of the error elsewhere. So the mean is learnt first, under constant noise. Then, for
some rounds, the noise field η of σ²(x) = σ²·exp η(x) is fitted to the residuals:

    η maximises Σ log N(z; μ, v + σ²·exp η(x)) + log prior,

with μ and v the leave-one-out mean and latent variance of each row, in closed form, and the
regression is conditioned again with rows weighted by exp(−τη). Weights that follow the noise fully
(τ = 1) are best if the model is right; if it is not, the regression neglects noisy regions more
than it should. So τ is the largest of a few values, at most a half, under which the leave-one-out
error of the targets, predicted by all members together, is no worse than under constant noise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from sswim.base.record import Record, chunks
from sswim.distributed.processes import ALONE, Processes
from sswim.ensemble.mixture import equal_weights, mix
from sswim.members import condition
from sswim.members.density import Density
from sswim.members.linear_regression import Prediction
from sswim.members.model import SSWIM, with_noise_field
from sswim.members.objective import send_back
from sswim.members.start import start_noise_field
from sswim.rows.rows import Measure, Rows
from sswim.rows.scaling import no_scaling
from sswim.warps.noise_field import NoiseFactors, NoiseField, fit_noise_field, log_noise_ratio

ROUNDS = 2
"""Number of rounds of fitting η and conditioning again."""

TEMPERS = (0.5, 0.25)
"""Values of τ that are tried."""

CHUNK_ROWS = 20_000
"""Rows whose graph is kept together."""


def learn_noise(
    models: Sequence[SSWIM],
    rows: Rows,
    sample: Float[Tensor, "S D"],
    generator: torch.Generator,
    everything: Rows | Iterable[Rows] | None = None,
    processes: Processes = ALONE,
    kept: Rows | None = None,
) -> list[SSWIM]:
    """Return copies of models trained under constant noise, with input-dependent noise.

    Args:
        models: Trained members.
        rows: The rows they were trained on, or a sample of them, on their device.
        sample: Some rows of the inputs, for the start of length-scales.
        generator: Generator on the CPU for the frequencies of the noise field.
        everything: All rows they were trained on, if ``rows`` is a sample.
        processes: The processes that share ``everything``; ``rows`` are the same in each.
        kept: The rows that members which predict by neighbours keep, the same in each process, if
            they are not ``everything``.
    """

    def leave_one_out(model: SSWIM) -> Prediction:
        given = rows if everything is None else everything
        if model.architecture.n_neighbors and kept is not None:
            given = kept
        return condition(model, given, processes).leave_one_out(rows)

    noisy = [
        with_noise_field(
            model, start_noise_field(model.architecture, model.n_targets, sample, generator)
        )
        for model in models
    ]
    predictions = [leave_one_out(model) for model in models]
    allowed = _error(models, predictions, rows)
    for _ in range(ROUNDS):
        for model, prediction in zip(noisy, predictions, strict=True):
            _fit(model, rows, prediction)
        predictions = _temper(noisy, rows, leave_one_out, allowed)
    return noisy


def _field(model: SSWIM) -> NoiseField:
    assert model.noise_field is not None
    return model.noise_field


def _fit(model: SSWIM, rows: Rows, prediction: Prediction) -> None:
    """Fit η to the rows' leave-one-out predictions."""
    field = _field(model)
    noise = model.noise().detach().expand_as(prediction.mean)
    if model.architecture.n_neighbors:  # it follows the amplitude of each neighbourhood
        noise = prediction.observation_variance - prediction.latent_variance
    targets = model.factors()[0].output.forward(rows.targets)[0].detach()
    residuals = _Residuals(
        rows.inputs,
        (targets - prediction.mean).square(),
        prediction.latent_variance,
        noise,
        rows.weight,
    )

    def add_gradients() -> Tensor:
        factors, prior = field.factors()
        leaves = factors.leaves()
        total = prior.detach()
        for chunk in chunks(residuals, CHUNK_ROWS):
            loss = _negative_log_density(leaves, chunk)
            loss.backward()
            total = total + loss.detach()
        send_back(factors, leaves, prior)
        return total

    fit_noise_field(field, add_gradients)


@dataclass(frozen=True)
class _Residuals(Record):
    """Leave-one-out residuals of the rows."""

    inputs: Measure
    squared: Float64[Tensor, "N T"]
    """(z − μ)²"""
    latent_variance: Float64[Tensor, "N T"]
    """v"""
    noise: Float64[Tensor, "N T"]
    """σ²"""
    weight: Float64[Tensor, " N"] | None


def _negative_log_density(factors: NoiseFactors, residuals: _Residuals) -> Float64[Tensor, ""]:
    """Return −Σ log N(z; μ, v + σ²·exp η(x)) without its constant."""
    ratio = log_noise_ratio(factors, residuals.inputs)
    variance = residuals.latent_variance + residuals.noise * ratio.exp()
    losses = 0.5 * (residuals.squared / variance + variance.log()).sum(-1)
    return (losses if residuals.weight is None else residuals.weight * losses).sum()


@torch.no_grad()
def _temper(
    models: Sequence[SSWIM],
    rows: Rows,
    leave_one_out: Callable[[SSWIM], Prediction],
    allowed: Float64[Tensor, " T"],
) -> list[Prediction]:
    """Set the largest τ of every target whose error is allowed; zero always is."""

    def predict(temper: Tensor) -> list[Prediction]:
        """Set τ, and return leave-one-out predictions under the weights exp(−τη)."""
        for model in models:
            _field(model).temper.copy_(temper)
        return [leave_one_out(model) for model in models]

    chosen = torch.zeros_like(allowed)
    for temper in sorted(TEMPERS):
        error = _error(models, predict(torch.full_like(allowed, temper)), rows)
        chosen = torch.where(error <= allowed, temper, chosen)
    return predict(chosen)


@torch.no_grad()
def _error(
    models: Sequence[SSWIM], predictions: Sequence[Prediction], rows: Rows
) -> Float64[Tensor, " T"]:
    """Return the mean square error of every target, predicted by all members together."""
    densities = [
        Density(prediction, model.factors()[0].output, no_scaling(rows))
        for model, prediction in zip(models, predictions, strict=True)
    ]
    weights = equal_weights(len(densities)).to(rows.targets.device)
    squared = (mix(densities, weights).mean - rows.targets).square()
    if rows.weight is None:
        return squared.mean(0)
    return rows.weight @ squared / rows.weight.sum()
