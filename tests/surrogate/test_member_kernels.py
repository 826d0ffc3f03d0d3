"""The kernels of members."""

from __future__ import annotations

import math

import torch
from builders.models import normal
from builders.surrogates import bent_members
from torch import Tensor

from sswim.surrogate.member_kernels import kernel_between, kernel_within
from sswim.surrogate.member_kind import MemberKind

KINDS = (
    MemberKind("matern52"),
    MemberKind("matern52", ripples=True),
    MemberKind("rbf", ripples=True),
    MemberKind("rbf"),
    MemberKind("rbf", ripples=True),
)


def correlation(kernel: str, distance: Tensor) -> Tensor:
    if kernel == "rbf":
        return (-distance.square() / 2).exp()
    scaled = math.sqrt(5) * distance
    return (1 + scaled + scaled**2 / 3) * (-scaled).exp()


@torch.no_grad()
def test_kernels_are_those_of_distances(generator: torch.Generator) -> None:
    factors, _ = bent_members(generator, KINDS).condition()
    first, second = normal(generator, 2, 5, 4, 2), normal(generator, 5, 3, 2)
    found = kernel_between(KINDS, factors, first, second)
    within = kernel_within(KINDS, factors, first)
    for member, kind in enumerate(KINDS):
        ratio = factors.ripple_signal[member]
        assert (ratio > 0) == kind.ripples
        for value, other in ((found, second[member]), (within, first[:, member])):
            distance = (first[:, member, :, None] - other[..., None, :, :]).square().sum(-1).sqrt()
            fine = correlation("matern52", distance / factors.ripple_scale[member])
            expected = correlation(kind.kernel, distance) + ratio * fine
            expected = factors.signal[member] * expected
            assert torch.allclose(value[:, member], expected, atol=1e-10)


def test_gradients_of_kernels(generator: torch.Generator) -> None:
    members = bent_members(generator, KINDS)
    points, others = normal(generator, 5, 3, 2), normal(generator, 5, 2, 2)

    def kernels(log_ripples: Tensor, points: Tensor) -> tuple[Tensor, Tensor]:
        factors, _ = torch.func.functional_call(
            _Conditioned(members), {"members.log_ripples": log_ripples}, ()
        )
        between = kernel_between(KINDS, factors, points, others)
        return between, kernel_within(KINDS, factors, points)

    inputs = (members.log_ripples.detach().requires_grad_(), points.requires_grad_())
    assert torch.autograd.gradcheck(kernels, inputs)


class _Conditioned(torch.nn.Module):
    """Members whose call is their factors."""

    def __init__(self, members: torch.nn.Module) -> None:
        super().__init__()
        self.members = members

    def forward(self) -> object:
        return self.members.condition()  # type: ignore[operator]
