"""Length-scales of members: where their training starts, and their prior."""

from __future__ import annotations

import math

from sswim.surrogate.member_kind import MemberKind, Start

START: dict[Start, float] = {"usual": 0.5, "rough": 1.0, "fine": 0.15}
"""Length-scales before training, in units of √D and the range of an input. Additive members see one
input at a time, and have no √D."""

RIPPLE_START = 2.0
"""Length-scales of the smooth part of kinds with ripples before training, in the same units."""

ADDITIVE_DEVIATION = 1.2
"""Prior log-deviation of the length-scales of additive members around the range of an input."""


def start_scale(kind: MemberKind, n_inputs: int) -> float:
    """Return the length-scales of a kind before training."""
    scale = RIPPLE_START if kind.ripples else START[kind.start]
    return scale if kind.additive else scale * math.sqrt(n_inputs)


def scale_prior(kind: MemberKind, n_inputs: int) -> tuple[float, float]:
    """Return the prior mean and deviation of the logarithms of a kind's length-scales.

    The prior is the one that BoTorch gives them, log-normal with a median of e^{√2}√D and a
    log-deviation of √3: it is wide, and holds against many inputs. Functions of one input vary
    more within its range, so that the median of additive kinds is the range.
    """
    if kind.additive:
        return 0.0, ADDITIVE_DEVIATION
    return math.sqrt(2) + 0.5 * math.log(n_inputs), math.sqrt(3)
