"""The kernels of members."""

from __future__ import annotations

import math

import torch
from builders.models import normal
from builders.surrogates import bent_members
from torch import Tensor

from sswim.members.exact_model import ExactKind, kernel_between, kernel_within

KINDS = (
    ExactKind("matern52"),
    ExactKind("matern52", ripples=True),
    ExactKind("rbf", ripples=True),
    ExactKind("rbf"),
    ExactKind("rbf", ripples=True),
    ExactKind("rbf", additive=True),
    ExactKind("matern52", additive=True, ripples=True),
)


def correlation(kernel: str, distance: Tensor) -> Tensor:
    if kernel == "rbf":
        return (-distance.square() / 2).exp()
    scaled = math.sqrt(5) * distance
    return (1 + scaled + scaled**2 / 3) * (-scaled).exp()


@torch.no_grad()
def test_kernels_are_those_of_distances(generator: torch.Generator) -> None:
    factors, _ = bent_members(generator, KINDS).factors()
    n = len(KINDS)
    first, second = normal(generator, 2, n, 4, 2), normal(generator, n, 3, 2)
    found = kernel_between(KINDS, factors, first, second)
    within = kernel_within(KINDS, factors, first)
    for member, kind in enumerate(KINDS):
        ratio = factors.ripple_signal[member]
        assert (ratio > 0) == kind.ripples
        for value, other in ((found, second[member]), (within, first[:, member])):
            differences = (first[:, member, :, None] - other[..., None, :, :]).abs()
            distance = differences.square().sum(-1).sqrt()
            smooth = correlation(kind.kernel, distance)
            if kind.additive:
                strength = factors.interaction[member]
                single = 1 + strength * correlation(kind.kernel, differences)
                smooth = single.prod(-1) / (1 + strength) ** 2
            fine = correlation("matern52", distance / factors.ripple_scale[member])
            expected = factors.signal[member] * (smooth + ratio * fine)
            assert torch.allclose(value[:, member], expected, atol=1e-10)


def test_gradients_of_kernels(generator: torch.Generator) -> None:
    members = bent_members(generator, KINDS)
    n = len(KINDS)
    points, others = normal(generator, n, 3, 2), normal(generator, n, 2, 2)

    def kernels(
        log_ripples: Tensor, log_interaction: Tensor, points: Tensor
    ) -> tuple[Tensor, Tensor]:
        parameters = {
            "members.log_ripples": log_ripples,
            "members.log_interaction": log_interaction,
        }
        factors, _ = torch.func.functional_call(_Conditioned(members), parameters, ())
        between = kernel_between(KINDS, factors, points, others)
        return between, kernel_within(KINDS, factors, points)

    learnt = (members.log_ripples, members.log_interaction)
    inputs = (*(each.detach().requires_grad_() for each in learnt), points.requires_grad_())
    assert torch.autograd.gradcheck(kernels, inputs)


class _Conditioned(torch.nn.Module):
    """Models whose call is their factors."""

    def __init__(self, members: torch.nn.Module) -> None:
        super().__init__()
        self.members = members

    def forward(self) -> object:
        return self.members.factors()  # type: ignore[operator]
