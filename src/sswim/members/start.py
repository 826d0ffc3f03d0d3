"""The start of a model, by screening, and more frequencies for a trained one.

Screening finds where training starts, by the evidence of stationary models, checked by rows left
out. The stationary model with one length-scale for all inputs costs one eigendecomposition for
every length-scale that is tried, whatever the signal and the noise: with ΦᵀΦ = UΛUᵀ, β = UᵀΦᵀz and
λ = σ²/s²

    zᵀ(ΦΦᵀ + λI)⁻¹z = (zᵀz − Σ β²/(Λ + λ))/λ = q(λ),

the best signal is s² = q/N, and −log evidence = ½N(1 + log 2πs²) + ½Σ log(Λ + λ) + ½(N − F) log λ.
Every distinct row counts once: copies would look like proof that there is no noise.

The evidence may be wrong. So its choice is only taken if it predicts rows without themselves better
than the usual length-scale does. With G = ΦU, the leverage h = Σ G²/(Λ + λ) and the fitted value
f = G(Λ + λ)⁻¹β, a row has the residual (z − f)/(1 − h) and the variance σ²/(1 − h) without itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from sswim.base.threads import map_in_threads
from sswim.kernels.features import Kernel, draw_frequencies, expected_features
from sswim.members.model import SSWIM, Architecture
from sswim.rows.rows import Measure, Rows
from sswim.warps.noise_field import NoiseField
from sswim.warps.normal_scores import learn_normal_scores
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


MULTIPLES = tuple(2.0**power for power in range(-6, 4))
"""Length-scales tried, in units of √D: from many oscillations over the rows to almost linear."""

RIDGES = torch.logspace(-10, 2, 37, dtype=torch.float64)
"""Values of λ = σ²/s² tried."""

FEW_ROWS = 256
MIN_RIDGE_OF_FEW = 1e-6
"""Smallest λ for fewer than FEW_ROWS rows, which cannot tell less noise from rounding."""

N_FREQUENCIES = 128
"""Number of frequencies: enough to tell length-scales apart."""

MAX_ROWS = 2000
"""Largest number of rows: enough to tell length-scales apart."""

CERTAINTY = 2.0
"""Number of standard errors by which a length-scale must be better than √D to be preferred."""

ALL_NOISE = 10.0
"""λ above which one length-scale for all inputs finds only noise. Separate length-scales and warps
may find more, but not from there: training then starts as without screening."""


@dataclass(frozen=True)
class StartingPoint:
    """Hyper-parameters at which training starts."""

    length_scale: float
    """Length-scale of every input, in units of its spread."""
    signal: Float64[Tensor, " T"]
    """s²"""
    noise: Float64[Tensor, " T"]
    """σ²"""


@dataclass(frozen=True)
class Candidate:
    """A length-scale with its best signal and ridge."""

    length_scale: float
    value: float
    """Negative log evidence, summed over the targets."""
    signal: Float64[Tensor, " T"]
    ridge: Float64[Tensor, " T"]
    density: Float64[Tensor, " N"]
    """Log density of every row without itself, summed over the targets."""


def screen(rows: Rows, kernel: Kernel, generator: torch.Generator) -> StartingPoint | None:
    """Return the best start; None if the stationary models find only noise.

    Args:
        rows: Standardised rows; copies are merged.
        kernel: Kernel of the Fourier features.
        generator: Generator on the CPU for the frequencies, and for a choice of many rows.
    """
    rows = rows.to(device=torch.device("cpu"), dtype=torch.float64)
    if len(rows) > MAX_ROWS:
        rows = rows.take(torch.randperm(len(rows), generator=generator)[:MAX_ROWS])
    points = rows.inputs.mean
    n_inputs = points.shape[1]
    unit = draw_frequencies(kernel, N_FREQUENCIES, n_inputs, generator)

    def attempt(multiple: float) -> Candidate:
        length_scale = multiple * math.sqrt(n_inputs)
        features = expected_features(unit / length_scale, Measure(points))
        return evaluate(length_scale, features, rows.targets)

    tried = map_in_threads(attempt, MULTIPLES)
    best = choose(tried, tried[MULTIPLES.index(1.0)])
    if bool((best.ridge > ALL_NOISE).any()):
        return None
    return StartingPoint(best.length_scale, best.signal, best.signal * best.ridge)


def choose(tried: Sequence[Candidate], usual: Candidate) -> Candidate:
    """Return the candidate with the greatest evidence if it is certainly better than the usual."""
    best = min(tried, key=lambda point: point.value)
    gain = best.density - usual.density
    error = gain.std(correction=0) / math.sqrt(len(gain))
    return best if gain.mean() > CERTAINTY * error else usual


def evaluate(
    length_scale: float, features: Float64[Tensor, "N F"], targets: Float64[Tensor, "N T"]
) -> Candidate:
    """Find the best s² and λ of every target, and predict every row without itself."""
    n_rows, n_features = features.shape
    eigenvalues, vectors = torch.linalg.eigh(features.mT @ features)
    eigenvalues = eigenvalues.clamp(min=0)  # Λ
    rotated = features @ vectors  # G
    products = rotated.mT @ targets  # β, (F, T)
    ridges = RIDGES[RIDGES >= MIN_RIDGE_OF_FEW] if n_rows < FEW_ROWS else RIDGES
    shifted = eigenvalues + ridges[:, None]  # Λ + λ, (ridges, F)
    energy = targets.square().sum(0)
    # Rounding may leave nothing, or less, of targets that are a function of the features.
    smallest = torch.finfo(torch.float64).eps * energy.clamp(min=1.0)
    rest = (energy - (1 / shifted) @ products.square()).clamp(min=smallest)
    signals = rest / ridges[:, None] / n_rows  # (ridges, T)
    values = 0.5 * (
        n_rows * (1 + (2 * math.pi * signals).log())
        + shifted.log().sum(-1, keepdim=True)
        + (n_rows - n_features) * ridges[:, None].log()
    )
    least = values.argmin(0)  # of every target
    signal, ridge = signals.gather(0, least[None])[0], ridges[least]
    shrunk = 1 / (eigenvalues + ridge[:, None])  # (T, F)
    remaining = (1 - rotated.square() @ shrunk.mT).clamp(min=1e-12)  # 1 − h, (N, T)
    residual = (targets - rotated @ (shrunk.mT * products)) / remaining
    variance = signal * ridge / remaining
    density = -0.5 * (residual.square() / variance + (2 * math.pi * variance).log())
    value = values.gather(0, least[None]).sum().item()
    return Candidate(length_scale, value, signal, ridge, density.sum(-1))


def starting_points(
    architectures: Sequence[Architecture],
    rows: Rows,
    sample: Float[Tensor, "S D"],
    generator: torch.Generator,
) -> dict[str, StartingPoint]:
    """Screen once for each form of the inputs, and return the starts that were found by that form.

    Args:
        architectures: Architectures of the members; the kernel of the first is used for all.
        rows: Standardised rows.
        sample: Some rows of the inputs, as :func:`sswim.members.start.start` takes them.
        generator: Generator on the CPU.
    """
    points: dict[str, StartingPoint] = {}
    for form in dict.fromkeys(architecture.inputs for architecture in architectures):
        seen = rows
        if form == "normal-scores":
            seen = replace(rows, inputs=learn_normal_scores(sample).forward(rows.inputs))
        point = screen(seen, architectures[0].kernel, generator)
        if point is not None:
            points[form] = point
    return points


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
    field.spectrum.start(architecture.kernel, length_scales, generator)
    field.temper.zero_()
    return field
