"""A model before training: every warp the identity."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from sswim.model.architecture import Architecture
from sswim.model.spectrum import draw_frequencies
from sswim.model.sswim import SSWIM
from sswim.rows.measure import Measure


def start(
    architecture: Architecture,
    sample: Float[Tensor, "S D"],
    n_targets: int,
    generator: torch.Generator,
    length_scale: float | None = None,
    signal: Float[Tensor, " T"] | None = None,
    noise: Float[Tensor, " T"] | None = None,
) -> SSWIM:
    """A model before training, on the CPU: every warp the identity.

    Args:
        architecture: Its shape.
        sample: Some rows of the inputs (all, or a random choice), for the starts of length-scales
            and pseudo-inputs, and for what is fixed then: normal scores, and the range of linear
            features. Inputs and targets should be standardised.
        n_targets: T.
        generator: A generator on the CPU; it alone decides every draw.
        length_scale: Where all length-scales start, in units of each input's spread; √D by
            default, because distances between standardised rows grow like √D and shorter
            length-scales would make all rows strangers to each other. A function that oscillates
            many times over the rows wants a shorter start.
        signal: Where s² starts, for every target; one by default.
        noise: Where σ² starts, for every target; a tenth by default.
    """
    raw = sample = sample.detach().to("cpu", torch.float64)
    model = SSWIM(architecture, sample.shape[1], n_targets)
    if model.normal_scores is not None:
        model.normal_scores.start(raw)
        sample = model.normal_scores.condition().forward(Measure(raw)).mean
    if model.trend is not None:
        model.trend.start(raw)
    with torch.no_grad():
        for parameter, value in ((model.log_signal, signal), (model.log_noise, noise)):
            if value is not None:
                parameter.copy_(value.log())
    spread = _spread(sample)
    length_scales = start_length_scales(sample, length_scale)
    kernel, draw = architecture.kernel, architecture.draw
    for layer in model.warp_layers():
        for gp in layer.gps():
            gp.spectrum.start(kernel, draw, length_scales, generator)
            gp.start(sample, spread, generator)
    model.spectrum.start(kernel, draw, length_scales, generator)
    if model.noise_field is not None:
        # The noise sees the raw inputs.
        raw_scales = start_length_scales(raw, length_scale)
        model.noise_field.spectrum.start(kernel, draw, raw_scales, generator)
    return model


def enrich(model: SSWIM, n_more: int, generator: torch.Generator) -> SSWIM:
    """A copy of a trained model with more frequencies at the top, all parameters kept.

    The frequencies are a sample of the kernel that the parameters describe; more of them resolve
    more of that kernel, with an error that falls like M^{-1/2}. Parameters learnt with few fit the
    same kernel with many. So the many need not be paid for at every step of training: they cost
    one conditioning on the rows, after it. The warps are what they were.

    Args:
        model: Not a batch.
        n_more: How many frequencies to add.
        generator: A generator on the CPU, for their draw.
    """
    if model.batch:
        raise ValueError(
            f"A batch of models {model.batch} cannot be enriched; take it apart with unstack first."
        )
    old = model.architecture
    further = draw_frequencies(old.kernel, n_more, model.n_inputs, generator, old.draw)
    architecture = replace(
        old,
        n_frequencies=old.n_frequencies + n_more,
        n_warp_frequencies=old.warp_frequencies,
    )
    device = model.log_noise.device
    richer = SSWIM(architecture, model.n_inputs, model.n_targets).to(device)
    state = model.state_dict()
    frequencies = (model.spectrum.unit_frequencies, further.to(device))
    richer.load_state_dict({**state, "spectrum.unit_frequencies": torch.cat(frequencies)})
    return richer


def start_length_scales(
    sample: Float[Tensor, "S D"], length_scale: float | None
) -> Float64[Tensor, " D"]:
    """Where length-scales start; see :func:`start`."""
    sample = sample.detach().to("cpu", torch.float64)
    return _spread(sample) * (math.sqrt(sample.shape[1]) if length_scale is None else length_scale)


def _spread(sample: Float64[Tensor, "S D"]) -> Float64[Tensor, " D"]:
    spread = sample.std(0, correction=0)
    return torch.where(spread > 0, spread, 1.0)  # a constant column has none
