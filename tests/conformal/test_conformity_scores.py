"""Conformity scores of targets, and distances of inputs."""

from __future__ import annotations

import pytest
import torch
from builders.models import normal

from sswim.conformal import NEAREST, Spreads, input_distance, spreads
from sswim.ensemble.mixture import mix
from sswim.members.density import Density
from sswim.members.linear_regression import Prediction
from sswim.rows import Rows, as_rows, no_scaling
from sswim.warps.output_warp import OutputMap


def test_values_undo_scores(generator: torch.Generator) -> None:
    below, above = normal(generator, 2, 6, 2).exp()
    predicted = Spreads(normal(generator, 6, 2), below, above)
    targets = 3 * normal(generator, 6, 2)
    assert torch.allclose(predicted.values(predicted.scores(targets)), targets, rtol=1e-13)


@pytest.mark.parametrize(
    ("variance", "score"), [(4.0, 2.0), (1e-300, 4 / 1e-9)], ids=["residual", "no width"]
)
def test_scores_of_a_gaussian_are_residuals_in_standard_deviations(
    variance: float, score: float
) -> None:
    mean, variances = (torch.full((1, 1), number).double() for number in (1.0, variance))
    prediction = Prediction(mean, variances, variances)
    density = Density(prediction, OutputMap(), no_scaling(as_rows([[0.0]], [0.0])))
    mixture = mix([density], torch.ones(1, dtype=torch.float64))
    scores = spreads(mixture).scores(torch.tensor([[5.0]]).double())
    assert scores.item() == pytest.approx(score, rel=1e-9)


def draw(n: int, n_inputs: int, seed: int) -> torch.Tensor:
    return normal(torch.Generator().manual_seed(seed), n, n_inputs)


def seen_rows(x: torch.Tensor) -> Rows:
    return as_rows(x, torch.zeros(len(x)))


@pytest.mark.parametrize(("n_seen", "n_inputs"), [(300, 1), (300, 3), (300, 20), (2, 2)])
def test_the_distance_is_the_mean_of_the_nearest(n_seen: int, n_inputs: int) -> None:
    x, seen = draw(40, n_inputs, 0), draw(n_seen, n_inputs, 1)
    nearest = torch.cdist(x, seen).topk(min(NEAREST, n_seen), largest=False).values
    expected = nearest.mean(1) / n_inputs**0.5
    torch.testing.assert_close(input_distance(x, seen_rows(seen)), expected)
    single = input_distance(x.float(), seen_rows(seen))
    torch.testing.assert_close(single, expected, rtol=1e-3, atol=1e-4)


def test_without_rows_it_is_the_distance_from_the_centre() -> None:
    x = torch.tensor([[3.0, -3.0], [0.0, 0.0]], dtype=torch.float64)
    assert input_distance(x, None).tolist() == [3.0, 0.0]


@pytest.mark.parametrize("n_inputs", [2, 20])
def test_wild_inputs_have_finite_distances_that_are_large(n_inputs: int) -> None:
    x = draw(3, n_inputs, 0)
    x[0, 0], x[1, 1] = 1e300, -1e9
    for seen in (None, seen_rows(draw(100, n_inputs, 1))):
        wild, far, usual = input_distance(x, seen).tolist()
        assert usual < 3
        assert 1e8 < far < wild < 1e101
