"""One input-dependent noise for all members of an ensemble, from rows they never saw.

With the kinds' out-of-fold predictions of ``stacking``, their weights w and calibrations c,

    η maximises Σ log Σ_k w_k N(z_k; μ_k, v_k + e^{c_k + η(x)}σ_k²) T_k'(y) + log prior.

It says how the noise varies over the inputs, and nothing else: the regression weighs rows as it did
(τ = 0), and so the means are what they were.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from sswim.model.architecture import Architecture
from sswim.model.noise_field import NoiseField, log_noise_ratio
from sswim.model.sswim import SSWIM
from sswim.model.start import start_length_scales
from sswim.recipe.stacking import OutOfFold, Stacking, mixture_log_density
from sswim.rows.measure import Measure

STEPS = 200
LEARNING_RATE = 0.05


def learn_shared_noise(
    inputs: Measure,
    rows: OutOfFold,
    stacking: Stacking,
    architecture: Architecture,
    sample: Float[Tensor, "S D"],
    generator: torch.Generator,
) -> NoiseField:
    """η of the greatest out-of-fold density.

    Args:
        inputs: Of the rows, standardised.
        rows: What the kinds say of them.
        stacking: How the kinds are combined.
        architecture: Whose noise it is to be.
        sample: Some rows of the inputs, for the start of length-scales.
        generator: A generator on the CPU, for the noise's features.
    """
    n_targets = rows.residual.shape[-1]
    field = NoiseField(inputs.mean.shape[1], architecture.n_noise_frequencies, n_targets)
    length_scales = start_length_scales(sample, None)
    field.spectrum.start(architecture.kernel, architecture.draw, length_scales, generator)
    field.temper.zero_()
    field.to(rows.residual.device)
    optimiser = torch.optim.Adam(field.parameters(), lr=LEARNING_RATE)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, max_lr=LEARNING_RATE, total_steps=STEPS + 1
    )
    with torch.enable_grad():
        for _ in range(STEPS):
            optimiser.zero_grad()
            factors, prior = field.condition()
            noise = rows.noise * log_noise_ratio(factors, inputs).exp()
            density = mixture_log_density(replace(rows, noise=noise), stacking).sum(-1)
            fit = (density if rows.weight is None else rows.weight * density).sum()
            (prior - fit).backward()
            optimiser.step()
            schedule.step()
    optimiser.zero_grad()
    return field


def with_noise(model: SSWIM, field: NoiseField) -> SSWIM:
    """A copy of a model whose noise is that of the field."""
    architecture = replace(model.architecture, noise="input-dependent")
    noisy = SSWIM(architecture, model.n_inputs, model.n_targets)
    state = {f"noise_field.{name}": value for name, value in field.state_dict().items()}
    noisy.load_state_dict({**model.state_dict(), **state})
    return noisy.to(model.log_noise.device)
