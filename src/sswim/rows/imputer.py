"""Missing numbers, replaced by their conditional means under a joint Gaussian of all columns.

With the precision Λ = Σ⁻¹ of the standardised columns, the missing cells m of a row given its
observed cells o are Gaussian with

    covariance Λ_mm⁻¹,    mean −Λ_mm⁻¹ Λ_mo x_o,

so that a row costs as many operations as its missing cells need, however many columns there are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float64, Int64

from sswim.base.validation import UserError
from sswim.rows.scaling import column_median, column_width

MAX_ROWS = 2000
"""Number of rows that the covariance is learnt from."""

MAX_STEPS = 50
"""Number of steps of expectation maximisation."""

TOLERANCE = 1e-3
"""Change of any mean or covariance, in units of the spreads, that ends the steps."""

PRIOR_ROWS = 3.0
"""Number of rows that the prior of uncorrelated columns counts as."""

REACH = 5.0
"""Distance from the median, in widths of the column, from which values are clipped."""

_LARGEST = np.finfo(np.float64).max
_CONSTANT = 1e-12
"""A column is constant if its spread is below this fraction of its largest absolute value."""

_ENTRIES = 2**20
"""Number of entries of all covariances of rows that are computed together."""


@dataclass(frozen=True)
class GaussianImputer:
    """A joint Gaussian of the columns, and the range of each."""

    mean: Float64[np.ndarray, " D"]
    spread: Float64[np.ndarray, " D"]
    """Standard deviations, of which the squares may not be numbers; zero of constant columns."""
    correlation: Float64[np.ndarray, "D D"]
    """Positive definite; a constant column is correlated with none."""
    low: Float64[np.ndarray, " D"]
    high: Float64[np.ndarray, " D"]

    def fill(
        self, inputs: Float64[np.ndarray, "N D"]
    ) -> tuple[Float64[np.ndarray, "N D"], Float64[np.ndarray, "N D"]]:
        """Return inputs with their missing cells replaced, and the variance of every cell.

        A missing cell becomes its conditional mean, at most ``high`` and at least ``low``. Observed
        cells stay as they are and have no variance. A variance that is no number any more is the
        largest number, or 0.

        Args:
            inputs: The inputs; NaN where one is missing.
        """
        missing = np.isnan(inputs)
        tame = np.clip(inputs, self.low, self.high)  # a wild value says no more than a large one
        scale = np.where(self.spread > 0, self.spread, 1.0)
        standard = np.where(missing, 0.0, (tame - self.mean) / scale)
        filled, variance = inputs.copy(), np.zeros(inputs.shape)
        for rows, cells, mean, covariance in _conditionals(standard, missing, self._precision):
            spread, at = self.spread[cells], (rows[:, None], cells)
            unit = covariance.diagonal(axis1=1, axis2=2)
            with np.errstate(over="ignore"):
                filled[at] = self.mean[cells] + spread * mean
                variance[at] = np.minimum(unit * spread * spread, _LARGEST)
            filled[at] = np.clip(filled[at], self.low[cells], self.high[cells])
        return filled, variance

    @cached_property
    def _precision(self) -> Float64[np.ndarray, "D D"]:
        return np.linalg.inv(self.correlation)  # Λ

    @classmethod
    def checked(
        cls,
        mean: np.ndarray,
        spread: np.ndarray,
        correlation: np.ndarray,
        low: np.ndarray,
        high: np.ndarray,
    ) -> GaussianImputer:
        """Check arrays that come from a file, and make an imputer of them."""
        shapes = [array.shape for array in (mean, spread, low, high, correlation)]
        size = mean.shape[0] if mean.ndim == 1 else -1
        if shapes == [(size,)] * 4 + [(size, size)]:
            arrays = (array.astype(np.float64) for array in (mean, spread, correlation, low, high))
            imputer = cls(*arrays)
            if imputer._is_valid():
                return imputer
        raise UserError(
            "An imputer must have a mean, a spread, a low and a high of every input and positive "
            f"definite correlations, all of them finite. Got arrays of shapes {shapes}."
        )

    def _is_valid(self) -> bool:
        if not all(np.isfinite(array).all() for array in vars(self).values()):
            return False
        others = self.correlation - np.eye(len(self.mean))
        return bool(
            (self.spread >= 0).all()
            and (self.low <= self.high).all()
            and not (others.diagonal().any() or others[self.spread == 0].any())
            and (others == others.T).all()
            and (np.linalg.eigvalsh(self.correlation) > 0).all()
        )


def learn_imputer(sample: Float64[np.ndarray, "N D"]) -> GaussianImputer:
    """Learn an imputer by expectation maximisation (EM); cells are missing at random.

    Values far from the median are clipped, so that one wild value does not set the covariance. The
    prior of uncorrelated columns counts as a few rows, so that the covariance is positive definite
    however few rows there are. A column without values is filled with zeros.

    Args:
        sample: Rows to learn from; NaN where a value is missing.
    """
    low, high = _limits(sample)
    if len(sample) > MAX_ROWS:
        chosen = np.random.default_rng(0).choice(len(sample), MAX_ROWS, replace=False)
        sample = sample[np.sort(chosen)]
    sample = np.clip(sample, low, high)
    missing = np.isnan(sample)
    centre, spread = _moments(sample, missing, 0.5 * (low + high))
    varies = spread > _CONSTANT * np.maximum(np.abs(low), np.abs(high))
    unit = np.where(varies, spread, 1.0)
    standard = np.where(missing | ~varies, 0.0, (sample - centre) / unit)
    mean, covariance = _maximise(standard, missing)
    scale = np.where(varies, spread, 0.0)
    low, high = _rounded(low, high, centre, scale)
    deviation = np.sqrt(covariance.diagonal())
    correlation = covariance / np.outer(deviation, deviation) * np.outer(varies, varies)
    np.fill_diagonal(correlation, 1.0)
    return GaussianImputer(centre + scale * mean, scale * deviation, correlation, low, high)


_Conditionals = tuple[
    Int64[np.ndarray, " n"],
    Int64[np.ndarray, "n k"],
    Float64[np.ndarray, "n k"],
    Float64[np.ndarray, "n k k"],
]
"""Rows with k missing cells each: their numbers, the missing columns, and means and covariances of
the missing cells given the others."""


def _conditionals(
    standard: Float64[np.ndarray, "N D"],
    missing: Bool[np.ndarray, "N D"],
    precision: Float64[np.ndarray, "D D"],
) -> Iterator[_Conditionals]:
    """Yield the conditional Gaussians of all rows with missing cells, by number of these.

    Args:
        standard: Standardised inputs; zero where one is missing.
        missing: Where inputs are missing.
        precision: Λ.
    """
    counts = missing.sum(1)
    for count in np.unique(counts[counts > 0]).tolist():
        of_count = np.flatnonzero(counts == count)
        at_once = max(1, _ENTRIES // count**2)
        for rows in np.split(of_count, range(at_once, len(of_count), at_once)):
            cells = np.nonzero(missing[rows])[1].reshape(-1, count)
            # Rows of a table often lack the same columns, and share a covariance.
            patterns, pattern = np.unique(cells, axis=0, return_inverse=True)
            inverses = np.linalg.inv(precision[patterns[:, :, None], patterns[:, None, :]])
            covariance = inverses[pattern.reshape(-1)]  # Λ_mm⁻¹
            known = np.take_along_axis(standard[rows] @ precision, cells, 1)  # Λ_mo x_o
            yield rows, cells, -(covariance @ known[..., None])[..., 0], covariance


def _maximise(
    standard: Float64[np.ndarray, "N D"], missing: Bool[np.ndarray, "N D"]
) -> tuple[Float64[np.ndarray, " D"], Float64[np.ndarray, "D D"]]:
    """Return the mean and the covariance of standardised columns by EM."""
    n_rows, n_inputs = standard.shape
    prior = PRIOR_ROWS * np.eye(n_inputs)
    mean, covariance = np.zeros(n_inputs), np.eye(n_inputs)
    for _ in range(MAX_STEPS):
        precision = np.linalg.inv(covariance)
        filled = standard.copy()
        centred = np.where(missing, 0.0, standard - mean)
        scatter = np.zeros(n_inputs**2)
        for rows, cells, shift, spread in _conditionals(centred, missing, precision):
            filled[rows[:, None], cells] = mean[cells] + shift
            pairs = cells[:, :, None] * n_inputs + cells[:, None, :]
            scatter += np.bincount(pairs.ravel(), spread.ravel(), n_inputs**2)
        new_mean = filled.mean(0)
        residual = filled - new_mean
        total = residual.T @ residual + scatter.reshape(n_inputs, n_inputs) + prior
        new = (total + total.T) / (2 * (n_rows + PRIOR_ROWS))
        change = max(np.abs(new_mean - mean).max(), np.abs(new - covariance).max())
        mean, covariance = new_mean, new
        if change < TOLERANCE or not missing.any():
            break
    return mean, covariance


def _limits(
    sample: Float64[np.ndarray, "N D"],
) -> tuple[Float64[np.ndarray, " D"], Float64[np.ndarray, " D"]]:
    """Return the range of every column without values far from its median.

    It is at most half of the range of all numbers, so that differences are numbers.
    """
    low, high = np.zeros(sample.shape[1]), np.zeros(sample.shape[1])
    for number, column in enumerate(sample.T):
        values = column[~np.isnan(column)]
        if not len(values):
            continue
        low[number], high[number] = values.min(), values.max()
        middle = column_median(values)
        width = column_width(values)
        if width is not None:
            low[number] = max(low[number], middle - REACH * width)
            high[number] = min(high[number], middle + REACH * width)
    limits = -0.5 * _LARGEST, 0.5 * _LARGEST
    return np.clip(low, *limits), np.clip(high, *limits)


def _rounded(
    low: Float64[np.ndarray, " D"],
    high: Float64[np.ndarray, " D"],
    centre: Float64[np.ndarray, " D"],
    scale: Float64[np.ndarray, " D"],
) -> tuple[Float64[np.ndarray, " D"], Float64[np.ndarray, " D"]]:
    """Round ranges outwards to quarters of the spread, so that a model holds no single cell."""
    unit = np.where(scale > 0, 0.25 * scale, 1.0)
    return (
        np.where(scale > 0, centre + unit * np.floor((low - centre) / unit), low),
        np.where(scale > 0, centre + unit * np.ceil((high - centre) / unit), high),
    )


def _moments(
    sample: Float64[np.ndarray, "N D"],
    missing: Bool[np.ndarray, "N D"],
    default: Float64[np.ndarray, " D"],
) -> tuple[Float64[np.ndarray, " D"], Float64[np.ndarray, " D"]]:
    """Return the mean and the spread of the observed values; the default and 0 without any."""
    count = np.maximum((~missing).sum(0), 1)
    centred = np.where(missing, 0.0, sample - default)
    unit = np.abs(centred).max(0, initial=0.0)  # in which squares neither overflow nor vanish
    unit = np.where(unit > 0, unit, 1.0)
    shift = (centred / unit).sum(0) / count
    square = np.square(np.where(missing, 0.0, centred / unit - shift))
    return default + unit * shift, unit * np.sqrt(square.sum(0) / count)


def impute(
    inputs: Float64[np.ndarray, "N D"],
    imputer: GaussianImputer,
    variance: Float64[np.ndarray, "N D"] | None = None,
    indicators: Bool[np.ndarray, " D"] | None = None,
    certain: Bool[np.ndarray, " D"] | None = None,
) -> tuple[Float64[np.ndarray, "N D"], Float64[np.ndarray, "N D"] | None]:
    """Fill in missing inputs; return also the variance of all inputs, None if all are known.

    Args:
        inputs: Inputs, NaN where they are missing.
        imputer: Imputer of the inputs that are not indicators.
        variance: Variance of the inputs; None if they are known exactly.
        indicators: Whether an input says that a value is missing; None if none does.
        certain: Whether an input that is filled in counts as known; None if none does.
    """
    if not np.isnan(inputs).any():
        return inputs, variance
    values = slice(None) if indicators is None else ~indicators
    inputs = inputs.copy()
    filled, more = imputer.fill(inputs[:, values])
    inputs[:, values] = filled
    total = np.zeros(inputs.shape)
    total[:, values] = more
    if certain is not None:
        total[:, certain] = 0.0
    if variance is not None:
        # The variance of a gap may be as large as a number can be.
        total = np.minimum(total, np.finfo(np.float64).max - variance)
        total += variance
    return inputs, total if total.any() else None
