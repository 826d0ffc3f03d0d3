from __future__ import annotations

import warnings

import pytest
import torch
from builders.models import normal
from torch import Tensor

from sswim.rows.rows import Rows, as_rows
from sswim.rows.target_checks import has_ties, warn_about_targets


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
