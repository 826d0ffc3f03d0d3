"""The kernels of members: s²(k(r) + ρ·k'(r/c)), where the second part is for members with ripples.

k' is the Matérn-5/2 kernel. With c well below one, a member sees a smooth function and ripples on
it: it follows the smooth part everywhere, and the ripples where rows are close together.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TypeVar

import torch
from jaxtyping import Float64
from torch import Tensor

from sswim.model.exact_kernel import cross_kernel, kernel_matrix
from sswim.model.spectrum import Kernel
from sswim.surrogate.member_kind import MemberKind
from sswim.surrogate.members import MemberFactors

KeyT = TypeVar("KeyT")

RIPPLE_KERNEL: Kernel = "matern52"
"""k', the kernel of ripples."""


def kernel_between(
    kinds: Sequence[MemberKind],
    factors: MemberFactors,
    first: Float64[Tensor, "*#S B n D"],
    second: Float64[Tensor, "*#S B m D"],
) -> Float64[Tensor, "*S B n m"]:
    """Return the kernel of points with other points, for every member."""
    sets = torch.broadcast_shapes(first.shape[:-2], second.shape[:-2])
    first, second = (each.expand(*sets, *each.shape[-2:]) for each in (first, second))
    parts = [
        cross_kernel(first[..., members, :, :], second[..., members, :, :], kernel)
        for kernel, members in _slices([kind.kernel for kind in kinds])
    ]
    correlation = torch.cat(parts, dim=-3)
    for members in _with_ripples(kinds):
        scale = factors.ripple_scale[members, None, None]
        near, far = (each[..., members, :, :] / scale for each in (first, second))
        ripples = factors.ripple_signal[members, None, None] * cross_kernel(
            near, far, RIPPLE_KERNEL
        )
        correlation = _add(correlation, members, ripples)
    return factors.signal[:, None, None] * correlation


def kernel_within(
    kinds: Sequence[MemberKind], factors: MemberFactors, points: Float64[Tensor, "*S B n D"]
) -> Float64[Tensor, "*S B n n"]:
    """Return the kernel of points with each other, for every member."""
    parts = [
        kernel_matrix(points[..., members, :, :], None, kernel)
        for kernel, members in _slices([kind.kernel for kind in kinds])
    ]
    correlation = torch.cat(parts, dim=-3)
    for members in _with_ripples(kinds):
        near = points[..., members, :, :] / factors.ripple_scale[members, None, None]
        ripples = kernel_matrix(near, None, RIPPLE_KERNEL)
        ripples = factors.ripple_signal[members, None, None] * ripples
        correlation = _add(correlation, members, ripples)
    return factors.signal[:, None, None] * correlation


def _add(values: Tensor, members: slice, more: Tensor) -> Tensor:
    """Return values with more of them added for some members."""
    before, after = values[..., : members.start, :, :], values[..., members.stop :, :, :]
    return torch.cat((before, values[..., members, :, :] + more, after), dim=-3)


def _with_ripples(kinds: Sequence[MemberKind]) -> list[slice]:
    """Return the members with ripples."""
    slices = _slices([kind.ripples for kind in kinds])
    return [members for has_ripples, members in slices if has_ripples]


def _slices(keys: Sequence[KeyT]) -> list[tuple[KeyT, slice]]:
    """Return every key with the members that have it, as far as these lie side by side."""
    slices, start = [], 0
    for key, group in groupby(keys):
        stop = start + len(list(group))
        slices.append((key, slice(start, stop)))
        start = stop
    return slices
