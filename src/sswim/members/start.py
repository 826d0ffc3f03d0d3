"""New models before training, and trained models with more frequencies."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from sswim.kernels.spectrum import Kernel, draw_frequencies
from sswim.members.architecture import Architecture
from sswim.members.model import SSWIM
from sswim.rows.rows import Measure
from sswim.warps.projection import principal_directions
from sswim.warps.warp import WarpLayer


def start(
    architecture: Architecture,
    sample: Float[Tensor, "S D"],
    n_targets: int,
    generator: torch.Generator,
    length_scale: float | None = None,
    signal: Float[Tensor, " T"] | None = None,
    noise: Float[Tensor, " T"] | None = None,
    directions: Float[Tensor, "Q D"] | None = None,
) -> SSWIM:
    """Make a model for training, on the CPU; every warp starts as the identity, or as P.

    Args:
        architecture: Architecture of the model.
        sample: Rows of the inputs (all, or a random sample). They give the starting values of
            length-scales and pseudo-inputs, and they fix the normal scores. Inputs and targets
            should be standardised.
        n_targets: T, the number of targets.
        generator: A generator on the CPU; all draws come from it.
        length_scale: Starting value of all length-scales, in units of each input's spread; after a
            projection, of the typical spread of its coordinates. The default is the square root of
            the number D of inputs, or Q of coordinates: distances between standardised rows grow
            like √D, and with shorter length-scales all rows would be nearly uncorrelated. A
            function that oscillates many times over the rows needs a shorter one.
        signal: Starting value of s² for every target; one by default.
        noise: Starting value of σ² for every target; 0.1 by default.
        directions: Starting value of P, up to a factor, for warps that have it; by default the
            principal directions of the sample.
    """
    raw = sample = sample.detach().to("cpu", torch.float64)
    model = SSWIM(architecture, sample.shape[1], n_targets)
    if model.normal_scores is not None:
        model.normal_scores.start(raw)
        sample = model.normal_scores.factors().forward(Measure(raw)).mean
    with torch.no_grad():
        for parameter, value in ((model.log_signal, signal), (model.log_noise, noise)):
            if value is not None:
                parameter.copy_(value.log())
    kernel = architecture.kernel
    first, later = model.warp_layers()[:1], model.warp_layers()[1:]
    length_scales = start_length_scales(sample, length_scale)
    if architecture.warp_matrix != "diagonal":
        sample, length_scales = _start_general_warp(
            first[0], kernel, sample, length_scale, generator, directions
        )
    else:
        start_warps(first, kernel, sample, length_scales, generator)
    start_warps(later, kernel, sample, length_scales, generator)
    model.spectrum.start(kernel, length_scales, generator)
    if model.noise_field is not None:
        # The noise depends on the raw inputs.
        raw_scales = start_length_scales(raw, length_scale)
        model.noise_field.spectrum.start(kernel, raw_scales, generator)
    return model


def _start_general_warp(
    layer: WarpLayer,
    kernel: Kernel,
    sample: Float64[Tensor, "S D"],
    length_scale: float | None,
    generator: torch.Generator,
    directions: Float[Tensor, "Q D"] | None,
) -> tuple[Float64[Tensor, "S Q"], Float64[Tensor, " Q"]]:
    """Start the first warp of a single member, which has a projection.

    P is scaled such that the mean square of the projected spreads is one. All coordinates then have
    one length-scale: their spreads say how much each of them matters.

    Returns:
        The projected sample, and the length-scales after the projection.
    """
    assert layer.projection is not None
    n_outputs, n_inputs = layer.projection.n_outputs, sample.shape[1]
    if directions is None:
        directions = principal_directions(sample, n_outputs, generator)
    directions = directions.to("cpu", torch.float64)
    projected = sample @ directions.mT
    size = projected.var(0, correction=0).mean().sqrt()
    size = size if size > 0 else torch.ones_like(size)
    layer.projection.start(directions / size)
    projected = projected / size
    one = torch.ones(n_outputs, dtype=torch.float64)
    length_scales = one * (math.sqrt(n_outputs) if length_scale is None else length_scale)
    if layer.is_full:
        # Its functions see the inputs themselves, between which distances are √(D/Q) times longer.
        ratio = math.sqrt(n_inputs / n_outputs)
        raw = start_length_scales(sample, length_scales[0].item() * ratio)
        start_warps([layer], kernel, sample, raw, generator)
    else:
        start_warps([layer], kernel, projected, length_scales, generator)
    return projected, length_scales


def start_warps(
    layers: Iterable[WarpLayer],
    kernel: Kernel,
    sample: Float64[Tensor, "S D"],
    length_scales: Float64[Tensor, " D"],
    generator: torch.Generator,
) -> None:
    """Draw the frequencies and the pseudo-inputs of a single member's warps; see :func:`start`."""
    spread = _spread(sample)
    for layer in layers:
        for gp in layer.gps():
            gp.spectrum.start(kernel, length_scales, generator)
            gp.start(sample, spread, generator)


def enrich(model: SSWIM, n_more: int, generator: torch.Generator) -> SSWIM:
    """Copy a trained model, and add frequencies to the top level of the copy.

    The parameters describe a kernel, and the frequencies are a sample from its spectral density.
    With M frequencies the kernel is approximated with an error that falls like M^{-1/2}. Parameters
    that were learnt with few frequencies are also good with many. So training can be cheap: many
    frequencies are only needed when the model is conditioned on the rows. The warps do not change.

    Args:
        model: A single trained model, not a batch.
        n_more: Number of frequencies to add.
        generator: A generator on the CPU, for the draw of the frequencies.
    """
    if model.batch:
        raise ValueError(
            "Only a single model can be enriched. Got a batch of models with axes "
            f"{model.batch}; take it apart with unstack_models first."
        )
    old = model.architecture
    added = draw_frequencies(old.kernel, n_more, model.warped_dim, generator)
    architecture = replace(
        old,
        n_frequencies=old.n_frequencies + n_more,
        n_warp_frequencies=old.warp_frequencies,
    )
    device = model.log_noise.device
    richer = SSWIM(architecture, model.n_inputs, model.n_targets).to(device)
    state = model.state_dict()
    frequencies = (model.spectrum.unit_frequencies, added.to(device))
    richer.load_state_dict({**state, "spectrum.unit_frequencies": torch.cat(frequencies)})
    return richer


def start_length_scales(
    sample: Float[Tensor, "S D"], length_scale: float | None
) -> Float64[Tensor, " D"]:
    """Return the starting values of the length-scales; see :func:`start`."""
    sample = sample.detach().to("cpu", torch.float64)
    return _spread(sample) * (math.sqrt(sample.shape[1]) if length_scale is None else length_scale)


def _spread(sample: Float64[Tensor, "S D"]) -> Float64[Tensor, " D"]:
    """Return the standard deviation of each column; one for a constant column."""
    spread = sample.std(0, correction=0)
    return torch.where(spread > 0, spread, 1.0)
