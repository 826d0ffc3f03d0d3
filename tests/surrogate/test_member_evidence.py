"""The evidence of all members, against that of all matrices at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from builders.models import normal
from builders.surrogates import small_gp, uniform
from torch import Tensor

from sswim.members import exact_members as member_evidence
from sswim.members.exact_members import (
    ExactMembers,
    MapParts,
    members_evidence,
    negative_log_evidence,
)
from sswim.members.exact_model import kernel_within


def rows_of(gp: ExactMembers, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Return points, noise and residuals of all members, which record gradients."""
    noise = 0.01 + uniform(generator, *gp.points.shape[:2])
    residuals = normal(generator, *gp.points.shape[:2])
    return tuple(each.detach().requires_grad_() for each in (gp.points, noise, residuals))  # type: ignore[return-value]


@pytest.mark.parametrize("size", [1, 2**16])
def test_parts_give_the_evidence_of_all_members(
    size: int, generator: torch.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(member_evidence, "PART_SIZE", size)
    gp = small_gp(generator)
    points, noise, residuals = rows_of(gp, generator)
    factors = gp.factors.map(lambda each: each.detach().requires_grad_())
    leaves = (points, noise, residuals, factors.signal, factors.ripple_signal, factors.ripple_scale)
    weights = uniform(generator, len(points))
    parts = members_evidence(gp.kinds, factors, points, noise, residuals)
    whole = negative_log_evidence(kernel_within(gp.kinds, factors, points), noise, residuals)
    assert torch.allclose(parts, whole)
    found, expected = (
        torch.autograd.grad((weights * each).sum(), leaves) for each in (parts, whole)
    )
    for one, other in zip(found, expected, strict=True):
        assert torch.allclose(one, other)


def test_threads_change_nothing(
    generator: torch.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(member_evidence, "PART_SIZE", 1)
    gp = small_gp(generator)
    points, noise, residuals = rows_of(gp, generator)

    def gradient(map_parts: MapParts) -> tuple[Tensor, Tensor]:
        value = members_evidence(gp.kinds, gp.factors, points, noise, residuals, map_parts)
        return value, torch.autograd.grad(value.sum(), points)[0]

    with ThreadPoolExecutor(3) as pool:
        for one, other in zip(gradient(map), gradient(pool.map), strict=True):
            assert torch.equal(one, other)
