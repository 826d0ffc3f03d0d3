"""Screening: where training starts, by the evidence of stationary models, checked by rows left out.

The stationary model with one length-scale for all inputs costs one eigendecomposition for every
length-scale that is tried, whatever the signal and the noise: with ΦᵀΦ = UΛUᵀ, β = UᵀΦᵀz and
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
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from sswim.kernels.features import expected_features
from sswim.kernels.spectrum import Kernel, draw_frequencies
from sswim.members.architecture import Architecture
from sswim.rows.rows import Measure, Rows
from sswim.warps.normal_scores import learn_normal_scores

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
    tried = []
    for multiple in MULTIPLES:
        length_scale = multiple * math.sqrt(n_inputs)
        features = expected_features(unit / length_scale, Measure(points))
        tried.append(evaluate(length_scale, features, rows.targets))
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
    screened: set[str] = set()
    for architecture in architectures:
        if architecture.inputs not in screened:
            inputs = rows.inputs
            if architecture.inputs == "normal-scores":
                inputs = learn_normal_scores(sample).forward(inputs)
            seen = replace(rows, inputs=inputs)
            point = screen(seen, architectures[0].kernel, generator)
            screened.add(architecture.inputs)
            if point is not None:
                points[architecture.inputs] = point
    return points
