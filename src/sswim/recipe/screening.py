"""Screening: where training starts, by the evidence of stationary models.

The stationary model with one length-scale for all inputs costs one eigendecomposition for every
length-scale that is tried, whatever the signal and the noise: with ΦᵀWΦ = UΛUᵀ, β = UᵀΦᵀWz and
λ = σ²/s²

    zᵀ(ΦΦᵀ + λW⁻¹)⁻¹z = (zᵀWz − Σ β²/(Λ + λ))/λ = q(λ),

the best signal is s² = q/N, and −log evidence = ½N(1 + log 2πs²) + ½Σ log(Λ + λ) + ½(N − F) log λ.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from sswim.model.architecture import Architecture
from sswim.model.features import expected_features
from sswim.model.normal_scores import learn_normal_scores
from sswim.model.observations import Observations
from sswim.model.spectrum import Kernel, draw_frequencies
from sswim.posterior.statistics import Statistics, statistics
from sswim.rows.measure import Measure
from sswim.rows.rows import Rows

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


@dataclass(frozen=True)
class StartingPoint:
    """Hyper-parameters at which training starts."""

    length_scale: float
    """Length-scale of every input, in units of its spread."""
    signal: Float64[Tensor, " T"]
    """s²"""
    noise: Float64[Tensor, " T"]
    """σ²"""


def screen(rows: Rows, kernel: Kernel, generator: torch.Generator) -> StartingPoint:
    """Return the length-scale, signal and noise with the greatest evidence.

    Linear features are used beside the Fourier features, so that a trend does not hide the rest.

    Args:
        rows: Standardised rows.
        kernel: Kernel of the Fourier features.
        generator: Generator on the CPU for the frequencies, and for a choice of many rows.
    """
    rows = rows.to(device=torch.device("cpu"), dtype=torch.float64)
    if len(rows) > MAX_ROWS:
        chosen = torch.randperm(len(rows), generator=generator)[:MAX_ROWS]
        rows = rows.map(lambda tensor: tensor[chosen])
    points = rows.inputs.mean
    n_inputs = points.shape[1]
    unit = draw_frequencies(kernel, N_FREQUENCIES, n_inputs, generator)
    trend = torch.cat((points * n_inputs**-0.5, torch.ones_like(points[:, :1])), dim=-1)
    tried = []
    for multiple in MULTIPLES:
        length_scale = multiple * math.sqrt(n_inputs)
        waves = expected_features(unit / length_scale, Measure(points))
        observations = Observations(
            torch.cat((waves, trend), dim=-1),
            rows.targets,
            torch.zeros_like(rows.targets),
            multiplicity=rows.weight,
        )
        values, signals, ridges = best_signals(statistics(observations))
        tried.append((values.sum().item(), length_scale, signals, ridges * signals))
    _, length_scale, signal, noise = min(tried, key=lambda each: each[0])
    return StartingPoint(length_scale, signal, noise)


def best_signals(
    statistics: Statistics,
) -> tuple[Float64[Tensor, " T"], Float64[Tensor, " T"], Float64[Tensor, " T"]]:
    """Return the smallest negative log evidence over s² and λ, s² and λ, for every target."""
    eigenvalues, vectors = torch.linalg.eigh(statistics.gram[0])
    eigenvalues = eigenvalues.clamp(min=0)  # Λ
    squared = (vectors.mT @ statistics.moment).square()  # β², (F, T)
    few = bool(statistics.count < FEW_ROWS)
    ridges = (RIDGES[RIDGES >= MIN_RIDGE_OF_FEW] if few else RIDGES)[:, None]
    shifted = eigenvalues + ridges  # Λ + λ, (ridges, F)
    explained = (1 / shifted) @ squared  # (ridges, T)
    # Rounding may leave nothing, or less, of targets that are a function of the features.
    smallest = torch.finfo(torch.float64).eps * statistics.energy.clamp(min=1.0)
    quadratic = (statistics.energy - explained).clamp(min=smallest) / ridges  # q
    count, n_features = statistics.count, len(eigenvalues)
    signals = quadratic / count
    values = 0.5 * (
        count * (1 + (2 * math.pi * signals).log())
        + shifted.log().sum(-1, keepdim=True)
        + (count - n_features) * ridges.log()
    )
    least = values.argmin(0, keepdim=True)
    return (
        values.gather(0, least)[0],
        signals.gather(0, least)[0],
        ridges[least[0], 0],
    )


def starting_points(
    architectures: Sequence[Architecture],
    rows: Rows,
    sample: Float[Tensor, "S D"],
    generator: torch.Generator,
) -> dict[str, StartingPoint]:
    """Screen once for each form of the inputs, and return the starts by that form.

    Args:
        architectures: Architectures of the members; the kernel of the first is used for all.
        rows: Standardised rows.
        sample: Some rows of the inputs, as :func:`sswim.model.start.start` takes them.
        generator: Generator on the CPU.
    """
    points: dict[str, StartingPoint] = {}
    for architecture in architectures:
        if architecture.inputs not in points:
            inputs = rows.inputs
            if architecture.inputs == "normal-scores":
                inputs = learn_normal_scores(sample).forward(inputs)
            seen = replace(rows, inputs=inputs)
            points[architecture.inputs] = screen(seen, architectures[0].kernel, generator)
    return points
