"""Draws of functions by pathwise conditioning, and their joint covariance.

A prior function g ~ GP(0, k) and noise ε ~ N(0, λ) of every row make the prediction error

    e(x) = g(x) − Σ_i w_i(x)(g(x_i) + ε_i),

with the kriging weights w(x) of the neighbours of x. It has exactly the predicted variance, and it
is a function: the same g and ε serve wherever it is evaluated. The drawn function is
mean(x) + ŝ(x)·r·e(x), with one r for each draw such that r·e is Student-t.

The value of g at a row with an uncertain input is its expectation and a deviation from it, which is
independent of everything else and is drawn together with ε.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float64, Int64
from scipy import special
from torch import Tensor

from sswim.base.record import Record
from sswim.kernels.exact_kernel import cross_kernel, expected_cross_kernel, kernel_matrix
from sswim.kernels.features import Kernel, draw_frequencies, expected_features
from sswim.members.neighbourhood import NeighbourRows
from sswim.rows.rows import Measure

N_FREQUENCIES = 2048
"""Number of frequencies of a prior draw: the kernel's error is about the inverse of its root."""

PAIRS = 2**22
"""Number of pairs of rows, over all sets of points, whose kernel is computed together."""

BLOCK_ROWS = 2048
"""Number of rows whose kernel with all others is in memory."""


@dataclass(frozen=True)
class Kriging(Record):
    """Points with the weights of their neighbours."""

    points: Float64[Tensor, "*Q D"]
    indices: Int64[Tensor, "*Q m"]
    """The neighbours; −1 for a missing one."""
    weights: Float64[Tensor, "*Q T m"]
    """Their weights; zero for a missing one."""
    variance: Float64[Tensor, "*Q D"] | None = None
    """Variances of the points under an expected kernel; None for none. Draws leave them out."""


@dataclass(frozen=True)
class PriorDraws(Record):
    """Draws of prior functions, of the noise of every row, and of an amplitude."""

    frequencies: Float64[Tensor, "M D"]
    weights: Float64[Tensor, "n F T"]
    """Weights of the features of g."""
    noise: Float64[Tensor, "n N T"]
    """Deviation of every row's target from the expectation of g, in units of its own."""
    level: Float64[Tensor, " n"]
    """Probability of each draw's χ²."""

    def errors(self, rows: NeighbourRows, kriging: Kriging) -> Float64[Tensor, "n Q T"]:
        """Return e(x) of every draw at points."""
        flat = kriging.indices.clamp(min=0)
        used, place = flat.unique(return_inverse=True)
        variance = None if rows.variance is None else rows.variance[used]
        features = expected_features(self.frequencies, Measure(rows.points[used], variance))
        unexplained = (1 - features.square().sum(-1, keepdim=True)).clamp(min=0)
        deviation = (rows.ridge[used] + unexplained).sqrt()
        at_rows = features @ self.weights + deviation * self.noise[:, used]  # (n, U, T)
        errors = expected_features(self.frequencies, Measure(kriging.points)) @ self.weights
        for target in range(errors.shape[-1]):
            values = at_rows[:, :, target][:, place]  # (n, Q, m)
            predicted = (values * kriging.weights[:, target]).sum(-1)
            errors[:, :, target] -= predicted
        return errors

    def scales(self, degrees: Float64[Tensor, "Q T"]) -> Float64[Tensor, "n Q T"]:
        """Return r = √(ν/χ²_ν) of every draw; one where the degrees are infinite."""
        distinct, group = degrees.unique(return_inverse=True)
        ratios = torch.ones(len(self.level), len(distinct), dtype=torch.float64)
        for number, value in enumerate(distinct.tolist()):
            if value < torch.inf:
                squared = 2 * special.gammaincinv(value / 2, self.level.cpu().numpy())
                ratios[:, number] = (value / torch.as_tensor(squared)).sqrt()
        return ratios.to(degrees.device)[:, group]


def draw_prior(
    kernel: Kernel,
    n: int,
    n_inputs: int,
    n_targets: int,
    n_rows: int,
    generator: torch.Generator,
) -> PriorDraws:
    """Draw n prior functions with unit variance and unit length-scales, and noise for all rows."""
    frequencies = draw_frequencies(kernel, N_FREQUENCIES, n_inputs, generator)
    shape = (n, 2 * N_FREQUENCIES, n_targets)
    return PriorDraws(
        frequencies,
        torch.randn(shape, generator=generator, dtype=torch.float64),
        torch.randn(n, n_rows, n_targets, generator=generator, dtype=torch.float64),
        torch.rand(n, generator=generator, dtype=torch.float64).clamp(1e-9, 1 - 1e-9),
    )


