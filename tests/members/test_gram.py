from __future__ import annotations

import pytest
import torch
from builders.models import normal, relative_error
from torch import Tensor

from sswim.members.linear_regression import statistics, weighted_sums
from sswim.members.model import Observations

pytest_plugins = ("builders.regression_rows",)


@pytest.mark.parametrize("n_weights", [0, 1, 2])
def test_the_gradient_of_sums_does_not_need_their_values(
    features: Tensor, targets: Tensor, log_precision: Tensor, weight: Tensor, n_weights: int
) -> None:
    given = [features, targets, torch.zeros_like(targets)]
    given += [[], [log_precision], [log_precision, weight]][n_weights]
    results = []
    for gradients_only in (False, True):
        leaves = [tensor.clone().requires_grad_() for tensor in given]
        sums = statistics(Observations(*leaves), gradients_only)
        directions = [normal(torch.Generator().manual_seed(3), *s.shape) for s in sums.tensors()]
        pairs = [(s, d) for s, d in zip(sums.tensors(), directions, strict=True) if s.requires_grad]
        results.append(torch.autograd.grad([s for s, _ in pairs], leaves, [d for _, d in pairs]))
    assert not sums.gram.any()
    for ours, expected in zip(*results, strict=True):
        assert torch.equal(ours, expected)


@pytest.mark.parametrize("n_features", [5, 131])  # in one product, and in uneven panels
@pytest.mark.parametrize("n_weights", [None, 1, 2])
@pytest.mark.parametrize("batch", [(), (3,)])
def test_the_products_are_those_of_einsum(
    n_features: int, n_weights: int | None, batch: tuple[int, ...], generator: torch.Generator
) -> None:
    features, weighted = normal(generator, *batch, 40, n_features), normal(generator, *batch, 40, 2)
    weight = None if n_weights is None else normal(generator, 40, n_weights).exp()
    gram, moment = weighted_sums(features, weighted, weight)
    wide = torch.ones(40, 1, dtype=torch.float64) if weight is None else weight
    expected = torch.einsum("...ni,ng,...nj->...gij", features, wide, features)
    assert gram.shape == expected.shape
    assert relative_error(gram, expected) < 1e-13
    assert relative_error(moment, features.mT @ weighted) < 1e-13
    assert relative_error(gram, gram.mT) < 1e-13


def test_products_of_single_precision_are_returned_in_double(generator: torch.Generator) -> None:
    gram, moment = weighted_sums(normal(generator, 9, 4).float(), normal(generator, 9, 2).float())
    assert (gram.dtype, moment.dtype) == (torch.float64, torch.float64)


@pytest.mark.parametrize("n_weights", [None, 1, 2])
def test_gradients_of_the_products(n_weights: int | None, generator: torch.Generator) -> None:
    given = [normal(generator, 6, 3), normal(generator, 6, 2)]
    if n_weights is not None:
        given.append(normal(generator, 6, n_weights).exp())
    assert torch.autograd.gradcheck(weighted_sums, [tensor.requires_grad_() for tensor in given])
