"""The noise of members whose other parameters are known."""

from __future__ import annotations

import math
from dataclasses import replace

import torch

from sswim.surrogate.evidence import negative_log_evidence
from sswim.surrogate.exact_gp import Observed
from sswim.surrogate.member_kernels import kernel_within
from sswim.surrogate.member_kind import MemberKind
from sswim.surrogate.members import (
    SMALLEST_NOISE,
    MemberFactors,
    member_points,
    negative_log_noise_prior,
)

LEVELS = torch.logspace(-11, 0, 23, dtype=torch.float64)
"""Values of σ² that are compared, two in a decade; targets have a variance of about one."""


@torch.no_grad()
def refit_noise(
    factors: MemberFactors, kinds: tuple[MemberKind, ...], rows: Observed
) -> MemberFactors:
    """Return members with the noise that is most probable given rows.

    Only rows side by side can tell a small noise from a smaller one. Where the noise is too large,
    a function that is known looks uncertain, and evaluating it again seems to be worth while.

    Args:
        factors: Tensors of the members.
        kinds: The kind of every member.
        rows: Rows with mapped targets, whose noise is not known.
    """
    points = member_points(factors, rows.inputs[None])
    kernel = kernel_within(kinds, factors, points)
    residuals = rows.targets - factors.mean[:, None]
    levels = LEVELS.to(points.device)
    misfits = [
        negative_log_evidence(kernel, (level + SMALLEST_NOISE).expand_as(residuals), residuals)
        for level in levels
    ]
    costs = torch.stack(misfits) + negative_log_noise_prior(levels.log())[:, None]
    best = costs.nan_to_num(nan=math.inf).argmin(0)
    return replace(factors, noise=levels[best] + SMALLEST_NOISE)
