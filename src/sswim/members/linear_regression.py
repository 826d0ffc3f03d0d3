"""Bayesian linear regression on features: statistics, posterior, evidence, leave-one-out.

The weights have the prior N(0, s²I), the features are Φ ∈ R^{N×F}, the targets z = T(y) ∈ R^{N×T},
and the noise has variance σ²/w(x), with w = 1 if it is constant. A row may count c times, and
W = diag(c·w). (If the weights of rows follow the noise only in part, W has w^τ in place of w.) The
targets are independent given the features, each with its own s², σ², w and T. With λ = σ²/s²,
everything below follows from

    A = ΦᵀWΦ + λI = LLᵀ,    α = A⁻¹ΦᵀWz.

The regression depends on the data only through sums over rows, the ``Statistics``. These are
accumulated and factorised in float64, whatever the precision of the features. The products ΦᵀWΦ and
ΦᵀWz over many rows, in which training spends most of its time, have gradients of their own, and so
has the part of the log evidence with a matrix factorisation.

All tensors may have axes *B of members in front; rows without these axes are shared by all members.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import add
from typing import Any

import torch
from jaxtyping import Float, Float64
from torch import Tensor
from torch.autograd.function import once_differentiable

from sswim.base.cholesky import cholesky, solve, solve_and_invert, triangular_inverse
from sswim.base.numerics import student_t_cdf, student_t_log_density, student_t_quantiles
from sswim.base.record import Record, rows_at_once
from sswim.base.threads import map_in_threads
from sswim.distributed.processes import ALONE, Processes
from sswim.members.model import Factors, Observations, observe
from sswim.rows.rows import Rows, SmallerChunks

_PANELS = 4
"""Number of panels of a symmetric product. Blocks below the diagonal are copies, so 5/8 of the
operations are needed."""

_MIN_FEATURES = 128
"""Smallest number of features for which panels save time."""

_MIN_ROWS_ON_GPU = 100_000
"""Smallest number of rows, over all members, for which panels save time on a GPU."""

_NO_CHUNKS = "There must be at least one chunk of rows. Got none."


class _WeightedSums(torch.autograd.Function):
    """ΦᵀWΦ and ΦᵀWz, with one product of size N·F² in the backward pass; autograd takes two.

    The inputs are Φ, Wz, the diagonal of W or None if all weights are one, and whether only the
    gradient matters: there are then zeros in place of ΦᵀWΦ, to save time.

    With G = ΦᵀWΦ, m = ΦᵀWz and a bar for the gradient of the objective:

    Φ̄ = WΦ(Ḡ + Ḡᵀ) + (Wz)m̄ᵀ
    """

    @staticmethod
    def forward(
        ctx: Any,
        features: Tensor,
        weighted: Tensor,
        weight: Tensor | None,
        gradients_only: bool,
    ) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(features, weighted, weight)
        if gradients_only:
            n_matrices, n_features = 1 if weight is None else weight.shape[-1], features.shape[-1]
            shape = (*features.shape[:-2], n_matrices, n_features, n_features)
            product = features.new_zeros(()).expand(shape)
        elif weight is None:
            product = _symmetric(features, features)[..., None, :, :]
        else:
            products = [_symmetric(features, features * column) for column in _columns(weight)]
            product = torch.stack(products, dim=-3)
        moment = (weighted.mT @ features).mT  # much faster than features.mT @ weighted
        return product.to(torch.float64), moment.to(torch.float64)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, of_gram: Tensor, of_moment: Tensor) -> tuple[Tensor | None, ...]:
        features, weighted, weight = ctx.saved_tensors
        of_gram, of_moment = of_gram.to(features.dtype), of_moment.to(features.dtype)
        symmetric = (of_gram + of_gram.mT).unbind(-3)
        of_weight = None
        if weight is None:
            [matrix] = symmetric
            of_features = _add_product(_outer(weighted, of_moment), features, matrix)
        else:
            products = [features @ matrix for matrix in symmetric]  # Φ(Ḡ + Ḡᵀ)
            of_features = _outer(weighted, of_moment)
            for product, column in zip(products, _columns(weight), strict=True):
                of_features = of_features.addcmul_(product, column)
            if ctx.needs_input_grad[2]:
                columns = [0.5 * (product * features).sum(-1) for product in products]
                of_weight = torch.stack(columns, dim=-1).sum_to_size(weight.shape)
        of_weighted = None
        if ctx.needs_input_grad[1]:
            of_weighted = (of_moment.mT @ features.mT).mT.sum_to_size(weighted.shape)
        return of_features, of_weighted, of_weight, None


def _columns(weight: Tensor) -> tuple[Tensor, ...]:
    """Return the columns of the weights, each with an axis of features."""
    return weight[..., None].unbind(-2)


def _symmetric(left: Float[Tensor, "*B N F"], right: Float[Tensor, "*B N F"]) -> Tensor:
    """Return LᵀR, which must be symmetric, in panels that reach from the diagonal to the right."""
    n_features = left.shape[-1]
    few_rows = left.is_cuda and left.numel() // n_features < _MIN_ROWS_ON_GPU
    if few_rows or n_features < _MIN_FEATURES:
        return left.mT @ right
    product = left.new_empty(*left.shape[:-2], n_features, n_features)
    width = math.ceil(n_features / _PANELS)
    for begin in range(0, n_features, width):
        end = min(begin + width, n_features)
        panel = left[..., begin:end].mT @ right[..., begin:]
        product[..., begin:end, begin:] = panel
        product[..., end:, begin:end] = panel[..., end - begin :].mT
    return product


def _outer(weighted: Float[Tensor, "*#B N T"], moment: Float[Tensor, "*B F T"]) -> Tensor:
    """Return (Wz)m̄ᵀ."""
    if weighted.shape[-1] == 1:
        return weighted * moment.mT
    return weighted @ moment.mT


def _add_product(total: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """Return T + LR, written into the memory of T."""
    flat = total.flatten(0, -3) if total.ndim > 2 else total[None]
    flat.baddbmm_(left.reshape(flat.shape), right.reshape(-1, *right.shape[-2:]))
    return total


@dataclass(frozen=True)
class Statistics(Record):
    """Sums over a set of rows; the statistics of several sets add up."""

    gram: Float64[Tensor, "*B G F F"]
    """ΦᵀWΦ, the Gram matrix; one for all targets (G = 1), or one for each."""
    moment: Float64[Tensor, "*B F T"]
    """ΦᵀWz, the products of features and targets."""
    energy: Float64[Tensor, "*B T"]
    """zᵀWz, the sum of squared targets."""
    log_scale: Float64[Tensor, "*B T"]
    """Σ c·(½τ log w + log T'(y)): the log evidence of y is that of z with noise σ², plus this."""
    count: Float64[Tensor, "*B"]
    """Σ c, the number of rows if each counts once."""

    def packed_gram(self) -> Float64[Tensor, "*B G P"]:
        """Return the lower triangle of ΦᵀWΦ, row after row; only this triangle is ever read."""
        n_features = self.gram.shape[-1]
        rows, columns = torch.tril_indices(n_features, n_features, device=self.gram.device)
        return self.gram[..., rows, columns]

    def packed_bytes(self) -> int:
        """Return the number of bytes of the packed Gram matrix."""
        *batch, n_features, _ = self.gram.shape
        return math.prod(batch) * n_features * (n_features + 1) // 2 * self.gram.itemsize

    def __add__(self, other: Statistics) -> Statistics:
        """Return the statistics of both sets of rows together."""
        pairs = zip(self.tensors(), other.tensors(), strict=True)
        return Statistics(*(mine + theirs for mine, theirs in pairs))

    def __sub__(self, other: Statistics) -> Statistics:
        """Return the statistics without those of a subset of the rows."""
        pairs = zip(self.tensors(), other.tensors(), strict=True)
        return Statistics(*(mine - theirs for mine, theirs in pairs))


def unpack_gram(packed: Float64[Tensor, "*B G P"], n_features: int) -> Float64[Tensor, "*B G F F"]:
    """Return ΦᵀWΦ, given its lower triangle; see :meth:`Statistics.packed_gram`."""
    rows, columns = torch.tril_indices(n_features, n_features, device=packed.device)
    gram = packed.new_empty(*packed.shape[:-1], n_features, n_features)
    gram[..., rows, columns] = packed
    gram[..., columns, rows] = packed
    return gram


def statistics(rows: Observations, gradients_only: bool = False) -> Statistics:
    """Compute the statistics of rows; differentiable in features, targets and weights.

    Args:
        rows: Features, targets and weights.
        gradients_only: Return zeros in place of ΦᵀWΦ, with the right gradient; for rows whose
            statistics are already known.
    """
    features, targets = rows.features, rows.targets
    weight, log_weight, multiplicity = rows.weight(), rows.log_weight(), rows.multiplicity
    weighted = targets if weight is None else targets * weight  # Wz
    gram, moment = _WeightedSums.apply(
        features,
        weighted.to(features.dtype),
        None if weight is None else weight.to(features.dtype),
        gradients_only,
    )
    log_scale = rows.log_slope
    if log_weight is not None:
        log_scale = log_scale + 0.5 * log_weight
    if multiplicity is not None:
        log_scale = log_scale * multiplicity[..., None]
    batch = features.shape[:-2]  # sums over rows that members share are repeated for each member
    return Statistics(
        gram=gram,
        moment=moment,
        energy=(targets * weighted).sum(-2).expand(*batch, -1),
        log_scale=log_scale.sum(-2).expand(*batch, -1),
        count=targets.new_full(batch, targets.shape[-2])
        if multiplicity is None
        else multiplicity.sum(-1).expand(batch),
    )


@torch.no_grad()
def total_statistics(
    factors: Factors, rows: Rows | Iterable[Rows], processes: Processes = ALONE
) -> Statistics:
    """Compute the statistics of any number of rows, chunk by chunk and without a graph.

    Features are computed in float64, whatever the precision of the rows.

    Args:
        factors: Tensors of the member.
        rows: Rows in memory, or chunks of rows in an iterable that can be started again.
        processes: Processes whose rows are added up.
    """
    [total] = member_statistics([factors], rows, processes)
    return total


@torch.no_grad()
def member_statistics(
    members: Sequence[Factors], rows: Rows | Iterable[Rows], processes: Processes = ALONE
) -> list[Statistics]:
    """Compute the statistics of several members in one pass over the rows.

    The arguments are those of :func:`total_statistics`, with the factors of several members.
    """
    totals: list[Statistics] = []
    for chunk in SmallerChunks([rows] if isinstance(rows, Rows) else rows, rows_at_once):
        # In float32 the features of a row, and sums of them, would depend on how rows are cut into
        # chunks: the posterior amplifies that by the number of rows over λ.
        exact = chunk.to(dtype=torch.float64)
        parts = _on_each(members, exact)
        totals = [a + b for a, b in zip(totals, parts, strict=True)] if totals else parts
    if not totals:
        raise ValueError(_NO_CHUNKS)
    return [processes.all_sum(total) for total in totals]


def _on_each(members: Sequence[Factors], chunk: Rows) -> list[Statistics]:
    """Return the statistics of a chunk for every member, each on a core of its own."""

    @torch.no_grad()
    def compute(factors: Factors) -> Statistics:
        return statistics(observe(factors, chunk))

    several = len(members) > 1 and chunk.targets.device.type == "cpu"
    return map_in_threads(compute, members) if several else list(map(compute, members))


def sum_statistics(parts: Iterable[Statistics]) -> Statistics:
    """Add up the statistics of chunks one after another; there must be at least one chunk."""
    parts = iter(parts)
    first = next(parts, None)
    if first is None:
        raise ValueError(_NO_CHUNKS)
    return reduce(add, parts, first)


@dataclass(frozen=True)
class Prediction(Record):
    """Predictions of every row and target: Gaussian, or Student-t where there are degrees."""

    mean: Float[Tensor, "*B N T"]
    """Mean of the function, and of a new observation."""
    latent_variance: Float[Tensor, "*B N T"]
    """Variance of the function itself."""
    observation_variance: Float[Tensor, "*B N T"]
    """Variance of a new observation: the latent variance plus that of the noise."""
    degrees: Float64[Tensor, "*B N T"] | None = None
    """Degrees of freedom, more than two, of function and observation; None for Gaussians."""

    def log_density(self, targets: Float[Tensor, "*#B N T"]) -> Float[Tensor, "*B N T"]:
        """Return log p(y) of observations y."""
        residual = targets - self.mean
        if self.degrees is None:
            squared = residual.square() / self.observation_variance
            return -0.5 * (squared + self.observation_variance.log() + math.log(2 * math.pi))
        scale = self.observation_variance * self.scale_ratio().square()
        return student_t_log_density(residual.square() / scale, self.degrees) - 0.5 * scale.log()

    def cdf(
        self, targets: Float64[Tensor, "*#B N T"], sign: float | Float64[Tensor, "*#B 1 1"] = 1.0
    ) -> Float64[Tensor, "*B N T"]:
        """Return the probability of at most y, or of more than y where the sign is −1.

        Both are accurate where they are small.
        """
        deviation = (targets - self.mean) / self.observation_variance.sqrt() * sign
        if self.degrees is None:
            # torch.special.ndtr is not accurate where it is small.
            return 0.5 * torch.erfc(-math.sqrt(0.5) * deviation)
        return student_t_cdf(deviation / self.scale_ratio(), self.degrees)

    def stretch(self, normal: Float64[Tensor, " Q"]) -> Float64[Tensor, "Q *B N T"]:
        """Return the values of (z − mean)/(standard deviation) that are as probable as normal ones.

        For Gaussians they are the same; the tails of a Student-t are stretched.
        """
        if self.degrees is None:
            return normal.reshape(-1, *(1,) * self.mean.ndim)
        return self.scale_ratio() * student_t_quantiles(normal, self.degrees)

    def scale_ratio(self) -> Float64[Tensor, "*B N T"]:
        """Return √((n − 2)/n), the scale of a Student-t over its standard deviation."""
        assert self.degrees is not None
        return ((self.degrees - 2) / self.degrees).sqrt()


@dataclass(frozen=True)
class JointPrediction(Record):
    """Joint predictions of z = T(y) at sets of q points, by their first two moments."""

    mean: Float64[Tensor, "B q T"]
    """Mean of the function."""
    covariance: Float64[Tensor, "B T q q"]
    """Covariance of the function at the points of a set, for every target."""
    noise: Float64[Tensor, "B q T"]
    """Variance of the noise of an observation."""


def factorise(
    gram: Float64[Tensor, "*B G F F"], ridge: Float64[Tensor, "*B T"]
) -> Float64[Tensor, "*B T F F"]:
    """Return the Cholesky factor L of A = ΦᵀWΦ + λI = LLᵀ for every target's λ."""
    matrix = gram.expand(*ridge.shape, *gram.shape[-2:]).clone()
    matrix.diagonal(dim1=-2, dim2=-1).add_(ridge[..., None])
    return cholesky(matrix, name="matrix ΦᵀΦ + λI of the top-level regression")


class _QuadraticAndDeterminant(torch.autograd.Function):
    """The quadratic and the determinant term of the negative log evidence, for every target.

        ½σ⁻²(zᵀWz − bᵀA⁻¹b) + ½log|A| − ½F log λ,    b = ΦᵀWz

    The gradient has a closed form, so that autograd skips the factorisation. With r = zᵀWz − bᵀα
    the derivatives of the value v are

        ∂v/∂A = ½A⁻¹ + ½σ⁻²ααᵀ,    ∂v/∂b = −σ⁻²α,    ∂v/∂(zᵀWz) = ½σ⁻²,
        ∂v/∂λ = tr ∂v/∂A − ½F/λ,    ∂v/∂σ² = −½σ⁻⁴r + s⁻²·∂v/∂λ,    ∂v/∂s² = −λs⁻²·∂v/∂λ.
    """

    @staticmethod
    def forward(
        ctx: Any, gram: Tensor, moment: Tensor, energy: Tensor, noise: Tensor, signal: Tensor
    ) -> Tensor:
        ridge = noise / signal  # λ
        factor = factorise(gram, ridge)
        mean, inverse = solve_and_invert(factor, moment.mT)  # α, (*B, T, F), and A⁻¹
        residual = energy - (moment.mT * mean).sum(-1)  # r
        half_log_determinant = factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)  # ½ log|A|
        ctx.save_for_backward(inverse, mean, residual, noise, signal)
        ctx.targets_share_gram = gram.shape[-3] < noise.shape[-1]
        return 0.5 * residual / noise + half_log_determinant - 0.5 * factor.shape[-1] * ridge.log()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, ...]:
        inverse, mean, residual, noise, signal = ctx.saved_tensors
        of_matrix = inverse.addcmul(mean[..., :, None], (mean / noise[..., None])[..., None, :])
        of_matrix *= (0.5 * gradient)[..., None, None]
        of_residual = 0.5 * gradient / noise
        trace = of_matrix.diagonal(dim1=-2, dim2=-1).sum(-1)
        ridge = noise / signal
        of_ridge = trace - 0.5 * inverse.shape[-1] * gradient / ridge
        return (
            of_matrix.sum(-3, keepdim=True) if ctx.targets_share_gram else of_matrix,
            (-2 * of_residual[..., None] * mean).mT,
            of_residual,
            of_ridge / signal - of_residual * residual / noise,
            -of_ridge * ridge / signal,
        )


