"""Members that predict the mean of all rows everywhere.

On small tables of noise nothing is better. Such a member is a member by features whose function has
no variance: the other kinds' corrections, noise and densities then apply to it as they are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch

from sswim.members.feature_member import FeatureMember
from sswim.members.kinds import Draw, Kind
from sswim.members.screening import StartingPoint

NO_SIGNAL = 1e-10
"""s² of the function, in units of the variance of the targets."""


@dataclass(frozen=True)
class MeanMember(FeatureMember):
    """The mean of all rows, with their variance."""

    way: ClassVar[str] = "mean"
    is_screened: ClassVar[bool] = False
    is_mean: ClassVar[bool] = True

    @classmethod
    def _starting_point(cls, kind: Kind, draw: Draw) -> StartingPoint:
        """Return the hyper-parameters of a function without variance, and of noise alone."""
        rows = draw.rows.sample
        one = torch.ones(rows.targets.shape[1], dtype=torch.float64)
        return StartingPoint(math.sqrt(rows.inputs.mean.shape[1]), NO_SIGNAL * one, one)
