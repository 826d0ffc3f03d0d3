"""What users hand in, as arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float64
from torch import Tensor


def as_numpy(values: Any) -> Any:
    """Tensors as arrays; all else is scikit-learn's to convert."""
    return values.detach().cpu().numpy() if isinstance(values, Tensor) else values


def squared_deviation(X_std: Any, shape: tuple[int, ...]) -> Float64[np.ndarray, "N D"] | None:
    """The variance of inputs whose standard deviation is a number, (D,) or (N, D)."""
    if X_std is None:
        return None
    deviation = np.asarray(as_numpy(X_std), dtype=np.float64)
    try:
        deviation = np.broadcast_to(deviation, shape)
    except ValueError as error:
        raise ValueError(
            f"X_std must be a number, or have shape (D,) = ({shape[1]},) or (N, D) = {shape}. "
            f"Got X_std.shape={deviation.shape}."
        ) from error
    if not np.all(deviation >= 0):
        raise ValueError("X_std must hold standard deviations: no NaN, none negative.")
    return np.square(deviation)
