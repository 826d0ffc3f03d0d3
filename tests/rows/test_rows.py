from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from builders.models import normal, small_rows

from sswim.base.record import concatenate, stack_records
from sswim.rows import (
    Measure,
    SmallerChunks,
    as_measure,
    as_rows,
    full_covariance,
    marginal_variance,
    row_keys,
)

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
def test_numbers_of_any_kind_become_float64_but_for_inputs_in_single_precision(dtype: type) -> None:
    rows = as_rows(X.astype(dtype), Y.astype(dtype))
    assert {tensor.dtype for tensor in rows.tensors()} == {torch.float64}
    assert rows.targets.shape == (6, 1)
    rows = as_rows(X, Y, weight=Y, x_variance=X, dtype=torch.float32)
    assert {tensor.dtype for tensor in rows.inputs.tensors()} == {torch.float32}
    rest = replace(rows, inputs=Measure(rows.targets)).tensors()
    assert {tensor.dtype for tensor in rest} == {torch.float64}
    tracked = torch.from_numpy(X).requires_grad_()
    assert not as_measure(tracked * 2).mean.requires_grad
    assert as_rows(rows.inputs, Y).inputs is rows.inputs  # a measure stays as it is


def test_variances_of_both_causes_are_added(generator: torch.Generator) -> None:
    mean, diagonal = normal(generator, 5, 3), normal(generator, 5, 3).square()
    matrices = full_covariance(mean, diagonal)
    assert torch.equal(matrices, torch.stack([row.diag() for row in diagonal]))
    assert full_covariance(mean, matrices) is matrices
    factors = normal(generator, 5, 3, 3)
    full = factors @ factors.mT
    measure = Measure(mean, full, diagonal)
    expected = torch.stack([full[:, d, d] for d in range(3)], dim=1) + diagonal
    torch.testing.assert_close(marginal_variance(measure), expected, rtol=1e-14, atol=0)
    only = marginal_variance(Measure(mean, input_variance=diagonal))
    torch.testing.assert_close(only, diagonal, rtol=0, atol=0)
    assert marginal_variance(Measure(mean)) is None  # points


def test_chunks_are_cut_anew_in_every_pass(generator: torch.Generator) -> None:
    given = [small_rows(generator, n=n, weighted=True) for n in (10, 3, 7)]
    given.insert(1, given[0].no_rows())
    smaller = SmallerChunks(given, lambda rows: 4)
    expected = concatenate(given)
    for _ in range(2):
        found = list(smaller)
        assert [len(chunk) for chunk in found] == [4, 4, 2, 0, 3, 4, 3]
        for ours, theirs in zip(concatenate(found).tensors(), expected.tensors(), strict=True):
            assert torch.equal(ours, theirs)
    members = stack_records([small_rows(generator, n=5) for _ in range(2)])
    found = list(SmallerChunks([members], lambda rows: 3))
    assert [chunk.targets.shape for chunk in found] == [(2, 3, 1), (2, 2, 1)]
    assert torch.equal(torch.cat([c.targets for c in found], dim=1), members.targets)
    with pytest.raises(ValueError, match="Got a generator, which can be read once"):
        SmallerChunks((rows for rows in [small_rows(generator)]), lambda rows: 3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_keys_tell_rows_apart_by_every_bit_and_the_order_of_columns(dtype: torch.dtype) -> None:
    steps = torch.arange(300, dtype=dtype)
    grid = torch.cartesian_prod(steps, steps)
    assert len(row_keys(grid).unique()) == len(grid)
    assert torch.equal(row_keys(grid.flip(0)), row_keys(grid).flip(0))
    one, small = 1.0, torch.finfo(dtype).eps
    values = [[one, 2.0], [2.0, one], [one, one], [one + small, one], [one, one + small]]
    assert len(row_keys(torch.tensor(values, dtype=dtype)).unique()) == 5
    zeros = torch.tensor([[0.0, -0.0], [-0.0, 0.0]], dtype=dtype)
    assert len(row_keys(zeros).unique()) == 1
    assert row_keys(zeros[:, :0]).tolist() == [0, 0]
