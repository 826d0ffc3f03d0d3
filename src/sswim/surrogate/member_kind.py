"""The kinds of members of a surrogate: how their inputs are warped, and their kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sswim.model.spectrum import Kernel

Start = Literal["usual", "rough", "fine"]


@dataclass(frozen=True)
class MemberKind:
    """How members warp their inputs, and the kernel that they have on the warped inputs."""

    kernel: Kernel
    monotone: bool = False
    """Whether each input first goes through a monotone function of its own."""
    depth: int = 0
    """Number of warps g(x) ⊙ x + h(x) after that."""
    additive: bool = False
    """Whether the function is a sum of functions of few inputs each, rather than of all."""
    ripples: bool = False
    """Whether the kernel has a second part of much shorter length-scales."""
    start: Start = "usual"
    """Length-scales and noise from which training starts. From long ones and much noise
    (``"rough"``) a member takes ripples that are too fine to follow for noise. From short ones
    (``"fine"``) it finds fast waves that others miss."""


KINDS = (
    MemberKind("matern52", monotone=True, depth=1),
    MemberKind("matern52", monotone=True),
    MemberKind("rbf", monotone=True, ripples=True),
    MemberKind("rbf", ripples=True),
    MemberKind("rbf", monotone=True),
    MemberKind("rbf"),
    MemberKind("rbf", start="rough"),
    MemberKind("rbf", monotone=True, additive=True),
    MemberKind("rbf", additive=True, start="fine"),
)
"""The kinds of a surrogate.

Kinds with warps come first. Kinds of one kernel lie side by side, and so do those with ripples: a
warp is applied to the first members, and a kernel to a slice of them, without copies.
"""
