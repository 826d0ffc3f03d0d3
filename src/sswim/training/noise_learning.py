"""Learning input-dependent noise after the mean, from leave-one-out residuals.

Learnt jointly by the evidence, noise that depends on the input feeds on itself: rows that the warps
fit well get less noise, hence more weight, and are fitted better still, at the cost of the others'
error. So the mean comes first, under constant noise. Then, for some rounds,

    η maximises Σ log N(z; μ, v + σ²·exp η(x)) + log prior,

with μ and v each row's leave-one-out mean and latent variance, in closed form; and the regression
is conditioned again, its rows weighed by exp(−τη). Weights that follow the noise fully, with τ = 1,
are best if the model is right; if not, they make it care less for noisy regions than the error
there deserves. So τ is the largest of a few, a half at most, under which the leave-one-out error of
the targets, predicted by all members together, is no worse than it was under constant noise.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from sswim.base.record import Record, chunks
from sswim.distributed.processes import ALONE, Processes
from sswim.model.noise_field import NoiseFactors, NoiseField, log_noise_ratio
from sswim.model.sswim import SSWIM
from sswim.model.start import start_length_scales
from sswim.posterior.density import Density
from sswim.posterior.mixture import Mixture, equal_weights
from sswim.posterior.prediction import Prediction
from sswim.posterior.predictor import condition
from sswim.rows.measure import Measure
from sswim.rows.rows import Rows
from sswim.rows.scaling import no_scaling
from sswim.training.objective import send_back

ROUNDS = 2
TEMPERS = (0.5, 0.25)
STEPS = 200
LEARNING_RATE = 0.05
CHUNK_ROWS = 20_000
"""Rows whose graph is kept together."""


def learn_noise(
    models: Sequence[SSWIM],
    rows: Rows,
    sample: Float[Tensor, "S D"],
    generator: torch.Generator,
    everything: Rows | Iterable[Rows] | None = None,
    processes: Processes = ALONE,
) -> list[SSWIM]:
    """Members with input-dependent noise from members trained with constant noise.

    Args:
        models: Trained; they are not changed.
        rows: Those they were trained on, or some of them, on their device.
        sample: Some rows of the inputs, for the start of length-scales.
        generator: A generator on the CPU, for the noise's features.
        everything: All rows that they were trained on, if the others are some of them.
        processes: Of whose rows everything is a part; the others are the same in each.
    """
    known = _Known(rows, rows if everything is None else everything, processes)
    noisy = [_with_field(model, sample, generator) for model in models]
    predictions = [known.leave_one_out(model) for model in models]
    allowed = _error(models, predictions, rows)
    for _ in range(ROUNDS):
        for model, prediction in zip(noisy, predictions, strict=True):
            _fit(model, rows, prediction)
        predictions = _temper(noisy, known, allowed)
    return noisy


@dataclass(frozen=True)
class _Known:
    """Rows to learn from, some of everything that models are conditioned on."""

    rows: Rows
    everything: Rows | Iterable[Rows]
    processes: Processes

    def leave_one_out(self, model: SSWIM) -> Prediction:
        """Predict each of the rows from all others."""
        return condition(model, self.everything, self.processes).leave_one_out(self.rows)


def _with_field(model: SSWIM, sample: Float[Tensor, "S D"], generator: torch.Generator) -> SSWIM:
    """A copy whose noise may depend on the input, but does not yet."""
    architecture = replace(model.architecture, noise="input-dependent")
    noisy = SSWIM(architecture, model.n_inputs, model.n_targets)
    field = _field(noisy)
    length_scales = start_length_scales(sample, None)
    field.spectrum.start(architecture.kernel, architecture.draw, length_scales, generator)
    field.temper.zero_()
    noisy.load_state_dict(model.state_dict(), strict=False)
    return noisy.to(model.log_noise.device)


def _field(model: SSWIM) -> NoiseField:
    assert model.noise_field is not None
    return model.noise_field


def _fit(model: SSWIM, rows: Rows, prediction: Prediction) -> None:
    """Fit η to the rows' leave-one-out predictions."""
    field, noise = _field(model), model.noise().detach()
    targets = model.condition()[0].output.forward(rows.targets)[0].detach()
    residuals = _Residuals(
        rows.inputs,
        (targets - prediction.mean).square(),
        prediction.latent_variance,
        rows.weight,
    )
    optimiser = torch.optim.Adam(field.parameters(), lr=LEARNING_RATE)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, max_lr=LEARNING_RATE, total_steps=STEPS + 1
    )
    for _ in range(STEPS):
        optimiser.zero_grad()
        factors, prior = field.condition()
        seen = factors.leaves()
        for chunk in chunks(residuals, CHUNK_ROWS):
            _negative_log_density(seen, noise, chunk).backward()
        send_back(factors, seen, prior)
        optimiser.step()
        schedule.step()
    optimiser.zero_grad()


@dataclass(frozen=True)
class _Residuals(Record):
    """What the noise is learnt from."""

    inputs: Measure
    squared: Float64[Tensor, "N T"]
    """(z − μ)²"""
    latent_variance: Float64[Tensor, "N T"]
    """v"""
    weight: Float64[Tensor, " N"] | None


def _negative_log_density(
    factors: NoiseFactors, noise: Float64[Tensor, " T"], residuals: _Residuals
) -> Float64[Tensor, ""]:
    """−Σ log N(z; μ, v + σ²·exp η(x)), without its constant."""
    ratio = log_noise_ratio(factors, residuals.inputs)
    variance = residuals.latent_variance + noise * ratio.exp()
    losses = 0.5 * (residuals.squared / variance + variance.log()).sum(-1)
    return (losses if residuals.weight is None else residuals.weight * losses).sum()


@torch.no_grad()
def _temper(
    models: Sequence[SSWIM], known: _Known, allowed: Float64[Tensor, " T"]
) -> list[Prediction]:
    """Set the largest τ of every target whose error is allowed; zero always is."""
    chosen = torch.zeros_like(allowed)
    for temper in sorted(TEMPERS):
        predictions = _tempered(models, known, torch.full_like(allowed, temper))
        chosen = torch.where(_error(models, predictions, known.rows) <= allowed, temper, chosen)
    return _tempered(models, known, chosen)


def _tempered(
    models: Sequence[SSWIM], known: _Known, temper: Float64[Tensor, " T"]
) -> list[Prediction]:
    """Leave-one-out predictions under weights exp(−τη)."""
    for model in models:
        _field(model).temper.copy_(temper)
    return [known.leave_one_out(model) for model in models]


@torch.no_grad()
def _error(
    models: Sequence[SSWIM], predictions: Sequence[Prediction], rows: Rows
) -> Float64[Tensor, " T"]:
    """Mean square error of every target, on its own scale, predicted by all members together."""
    densities = [
        Density(prediction, model.condition()[0].output, no_scaling(rows))
        for model, prediction in zip(models, predictions, strict=True)
    ]
    weights = equal_weights(len(densities)).to(rows.targets.device)
    squared = (Mixture(tuple(densities), weights).mean - rows.targets).square()
    if rows.weight is None:
        return squared.mean(0)
    return rows.weight @ squared / rows.weight.sum()