@dataclass(frozen=True)
class Posterior(Record):
    """The posterior N(α, σ²A⁻¹) of the weights, for every target."""

    mean: Float64[Tensor, "*B F T"]
    """α, the mean of the weights."""
    factor: Float64[Tensor, "*B T F F"]
    """L, the Cholesky factor of A."""
    noise: Float64[Tensor, "*B T"]
    """σ², the noise variance in the regression."""
    noise_correction: Float64[Tensor, "*B T"] | None = None
    """c, a correction of the noise: observations are predicted with e^c·σ² in place of σ²; None for
    zero."""
    latent_correction: Float64[Tensor, "*B T"] | None = None
    """a, a correction of the function's variance, which is multiplied by e^a; None for zero."""

    def predict(
        self,
        features: Float[Tensor, "*B N F"],
        log_precision: Float64[Tensor, "*B N T"] | None = None,
    ) -> Prediction:
        """Predict rows: mean φᵀα, latent variance e^a·σ²φᵀA⁻¹φ, observations + e^c·σ²/w.

        Args:
            features: Φ.
            log_precision: log w; None for constant noise.
        """
        features = features.to(torch.float64)
        latent = self.latent_scale[..., None, :] * self.leverage(features)
        return Prediction(features @ self.mean, latent, latent + self.noise_at(log_precision))

    @property
    def latent_scale(self) -> Float64[Tensor, "*B T"]:
        """e^a·σ², the variance of the function over the leverage."""
        if self.latent_correction is None:
            return self.noise
        return self.noise * self.latent_correction.exp()

    def noise_at(
        self, log_precision: Float64[Tensor, "*B N T"] | None
    ) -> Float64[Tensor, "*B N T"] | Float64[Tensor, "*B 1 T"]:
        """Return e^c·σ²/w, the noise variance of rows; one row for all if it is constant."""
        noise = self.noise[..., None, :]
        if self.noise_correction is not None:
            noise = noise * self.noise_correction.exp()[..., None, :]
        return noise if log_precision is None else noise * (-log_precision).exp()

    def leverage(self, features: Float64[Tensor, "*B N F"]) -> Float64[Tensor, "*B N T"]:
        """Return the leverage φᵀA⁻¹φ = ‖L⁻¹φ‖² of every row."""
        return self._whiten(features).square().sum(-2).mT

    def covariance(self, features: Float[Tensor, "*B N F"]) -> Float64[Tensor, "*B T N N"]:
        """Return the joint latent covariance e^a·σ²ΦA⁻¹Φᵀ of rows."""
        whitened = self._whiten(features.to(torch.float64))
        return self.latent_scale[..., None, None] * (whitened.mT @ whitened)

    def set_covariance(self, features: Float64[Tensor, "B q F"]) -> Float64[Tensor, "B T q q"]:
        """Return the joint latent covariances of sets of rows, for a single member."""
        whitened = self._whiten(features.flatten(0, 1))  # (T, F, B·q)
        sets = whitened.unflatten(-1, features.shape[:2]).permute(2, 0, 1, 3)
        return self.latent_scale[:, None, None] * (sets.mT @ sets)

    def sample_weights(self, n: int, generator: torch.Generator) -> Float64[Tensor, "n F T"]:
        """Draw weights w = α + e^{a/2}σL⁻ᵀξ of a single member, with ξ ~ N(0, I).

        Each draw is a function, φᵀw at any input. The generator is on the CPU, so that draws are
        the same on every device.
        """
        n_targets, n_features, _ = self.factor.shape
        normal = torch.randn(n_targets, n_features, n, generator=generator, dtype=torch.float64).to(
            self.factor.device
        )
        deviation = torch.linalg.solve_triangular(self.factor.mT, normal, upper=True)
        deviation = self.latent_scale.sqrt()[:, None, None] * deviation
        return self.mean + deviation.permute(2, 1, 0)

    def _whiten(self, features: Float64[Tensor, "*B N F"]) -> Float64[Tensor, "*B T F N"]:
        """Return L⁻¹Φᵀ for every target."""
        transposed = features.mT[..., None, :, :]  # the same for every target
        # On a GPU a product is many times as fast as a triangular solution.
        if self.factor.is_cuda and not self.factor.requires_grad:
            return self._inverse_factor @ transposed
        return torch.linalg.solve_triangular(self.factor, transposed, upper=False)

    @cached_property
    def _inverse_factor(self) -> Float64[Tensor, "*B T F F"]:
        """L⁻¹, the inverse of the Cholesky factor."""
        return triangular_inverse(self.factor)


