from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from builders.models import normal, small_rows
from builders.neighbours import KERNELS, neighbour_model
from torch import Tensor

from sswim.kernels.features import Kernel
from sswim.members import SSWIM
from sswim.members.neighbourhood import (
    LocalPrediction,
    NeighbourRows,
    neighbour_rows,
    predict_locally,
)

N_ROWS = 15


@pytest.fixture
def model(generator: torch.Generator) -> SSWIM:
    return neighbour_model(small_rows(generator, N_ROWS, 2), generator)


@pytest.fixture(params=[False, True], ids=["exact", "uncertain"])
def rows(model: SSWIM, generator: torch.Generator, request: pytest.FixtureRequest) -> NeighbourRows:
    rows = small_rows(generator, N_ROWS, 2, weighted=True, uncertain=request.param)
    with torch.no_grad():
        return neighbour_rows(model.factors()[0], rows, model.noise() / model.signal())


@pytest.fixture
def points(generator: torch.Generator) -> Tensor:
    return normal(generator, 4, 3)


def predict(
    model: SSWIM,
    rows: NeighbourRows,
    points: Tensor,
    indices: Tensor,
    kernel: Kernel = "matern32",
    ridge_ratio: Tensor | None = None,
) -> LocalPrediction:
    with torch.no_grad():
        return predict_locally(
            rows,
            indices,
            points,
            kernel,
            model.signal(),
            model.degrees(),
            ridge_ratio,
            weights=True,
        )


def assert_same(ours: LocalPrediction, theirs: LocalPrediction) -> None:
    """Compare all but the weights."""
    for mine, other in zip(ours.tensors()[:-1], theirs.tensors()[:-1], strict=True):
        assert torch.allclose(mine, other, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kernel", KERNELS)
def test_weights_add_up_to_one_and_give_the_mean(
    kernel: Kernel, model: SSWIM, rows: NeighbourRows, points: Tensor
) -> None:
    indices = torch.arange(N_ROWS).expand(4, -1).clone()
    indices[1, [3, 8]] = -1
    found = predict(model, rows, points, indices, kernel)
    assert found.weights is not None
    assert torch.allclose(found.weights.sum(-1), torch.ones(4, 2, dtype=torch.float64))
    assert torch.allclose((found.weights @ rows.targets).diagonal(dim1=1, dim2=2), found.mean)
    assert (found.weights[1][:, [3, 8]] == 0).all()
    # A constant that is added to all targets is added to the mean, and changes nothing else.
    moved = predict(model, replace(rows, targets=rows.targets + 7), points, indices, kernel)
    assert torch.allclose(moved.mean, found.mean + 7)
    assert torch.allclose(moved.amplitude, found.amplitude)


def test_missing_neighbours_are_as_if_they_were_not_there(
    model: SSWIM, rows: NeighbourRows, points: Tensor
) -> None:
    there = torch.tensor([4, 0, 9, 2, 7]).expand(4, -1)
    gaps = torch.tensor([4, -1, 0, 9, -1, -1, 2, 7]).expand(4, -1)
    assert_same(predict(model, rows, points, gaps), predict(model, rows, points, there))


def test_ridges_of_neighbours_may_change(model: SSWIM, rows: NeighbourRows, points: Tensor) -> None:
    indices = torch.arange(8).expand(4, -1)
    ratio = torch.linspace(0.5, 3, 8, dtype=torch.float64)
    ridge = rows.ridge.clone()
    ridge[:8] *= ratio[:, None]
    expected = predict(model, replace(rows, ridge=ridge), points, indices)
    found = predict(model, rows, points, indices, ridge_ratio=ratio.expand(4, -1))
    assert_same(found, expected)


def test_coordinates_far_from_the_origin_change_nothing(
    model: SSWIM, rows: NeighbourRows, points: Tensor
) -> None:
    indices = torch.arange(N_ROWS).expand(4, -1)
    found = predict(model, replace(rows, points=rows.points + 2**20), points + 2**20, indices)
    expected = predict(model, rows, points, indices)
    assert torch.allclose(found.mean, expected.mean, atol=1e-8)
    assert torch.allclose(found.unit_variance, expected.unit_variance, rtol=1e-6)
