"""The method of this package by the names of its settings: our own, or those of the paper."""

from __future__ import annotations

from typing import Literal

from sswim.base.validation import require_choice, require_integer
from sswim.estimator.settings import Auto
from sswim.lab.peers.estimator import SSWIM
from sswim.lab.peers.protocol import Method
from sswim.lab.peers.published import PublishedSSWIM

Preset = Literal["default", "paper"]


def sswim(depth: int | Auto = "auto", preset: str = "default") -> Method:
    """The method at any depth.

    Args:
        depth: How many warps; ``"auto"`` is the ensemble, which only this package has.
        preset: ``"default"`` is ``SSWIMRegressor``; ``"paper"`` all as it was published, with the
            settings of a data set where ``tailored`` is told its name.
    """
    require_choice("preset", preset, Preset)
    if depth != "auto":
        require_integer("depth", depth, 0)
    if preset == "default":
        return SSWIM({} if depth == "auto" else {"depth": depth})
    if depth == "auto":
        raise ValueError('The paper has no ensemble. Got preset="paper" without a depth.')
    return PublishedSSWIM(depth)
