from __future__ import annotations

import pytest
import torch
from builders.models import normal
from torch import Tensor

from sswim.base.cholesky import FactorisationError
from sswim.members.neighbourhood import LocalNumbers, local_numbers

BATCH, SIZE = 3, 6


@pytest.fixture
def covariance(generator: torch.Generator) -> Tensor:
    """K of five neighbours and a row, in three neighbourhoods of two targets."""
    root = normal(generator, BATCH, 2, SIZE, 2 * SIZE)
    return root @ root.mT / SIZE


@pytest.fixture
def targets(generator: torch.Generator) -> Tensor:
    return 1 + normal(generator, BATCH, 2, SIZE)


@pytest.fixture
def ones() -> Tensor:
    return torch.ones(BATCH, 2, SIZE, dtype=torch.float64)


def dense_numbers(covariance: Tensor, targets: Tensor, ones: Tensor) -> LocalNumbers:
    """Compute the six numbers of one row from inverses."""
    inverse = covariance[:-1, :-1].inverse()
    towards = covariance[:-1, -1]
    deviation = (covariance[-1, -1] - towards @ inverse @ towards).sqrt()
    residual, constant = (
        (side[-1] - towards @ inverse @ side[:-1]) / deviation for side in (targets, ones)
    )
    z, one = targets[:-1], ones[:-1]
    return LocalNumbers(
        deviation.log(),
        residual,
        constant,
        z @ inverse @ z,
        z @ inverse @ one,
        one @ inverse @ one,
    )


def test_the_six_numbers_against_inverses(
    covariance: Tensor, targets: Tensor, ones: Tensor
) -> None:
    ours = local_numbers(covariance, targets, ones)
    for row in range(BATCH):
        for target in range(2):
            at = row, target
            theirs = dense_numbers(covariance[at], targets[at], ones[at])
            for mine, other in zip(ours.tensors(), theirs.tensors(), strict=True):
                assert torch.allclose(mine[at], other, rtol=1e-10)


def test_gradients(covariance: Tensor, targets: Tensor, ones: Tensor) -> None:
    def numbers(matrix: Tensor, z: Tensor) -> tuple[Tensor, ...]:
        symmetric = (matrix + matrix.mT) / 2  # only the lower triangle of a matrix is read
        return tuple(local_numbers(symmetric, z, ones).tensors())

    assert torch.autograd.gradcheck(
        numbers, (covariance.requires_grad_(), targets.requires_grad_()), atol=1e-6
    )


@pytest.mark.parametrize("which", [0, 1], ids=["covariance", "targets"])
def test_gradients_of_one_argument_alone(
    which: int, covariance: Tensor, targets: Tensor, ones: Tensor
) -> None:
    leaf = (covariance, targets)[which].requires_grad_()
    numbers = local_numbers(covariance, targets, ones)
    total = sum((each.square().sum() for each in numbers.tensors()), torch.zeros(()))
    (gradient,) = torch.autograd.grad(total, leaf)
    assert gradient.isfinite().all()
    assert gradient.abs().min(0).values.max() > 0


@pytest.mark.parametrize("place", [0, 3, 4])
def test_a_missing_neighbour_changes_nothing(
    place: int, covariance: Tensor, targets: Tensor, ones: Tensor
) -> None:
    others = [number for number in range(SIZE) if number != place]
    expected = local_numbers(
        covariance[..., others, :][..., others], targets[..., others], ones[..., others]
    )
    covariance[..., place, :] = covariance[..., :, place] = 0
    covariance[..., place, place] = 1
    targets[..., place] = ones[..., place] = 0
    covariance.requires_grad_()
    found = local_numbers(covariance, targets, ones)
    for mine, other in zip(found.tensors(), expected.tensors(), strict=True):
        assert torch.allclose(mine, other, rtol=1e-12)
    total = sum((each.sum() for each in found.tensors()), torch.zeros(()))
    (gradient,) = torch.autograd.grad(total, covariance)
    assert gradient[..., place, place].abs().max() < 1e-12


def test_a_covariance_that_is_not_one_is_refused(targets: Tensor, ones: Tensor) -> None:
    covariance = -torch.eye(SIZE, dtype=torch.float64).expand(BATCH, 2, SIZE, SIZE)
    with pytest.raises(FactorisationError, match="covariance of a neighbourhood"):
        local_numbers(covariance, targets, ones)
