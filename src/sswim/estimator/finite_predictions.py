"""Predictions that are not finite are an error and never a result.

Models of ``fit`` predict finite numbers. A file made by hand can hold parameters that are each
within their limits, but whose products are not numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from jaxtyping import Float64
from torch import Tensor

from sswim.base.cholesky import FactorisationError
from sswim.base.errors import UserError

_MESSAGE = (
    "Predictions must be finite. Those of this model are not: some of its parameters are too large "
    "or too small. Fit it again, or get its file again from where it came."
)


def finite(values: Float64[Tensor, "*shape"]) -> Float64[Tensor, "*shape"]:
    """Return predictions; raise if they are not finite."""
    if not values.isfinite().all():
        raise UserError(_MESSAGE)
    return values


def finite_covariance(values: Float64[Tensor, "*shape"]) -> Float64[Tensor, "*shape"]:
    """Return covariances; raise if they are not finite."""
    if not values.isfinite().all():
        raise UserError(
            "A covariance must be finite in float64. Got targets whose squares are not: use "
            "predict(X, return_std=True), or divide y by a constant before fit."
        )
    return values


@contextmanager
def finite_algebra() -> Iterator[None]:
    """Raise the error of :func:`finite` where a matrix of the body cannot be factorised."""
    try:
        yield
    except FactorisationError as error:
        raise UserError(f"{_MESSAGE} {error}") from error
