"""Fitting the noise field η of σ²(x) = σ²·exp η(x) to given residuals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from sswim.model.architecture import Architecture
from sswim.model.noise_field import NoiseField
from sswim.model.sswim import SSWIM
from sswim.model.start import start_length_scales

STEPS = 200
"""Number of Adam steps."""

LEARNING_RATE = 0.05
"""Largest learning rate of the one-cycle schedule."""


def start_noise_field(
    architecture: Architecture,
    n_targets: int,
    sample: Float[Tensor, "S D"],
    generator: torch.Generator,
) -> NoiseField:
    """Return a noise field that is constant, and under which all rows weigh the same (τ = 0).

    Args:
        architecture: Architecture of the models that will have the field.
        n_targets: T.
        sample: Some rows of the inputs, for the start of the length-scales.
        generator: Generator on the CPU for the field's frequencies.
    """
    field = NoiseField(sample.shape[1], architecture.n_noise_frequencies, n_targets)
    length_scales = start_length_scales(sample, None)
    field.spectrum.start(architecture.kernel, architecture.draw, length_scales, generator)
    field.temper.zero_()
    return field


def fit_noise_field(field: NoiseField, backward: Callable[[], None]) -> None:
    """Minimise a loss of the field's parameters by Adam with a one-cycle schedule.

    Args:
        field: The field, changed in place.
        backward: Adds the gradient of the loss to the field's parameters.
    """
    optimiser = torch.optim.Adam(field.parameters(), lr=LEARNING_RATE)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, max_lr=LEARNING_RATE, total_steps=STEPS + 1
    )
    for _ in range(STEPS):
        optimiser.zero_grad()
        backward()
        optimiser.step()
        schedule.step()
    optimiser.zero_grad()


def with_noise_field(model: SSWIM, field: NoiseField) -> SSWIM:
    """Return a copy of a model with a noise field."""
    architecture = replace(model.architecture, noise="input-dependent")
    noisy = SSWIM(architecture, model.n_inputs, model.n_targets)
    state = {f"noise_field.{name}": value for name, value in field.state_dict().items()}
    noisy.load_state_dict({**model.state_dict(), **state})
    return noisy.to(model.log_noise.device)