def posterior(
    statistics: Statistics,
    noise: Float64[Tensor, "*B T"],
    signal: Float64[Tensor, "*B T"],
    noise_correction: Float64[Tensor, "*B T"] | None = None,
    latent_correction: Float64[Tensor, "*B T"] | None = None,
) -> Posterior:
    """Return the posterior of the weights, given the statistics of rows.

    New rows can be added later with ``posterior(old + new, …)``: exactly, and without the old rows.

    Args:
        statistics: Sums over all rows.
        noise: σ² of every target.
        signal: s² of every target.
        noise_correction: c of every target; None for zero.
        latent_correction: a of every target; None for zero.
    """
    _check_targets(statistics, noise)
    factor = factorise(statistics.gram, noise / signal)
    mean = solve(factor, statistics.moment.mT).mT
    return Posterior(mean, factor, noise, noise_correction, latent_correction)


def negative_log_evidence(
    statistics: Statistics, noise: Float64[Tensor, "*B T"], signal: Float64[Tensor, "*B T"]
) -> Float64[Tensor, "*B"]:
    """Return −log N(z; 0, s²ΦΦᵀ + σ²W⁻¹) − Σ log T'(y), summed over the targets.

        ½σ⁻²(zᵀWz − ‖L⁻¹ΦᵀWz‖²) + Σ log L_ii − ½F log λ + ½N log 2πσ² − Σ c(½log w + log T'(y))

    A row counts c times, and N = Σ c. (The paper's equation has D in place of F, and M in place of
    N.)
    """
    _check_targets(statistics, noise)
    sums = statistics.gram, statistics.moment, statistics.energy
    terms: Tensor = _QuadraticAndDeterminant.apply(*sums, noise, signal)
    normaliser = 0.5 * statistics.count[..., None] * (2 * math.pi * noise).log()
    return (terms + normaliser - statistics.log_scale).sum(-1)


