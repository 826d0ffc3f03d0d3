"""The kinds of members of a surrogate: how their inputs are warped, and their kernel."""

from __future__ import annotations

from dataclasses import dataclass

from sswim.model.spectrum import Kernel


@dataclass(frozen=True)
class MemberKind:
    """How members warp their inputs, and the kernel that they have on the warped inputs."""

    kernel: Kernel
    monotone: bool = False
    """Whether each input first goes through a monotone function of its own."""
    depth: int = 0
    """Number of warps g(x) ⊙ x + h(x) after that."""
    ripples: bool = False
    """Whether the kernel has a second part of much shorter length-scales."""
    rough: bool = False
    """Whether training starts from long length-scales and much noise. It ends near them where a
    function is a smooth one and ripples too fine to follow, which are noise to such a member."""


KINDS = (
    MemberKind("matern52", monotone=True, depth=1),
    MemberKind("matern52", monotone=True),
    MemberKind("rbf", monotone=True, ripples=True),
    MemberKind("rbf", ripples=True),
    MemberKind("rbf", monotone=True),
    MemberKind("rbf"),
    MemberKind("rbf", rough=True),
)
"""The kinds of a surrogate.

Kinds with warps come first. Kinds of one kernel lie side by side, and so do those with ripples: a
warp is applied to the first members, and a kernel to a slice of them, without copies.
"""
