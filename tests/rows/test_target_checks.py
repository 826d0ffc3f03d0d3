from __future__ import annotations

import warnings

import pytest
import torch
from builders.models import normal
from torch import Tensor

from sswim.rows.rows import Rows, as_rows
from sswim.rows.summary import has_ties, target_resolution, warn_about_targets


def rows(targets: Tensor, weight: Tensor | None = None) -> Rows:
    return as_rows(torch.zeros(len(targets), 1), targets, weight)


def test_usual_targets_are_silent(generator: torch.Generator) -> None:
    targets = normal(generator, 500, 2)
    heavy = torch.stack((targets[:, 0], (3 * targets[:, 1]).exp()), dim=-1)
    counted = (3 * targets).round()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for each in (targets, heavy, counted, targets * 1e30, torch.zeros_like(targets)):
            warn_about_targets(rows(each), output_warp=False)
        for each in (targets, heavy, counted):
            warn_about_targets(rows(each), output_warp=True)
    assert not caught


def test_a_value_far_from_all_others_is_told(generator: torch.Generator) -> None:
    targets = normal(generator, 200, 2)
    targets[7, 1] = 1e6
    with pytest.warns(UserWarning, match=r"Column 1 of y has a value .* times as far"):
        warn_about_targets(rows(targets), output_warp=False)


def test_rows_that_do_not_count_are_not_told(generator: torch.Generator) -> None:
    targets = normal(generator, 200, 1)
    targets[7] = 1e6
    weight = torch.ones(200)
    weight[7] = 0
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_about_targets(rows(targets, weight), output_warp=True)
    assert not caught


@pytest.mark.parametrize(("tied", "share"), [(50, "25%"), (200, "100%")])
def test_ties_are_told_where_a_density_is_learnt(
    generator: torch.Generator, tied: int, share: str
) -> None:
    targets = normal(generator, 200, 1)
    targets[:tied] = 0.5
    with pytest.warns(UserWarning, match=f"{share} of y is one and the same value"):
        warn_about_targets(rows(targets), output_warp=True)


def test_ties_are_equal_values_of_rows_that_count(generator: torch.Generator) -> None:
    targets, weight = normal(generator, 200, 2), torch.ones(200)
    assert not has_ties(rows(targets))
    targets[:50, 1] = 0.5
    assert has_ties(rows(targets))
    weight[:20] = 0
    assert not has_ties(rows(targets, weight))


@pytest.mark.parametrize("step", [1.0, 0.1, 1e-3, 12.5, 1e20])
def test_the_step_of_rounded_targets_is_found(step: float, generator: torch.Generator) -> None:
    values = 20 * normal(generator, 400, 1)
    found = target_resolution(rows(step * values.round()))
    assert found.item() == pytest.approx(step, rel=1e-6)
    # Standardised targets are rounded once more.
    shifted = (step * values.round() - 3.3 * step) / (0.7 * step)
    assert target_resolution(rows(shifted)).item() == pytest.approx(1 / 0.7, rel=1e-6)


def test_targets_that_are_not_rounded_have_no_step(generator: torch.Generator) -> None:
    smooth, rounded = normal(generator, 300, 1), normal(generator, 300, 1).round()
    both = target_resolution(rows(torch.cat((smooth, rounded), dim=1)))
    assert both.tolist() == [0.0, 1.0]
    assert target_resolution(rows(torch.full((30, 1), 3.0))).item() == 0
    assert target_resolution(rows(smooth[:1])).item() == 0
    # One value that occurs often, as zero does in rain, is no step.
    rain = torch.where(smooth > 0, smooth, 0.0)
    assert target_resolution(rows(rain)).item() == 0


def test_values_that_differ_by_rounding_errors_are_equal(generator: torch.Generator) -> None:
    values = normal(generator, 200, 1).round()
    blurred = torch.cat((values, values + 1e-13))
    assert target_resolution(rows(blurred)).item() == pytest.approx(1.0)