def joint_covariance(
    rows: NeighbourRows, kriging: Kriging, kernel: Kernel
) -> Float64[Tensor, "T Q Q"]:
    """Return the covariance of e at all pairs of points, for every target.

    With W the weights of all neighbours of any point, it is
    k(x, x') − W k(X, x') − (…)ᵀ + W(k(X, X) + Λ)Wᵀ.
    """
    flat = kriging.indices.clamp(min=0)
    used, place = flat.unique(return_inverse=True)
    n_points, n_targets, _ = kriging.weights.shape
    spread = kriging.weights.new_zeros(n_targets, n_points, len(used))  # W
    places = place[None].expand(n_targets, -1, -1)
    spread.scatter_add_(2, places, kriging.weights.transpose(0, 1))
    centre = kriging.points.mean(0)
    known, points = rows.points[used] - centre, kriging.points - centre
    variance = None if rows.variance is None else rows.variance[used]
    total = cross_kernel(points, points, kernel).expand(n_targets, -1, -1)
    towards = spread @ _kernel(known, variance, points, None, kernel)
    total = total - towards - towards.mT
    weighted = spread * rows.ridge[used].mT[:, None]  # WΛ
    size = BLOCK_ROWS if variance is None else max(1, BLOCK_ROWS // known.shape[1])
    for start in range(0, len(used), size):
        block = slice(start, start + size)
        some = None if variance is None else variance[block]
        matrix = _kernel(known, variance, known[block], some, kernel)
        matrix[block].fill_diagonal_(1.0)  # a row is where it is
        weighted[:, :, block] += spread @ matrix
    return total + weighted @ spread.mT


def set_covariance(
    rows: NeighbourRows, krigings: Kriging, kernel: Kernel
) -> Float64[Tensor, "B T q q"]:
    """Return the covariance of e at the points of each of B small sets, (B, q), for every target.

    It is that of :func:`joint_covariance`, but differentiable in points and weights, and with a
    matrix W of its own for every set.
    """
    used, place = _distinct(krigings.indices.clamp(min=0).flatten(1))
    n_sets, n_points, n_targets, n_neighbours = krigings.weights.shape
    places = place.unflatten(1, (n_points, n_neighbours))[:, None].expand(-1, n_targets, -1, -1)
    spread = krigings.weights.new_zeros(n_sets, n_targets, n_points, used.shape[1])
    spread = spread.scatter_add(3, places, krigings.weights.transpose(1, 2))  # W
    centre = krigings.points.detach().mean(1, keepdim=True)
    known, points = rows.points[used] - centre, krigings.points - centre
    variance = None if rows.variance is None else rows.variance[used]
    towards = spread @ _kernel(known, variance, points, krigings.variance, kernel)[:, None]
    own = kernel_matrix(points, krigings.variance, kernel)[:, None]
    size = max(1, PAIRS // max(1, used.numel()))
    products = []
    for start in range(0, used.shape[1], size):
        block = slice(start, start + size)
        some = None if variance is None else variance[:, block]
        matrix = _kernel(known, variance, known[:, block], some, kernel)
        matrix[:, block].diagonal(dim1=-2, dim2=-1).fill_(1.0)  # a row is where it is
        products.append(spread @ matrix[:, None])
    weighted = torch.cat(products, dim=-1) + spread * rows.ridge[used].mT[:, :, None]  # WΛ
    return own - towards - towards.mT + weighted @ spread.mT


def _distinct(
    numbers: Int64[Tensor, "B n"],
) -> tuple[Int64[Tensor, "B u"], Int64[Tensor, "B n"]]:
    """Return the distinct numbers of every row, and the place of each number among them.

    Rows with fewer distinct numbers than others are filled up with zeros.
    """
    ordered, order = numbers.sort(-1)
    rank = torch.nn.functional.pad(ordered.diff(dim=-1) != 0, (1, 0)).cumsum(-1)
    distinct = numbers.new_zeros(len(numbers), int(rank.max()) + 1).scatter(1, rank, ordered)
    return distinct, torch.empty_like(numbers).scatter(1, order, rank)


def _kernel(
    first: Float64[Tensor, "*B n D"],
    first_variance: Float64[Tensor, "*B n D"] | None,
    second: Float64[Tensor, "*B m D"],
    second_variance: Float64[Tensor, "*B m D"] | None,
    kernel: Kernel,
) -> Float64[Tensor, "*B n m"]:
    """Return the kernel of points with others; its expectation if the first are uncertain."""
    if first_variance is None:
        return cross_kernel(first, second, kernel)
    if second_variance is None:
        second_variance = torch.zeros_like(second)
    return expected_cross_kernel(first, first_variance, second, second_variance, kernel)
