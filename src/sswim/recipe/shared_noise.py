"""One input-dependent noise for all members of an ensemble, learnt from held-out rows.

With the kinds' out-of-fold predictions of :mod:`sswim.recipe.stacking`, their weights w and
calibrations c,

    η maximises Σ log Σ_k w_k N(z_k; μ_k, v_k + e^{c_k + η(x)}σ_k²) T_k'(y) + log prior.

η only describes how the noise varies over the inputs: the regression weights rows as before
(τ = 0), so the means do not change.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from sswim.model.architecture import Architecture
from sswim.model.noise_field import NoiseField, log_noise_ratio
from sswim.recipe.stacking import OutOfFold, Stacking, mixture_log_density
from sswim.rows.measure import Measure
from sswim.training.noise_fit import fit_noise_field, start_noise_field


def learn_shared_noise(
    inputs: Measure,
    rows: OutOfFold,
    stacking: Stacking,
    architecture: Architecture,
    sample: Float[Tensor, "S D"],
    generator: torch.Generator,
) -> NoiseField:
    """Return the noise field with the greatest out-of-fold density.

    Args:
        inputs: Standardised inputs of the rows.
        rows: The kinds' out-of-fold predictions of the rows.
        stacking: Weights and calibrations of the kinds.
        architecture: Architecture of the members.
        sample: Some rows of the inputs, for the start of length-scales.
        generator: Generator on the CPU for the field's frequencies.
    """
    field = start_noise_field(architecture, rows.residual.shape[-1], sample, generator)
    field.to(rows.residual.device)

    def backward() -> None:
        factors, prior = field.condition()
        noise = rows.noise * log_noise_ratio(factors, inputs).exp()
        density = mixture_log_density(replace(rows, noise=noise), stacking).sum(-1)
        fit = (density if rows.weight is None else rows.weight * density).sum()
        (prior - fit).backward()

    with torch.enable_grad():
        fit_noise_field(field, backward)
    return field
