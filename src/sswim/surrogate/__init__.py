"""A smooth model of tens to hundreds of rows, for the optimisation of costly functions."""

from __future__ import annotations

from sswim.surrogate.surrogate import KINDS, InputRange, Surrogate, fit_surrogate
from sswim.surrogate.target_map import LogarithmicMap, TargetMap, choose_map, standardise

__all__ = [
    "KINDS",
    "InputRange",
    "LogarithmicMap",
    "Surrogate",
    "TargetMap",
    "choose_map",
    "fit_surrogate",
    "standardise",
]
