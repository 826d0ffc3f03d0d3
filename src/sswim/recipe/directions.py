"""Supervised directions of the inputs, in which the projection P of a general warp starts.

A stationary model f with one length-scale per coordinate is trained for a few steps. The mean A of
the outer products of its gradients, A = mean ∇f ∇fᵀ = UΛUᵀ, says how much f changes along every
direction. In the coordinates Λ^{1/2}Uᵀx it changes as fast along one as along another. A second
model, in these coordinates, refines them: it can shrink directions that are not those of single
inputs. P has the first rows of Λ^{1/2}Uᵀ. (Averages of outer products of gradients are the active
subspaces of Constantine et al., 2014, and the features that recursive feature machines learn.)
"""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from jaxtyping import Float64
from torch import Tensor

from sswim.base.cholesky import FactorisationError
from sswim.model.architecture import Architecture
from sswim.model.directions import principal_directions, with_random_directions
from sswim.model.features import expected_features, feature_slopes
from sswim.model.start import start
from sswim.posterior.feature_predictor import condition_by_features
from sswim.rows.measure import Measure
from sswim.rows.rows import Rows
from sswim.training.optimisers import Adam
from sswim.training.training import train

MAX_ROWS = 2000
"""Largest number of rows: enough to tell directions apart."""

ROUNDS = 2
"""Number of models, each in the coordinates of the one before."""

OPTIMISER = Adam(steps=50, learning_rate=0.1)

ARCHITECTURE = Architecture(depth=0, n_frequencies=128, kernel="rbf")

MIN_SPREAD = 1e-3
"""Spread below which a coordinate is left out of the next model, in units of the typical one."""


def supervised_directions(
    rows: Rows, n_directions: int, generator: torch.Generator
) -> Float64[Tensor, "Q D"]:
    """Return directions in which the targets change, the fastest first, by how fast they change.

    There are random ones beyond D, and principal directions if no model can be trained.

    Args:
        rows: Standardised rows, in any order, that the member to start is trained on.
        n_directions: Q.
        generator: Generator on the CPU.
    """
    rows = _distinct(rows.to(device=torch.device("cpu"), dtype=torch.float64), generator)
    inputs = rows.inputs.mean
    root = torch.eye(inputs.shape[1], dtype=torch.float64)
    try:
        for _ in range(ROUNDS):
            root = _next_coordinates(root, rows, generator)
    except FactorisationError:
        root = torch.zeros_like(root)
    if not bool(root.any()) or not bool(root.isfinite().all()):
        return principal_directions(inputs, n_directions, generator)
    return with_random_directions(root, n_directions, generator)


def _distinct(rows: Rows, generator: torch.Generator) -> Rows:
    """Return rows with distinct inputs that count, sorted; a random choice of many.

    Rows with the same inputs become one, with their mean target: the result depends neither on the
    order of the rows, nor on whether a row is given twice or with twice the weight.
    """
    weight = rows.targets.new_ones(len(rows)) if rows.weight is None else rows.weight
    counts = weight > 0
    inputs, group = rows.inputs.mean[counts].unique(dim=0, return_inverse=True)
    weight, targets = weight[counts], rows.targets[counts]
    total = weight.new_zeros(len(inputs)).index_add_(0, group, weight)
    sums = targets.new_zeros(len(inputs), targets.shape[1])
    means = sums.index_add_(0, group, weight[:, None] * targets) / total[:, None]
    found = Rows(Measure(inputs), means, total / total.mean())
    if len(found) > MAX_ROWS:
        return found.take(torch.randperm(len(found), generator=generator)[:MAX_ROWS])
    return found


def _next_coordinates(
    root: Float64[Tensor, "E D"], rows: Rows, generator: torch.Generator
) -> Float64[Tensor, "D D"]:
    """Return Λ^{1/2}Uᵀ of a model that sees the inputs in other coordinates; zero if they are one.

    Args:
        root: The map from inputs to these coordinates.
        rows: Rows with distinct inputs.
        generator: Generator on the CPU.
    """
    inputs = rows.inputs.mean
    spread = (inputs @ root.mT).std(0, correction=0)
    typical = spread.square().mean().sqrt()
    root = root[spread > MIN_SPREAD * typical] / typical.clamp(min=torch.finfo(spread.dtype).tiny)
    if not len(root):
        return torch.zeros(inputs.shape[1], inputs.shape[1], dtype=torch.float64)
    seen = replace(rows, inputs=Measure(inputs @ root.mT))
    model = start(ARCHITECTURE, seen.inputs.mean, rows.targets.shape[1], generator)
    with torch.no_grad():  # the spread of a coordinate says how much it matters
        model.spectrum.log_length_scales.fill_(0.5 * math.log(inputs.shape[1]))
    train(model, seen, optimiser=OPTIMISER, device="cpu")
    with torch.no_grad():
        weights = condition_by_features(model, seen).posterior.mean
        frequencies = model.spectrum.frequencies()
        features = expected_features(frequencies, seen.inputs)
        slopes = feature_slopes(frequencies, features, weights).flatten(0, 1) @ root  # ∇f, by rows
        rates, directions = torch.linalg.eigh(slopes.mT @ slopes / len(slopes))
    return (rates.clamp(min=0).sqrt() * directions).mT.flip(0)
