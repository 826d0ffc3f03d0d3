from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from sswim.rows.rows import as_measure, as_rows

X = np.arange(12.0).reshape(6, 2)
Y = np.arange(6.0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"x": X[0]}, r"x must have shape \(N, D\).*x\[:, None\]"),
        ({"x": X[:0], "y": Y[:0]}, "at least one row"),
        ({"x": X[:, :0]}, "one column"),
        ({"y": Y[:4]}, r"same number of rows. Got x.shape=\(6, 2\) and y.shape=\(4, 1\)"),
        ({"y": Y.reshape(6, 1, 1)}, r"y must have shape \(N,\) or \(N, T\)"),
        ({"x": np.where(X == 3, np.nan, X)}, "x must be finite in float64. Got 1 NaN"),
        ({"y": np.where(Y > 3, np.inf, Y)}, "y must be finite in float64. Got 2"),
        ({"x": (1 + X) * 1e300, "dtype": torch.float32}, "Got 12 too large values; use float64"),
        ({"x": [["a", "b"]] * 6}, "x must be an array of numbers"),
        ({"x": [[1.0, 2.0], [3.0]]}, "x must be an array of numbers"),
        ({"weight": Y - 1}, "non-negative"),
        ({"weight": 0 * Y}, "at least one must be positive"),
        ({"weight": Y[:3]}, r"weight must have shape \(N,\) = \(6,\)"),
        ({"x_variance": X[:, :1]}, "one variance per input"),
        ({"x_variance": X - 1}, "must not be negative. Got -1"),
        ({"dtype": torch.float16}, "dtype must be"),
    ],
)
def test_bad_input_is_refused_with_the_rule_and_what_was_got(
    arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        as_rows(**{"x": X, "y": Y, **arguments})


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.bool_])
def test_numbers_of_any_kind_become_float64(dtype: type) -> None:
    rows = as_rows(X.astype(dtype), Y.astype(dtype))
    assert rows.inputs.mean.dtype == rows.targets.dtype == torch.float64
    assert rows.targets.shape == (6, 1)


def test_single_precision_is_for_inputs_alone() -> None:
    rows = as_rows(X, Y, weight=Y, x_variance=X, dtype=torch.float32)
    assert {t.dtype for t in rows.inputs.tensors()} == {torch.float32}
    assert rows.targets.dtype == torch.float64
    assert rows.weight is not None
    assert rows.weight.dtype == torch.float64


def test_tensors_lose_their_graph() -> None:
    x = torch.from_numpy(X).requires_grad_()
    assert not as_measure(x * 2).mean.requires_grad
