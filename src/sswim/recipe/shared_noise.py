"""One input-dependent noise for all members of an ensemble, learnt from held-out rows.

With the kinds' out-of-fold predictions of :mod:`sswim.recipe.stacking`, their weights w and
corrections a and c,

    η maximises Σ log Σ_k w_k p(z_k; μ_k, e^{a_k}v_k + e^{c_k + η(x)}σ_k²) T_k'(y) + log prior.

η only describes how the noise varies over the inputs: the regression weights rows as before
(τ = 0), so the means do not change.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from sswim.model.architecture import Architecture
from sswim.model.noise_field import NoiseField, log_noise_ratio
from sswim.recipe.out_of_fold import OutOfFold
from sswim.recipe.stacking import Stacking, mixture_log_density
from sswim.rows.measure import Measure
from sswim.training.noise_fit import fit_noise_field, start_noise_field


def learn_shared_noise(
    inputs: Measure,
    kinds: Sequence[OutOfFold],
    weight: Float64[Tensor, " N"] | None,
    stacking: Stacking,
    architecture: Architecture,
    sample: Float[Tensor, "S D"],
    generator: torch.Generator,
) -> NoiseField:
    """Return the noise field with the greatest out-of-fold density.

    Args:
        inputs: Standardised inputs of the rows.
        kinds: The kinds' out-of-fold predictions of the rows.
        weight: How many times each row counts; None for once.
        stacking: Weights and corrections of the kinds.
        architecture: Architecture of the members.
        sample: Some rows of the inputs, for the start of length-scales.
        generator: Generator on the CPU for the field's frequencies.
    """
    residual = kinds[0].residual
    field = start_noise_field(architecture, residual.shape[-1], sample, generator)
    field.to(residual.device)

    def backward() -> None:
        factors, prior = field.condition()
        density = mixture_log_density(kinds, stacking, log_noise_ratio(factors, inputs)).sum(-1)
        fit = (density if weight is None else weight * density).sum()
        (prior - fit).backward()

    with torch.enable_grad():
        fit_noise_field(field, backward)
    return field