def leave_one_out(rows: Observations, posterior: Posterior) -> Prediction:
    """Predict z of every row from all other rows, in closed form.

    The posterior is conditioned on all rows. With the leverage h = φᵀA⁻¹φ of a row, reducing its
    weight by u gives

        residual (z − φᵀα)/(1 − uh),    latent variance e^a·σ²h/(1 − uh).

    One observation is left out, u = min(c, 1)·w; for c = 1 it has the variance σ²/w/(1 − wh).
    """
    features = rows.features.to(torch.float64)
    leverage = posterior.leverage(features)
    removed: Tensor | float = 1.0
    log_weight = rows.log_weight()
    if log_weight is not None:
        removed = log_weight.exp()
    if rows.multiplicity is not None:
        removed = removed * rows.multiplicity.clamp(max=1.0)[..., None]
    remaining = 1 - removed * leverage
    residual = (rows.targets - features @ posterior.mean) / remaining
    latent = posterior.latent_scale[..., None, :] * leverage / remaining
    observation = latent + posterior.noise_at(rows.log_precision)
    return Prediction(rows.targets - residual, latent, observation)


def _check_targets(statistics: Statistics, noise: Float64[Tensor, "*B T"]) -> None:
    """Raise unless rows have as many targets as the model."""
    n_targets, given = noise.shape[-1], statistics.moment.shape[-1]
    if given != n_targets:
        raise ValueError(f"Rows must have the model's {n_targets} targets. Got {given}.")
