"""Checks of a model's parameters: of a file before they are used, and after training."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from sswim.base.cholesky import FactorisationError
from sswim.base.stored_tensors import (
    MAX_NUMBER,
    require_moderate,
    require_ordered,
    require_tensors,
    require_that,
)
from sswim.model.sswim import SSWIM

LARGEST_LOG = 300.0
"""Largest size of a logarithm: beyond it the number would be zero or infinite."""

MAX_SLOPE = 1e20
"""Largest slope of normal scores; knots are no closer than 1e-12 of a column's range."""


_INFINITE = ("output_warp.low", "output_warp.high")
"""Parameters that may be infinite."""


def require_converged(model: SSWIM) -> None:
    """Raise if training ended in parameters of absurd sizes, which no file may hold either.

    Raises:
        FactorisationError: It did.
    """
    try:
        _require_moderate_parameters(model.state_dict())
    except ValueError as error:
        raise FactorisationError(
            f"Training must end in parameters of moderate sizes, but {error}. Likely cause: they "
            "diverged. Lower the learning rate."
        ) from error


def _require_moderate_parameters(tensors: Mapping[str, Tensor]) -> None:
    for name, tensor in tensors.items():
        if name not in _INFINITE:
            is_log = "log_" in name or "calibration" in name
            require_moderate(name, tensor, LARGEST_LOG if is_log else MAX_NUMBER)


def check_parameters(tensors: Mapping[str, Tensor], model: SSWIM) -> None:
    """Check the parameters of a model or of a batch of members, by their names in the model.

    Raises:
        ValueError: A name, shape, type or number is wrong.
    """
    require_tensors(tensors, model.state_dict(), _INFINITE)
    _require_moderate_parameters(tensors)
    if model.output_warp is not None:
        require_ordered(tensors, "output_warp.")
    if model.trend is not None:
        require_ordered(tensors, "trend.")
    if model.normal_scores is not None:
        steps = tensors["normal_scores.knots"].diff()
        require_that("normal_scores.knots must increase", holds=(steps > 0).all())
        slopes = tensors["normal_scores.scores"].diff() / steps
        require_moderate("slopes of normal_scores", slopes, MAX_SLOPE)
    for name in ("resolution", "noise_field.temper"):
        if name in tensors:
            require_that(f"{name} must not be negative", holds=(tensors[name] >= 0).all())
