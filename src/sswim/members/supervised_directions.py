"""Supervised directions of the inputs, in which the projection P of a general warp starts.

A stationary model f with one length-scale per input is trained for a few steps. In units of its
length-scales, z = x/ℓ, the mean outer product of its gradients, A = mean ∇f ∇fᵀ, says how much f
changes along every direction. The metric A/tr A + εI/D of z lies between that and the distances
that the model sees. P has the Q coordinates that keep distances in this metric best: with its root
R and the principal directions V of the rows Rz, P = V_QᵀR diag(1/ℓ).

(Averages of outer products of gradients are the active subspaces of Constantine et al., 2014.
Alone they are sharper than a few thousand rows can tell, and the principal directions of z alone
miss inputs that matter a little.)
"""

from __future__ import annotations

import torch
from jaxtyping import Float64
from torch import Tensor

from sswim.base.cholesky import FactorisationError
from sswim.kernels.features import expected_features, feature_slopes
from sswim.members.linear_regression import posterior, total_statistics
from sswim.members.model import Architecture
from sswim.members.start import start
from sswim.members.training import Adam, train
from sswim.rows.rows import Measure, Rows
from sswim.warps.projection import principal_directions, with_random_directions

MAX_ROWS = 2000
"""Largest number of rows: enough to tell directions apart."""

OPTIMISER = Adam(steps=50, learning_rate=0.1)

ARCHITECTURE = Architecture(depth=0, n_frequencies=128, kernel="rbf")

SHARE = 0.1
"""ε, the share of the model's own distances in the metric."""


def supervised_directions(
    rows: Rows, n_directions: int, generator: torch.Generator
) -> Float64[Tensor, "Q D"]:
    """Return directions in which the targets change, the most important first, with their sizes.

    There are random ones beyond D, and principal directions if no model can be trained.

    Args:
        rows: Standardised rows, in any order, that the member to start is trained on.
        n_directions: Q.
        generator: Generator on the CPU.
    """
    rows = _distinct(rows.to(device=torch.device("cpu"), dtype=torch.float64), generator)
    inputs = rows.inputs.mean
    try:
        root = _metric_root(rows, generator)
    except FactorisationError:
        return principal_directions(inputs, n_directions, generator)
    seen = inputs @ root.mT
    directions = principal_directions(seen, seen.shape[1], generator) @ root
    return with_random_directions(directions, n_directions, generator)


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
    distinct = Rows(Measure(inputs), means, total / total.mean())
    if len(distinct) > MAX_ROWS:
        return distinct.take(torch.randperm(len(distinct), generator=generator)[:MAX_ROWS])
    return distinct


def _metric_root(rows: Rows, generator: torch.Generator) -> Float64[Tensor, "D D"]:
    """Return R diag(1/ℓ) of a model that is trained on rows with distinct inputs."""
    model = start(ARCHITECTURE, rows.inputs.mean, rows.targets.shape[1], generator)
    train(model, rows, optimiser=OPTIMISER, device="cpu")
    with torch.no_grad():
        totals = total_statistics(model.factors()[0], rows)
        weights = posterior(totals, model.noise(), model.signal()).mean
        frequencies = model.spectrum.frequencies()
        features = expected_features(frequencies, rows.inputs)
        length_scales = model.spectrum.length_scales()
        slopes = feature_slopes(frequencies, features, weights).flatten(0, 1) * length_scales
        products = slopes.mT @ slopes  # A, up to a factor
        n_inputs = len(products)
        products /= products.trace().clamp(min=torch.finfo(products.dtype).tiny)
        metric = products + SHARE / n_inputs * torch.eye(n_inputs, dtype=products.dtype)
        sizes, axes = torch.linalg.eigh(metric)
        return (axes * sizes.clamp(min=0).sqrt()) @ axes.mT / length_scales
