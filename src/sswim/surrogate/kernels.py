"""The kernels of members: s²(k(r) + ρ·k'(r/c)), where the second part is for members with ripples.

k' is the Matérn-5/2 kernel. With c well below one, a member sees a smooth function and ripples on
it: it follows the smooth part everywhere, and the ripples where rows are close together.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from itertools import groupby

import torch
from jaxtyping import Float64
from torch import Tensor

from sswim.kernels.exact_kernel import additive_kernel, cross_kernel, kernel_matrix
from sswim.kernels.spectrum import Kernel
from sswim.surrogate.members import MemberFactors, MemberKind

RIPPLE_KERNEL: Kernel = "matern52"
"""k', the kernel of ripples."""

KernelForm = tuple[Kernel, bool, bool]
"""The kernel of a member's smooth part, and whether it is additive and has ripples."""


def kernel_between(
    kinds: Sequence[MemberKind],
    factors: MemberFactors,
    first: Float64[Tensor, "*#S B n D"],
    second: Float64[Tensor, "*#S B m D"],
) -> Float64[Tensor, "*S B n m"]:
    """Return the kernel of points with other points, for every member."""
    sets = torch.broadcast_shapes(first.shape[:-2], second.shape[:-2])
    first, second = (each.expand(*sets, *each.shape[-2:]) for each in (first, second))
    parts = []
    for (kernel, additive, ripples), members in kernel_slices(kinds):
        near, far = first[..., members, :, :], second[..., members, :, :]
        if additive:
            strength = factors.interaction[members].expand(near.shape[:-2])
            part = additive_kernel(near, far, strength, kernel)
        else:
            part = cross_kernel(near, far, kernel)
        if ripples:
            scale, signal = _ripples(factors, members)
            part = part + signal * cross_kernel(near / scale, far / scale, RIPPLE_KERNEL)
        parts.append(part)
    return factors.signal[:, None, None] * torch.cat(parts, dim=-3)


def kernel_within(
    kinds: Sequence[MemberKind], factors: MemberFactors, points: Float64[Tensor, "*S B n D"]
) -> Float64[Tensor, "*S B n n"]:
    """Return the kernel of points with each other, for every member."""
    tensors = (
        points.movedim(-3, 0),
        factors.signal,
        factors.interaction,
        factors.ripple_signal,
        factors.ripple_scale,
    )
    parts = [
        kernel_of_form(form, *(each[members] for each in tensors))
        for form, members in kernel_slices(kinds)
    ]
    return torch.cat(parts).movedim(0, -3)


def kernel_of_form(
    form: KernelForm,
    points: Float64[Tensor, "B *S n D"],
    signal: Float64[Tensor, " B"],
    interaction: Float64[Tensor, " B"],
    ripple_signal: Float64[Tensor, " B"],
    ripple_scale: Float64[Tensor, " B"],
) -> Float64[Tensor, "B *S n n"]:
    """Return the kernel of points with each other, for members that have one form of kernel."""
    kernel, additive, ripples = form
    sizes = (-1,) + (1,) * (points.ndim - 1)
    if additive:
        strength = interaction.reshape(sizes[:-2]).expand(points.shape[:-2])
        matrix = additive_kernel(points, points, strength, kernel)
    else:
        matrix = kernel_matrix(points, None, kernel)
    if ripples:
        nearer = points / ripple_scale.reshape(sizes)
        matrix = matrix + ripple_signal.reshape(sizes) * kernel_matrix(nearer, None, RIPPLE_KERNEL)
    return signal.reshape(sizes) * matrix


def _ripples(factors: MemberFactors, members: slice) -> tuple[Tensor, Tensor]:
    """Return c and ρ of some members, with shapes that broadcast over points."""
    return factors.ripple_scale[members, None, None], factors.ripple_signal[members, None, None]


def kernel_slices(
    kinds: Sequence[MemberKind], largest: int = sys.maxsize
) -> Iterator[tuple[KernelForm, slice]]:
    """Yield forms of kernels, each with members side by side that have it.

    Args:
        kinds: The kinds of all members.
        largest: Largest number of members in one slice.
    """
    start = 0
    forms = ((kind.kernel, kind.additive, kind.ripples) for kind in kinds)
    for form, group in groupby(forms):
        stop = start + len(list(group))
        for first in range(start, stop, largest):
            yield form, slice(first, min(first + largest, stop))
        start = stop
