from __future__ import annotations

import torch
from builders.models import normal

from sswim.rows.rows import Measure, full_covariance, marginal_variance


def test_a_diagonal_becomes_a_matrix_and_a_matrix_stays(generator: torch.Generator) -> None:
    mean, diagonal = normal(generator, 5, 3), normal(generator, 5, 3).square()
    matrices = full_covariance(mean, diagonal)
    assert matrices.shape == (5, 3, 3)
    for row in range(5):
        assert torch.equal(matrices[row], torch.diag(diagonal[row]))
    assert full_covariance(mean, matrices) is matrices


def test_variances_of_both_causes_are_added(generator: torch.Generator) -> None:
    mean, diagonal = normal(generator, 5, 3), normal(generator, 5, 3).square()
    factors = normal(generator, 5, 3, 3)
    full = factors @ factors.mT
    measure = Measure(mean, full, diagonal)
    expected = torch.stack([full[:, d, d] for d in range(3)], dim=1) + diagonal
    found = marginal_variance(measure)
    assert found is not None
    assert torch.allclose(found, expected, rtol=1e-14)
    only = marginal_variance(Measure(mean, input_variance=diagonal))
    assert only is not None
    assert torch.equal(only, diagonal)


def test_points_have_no_variance(generator: torch.Generator) -> None:
    assert marginal_variance(Measure(normal(generator, 5, 3))) is None
