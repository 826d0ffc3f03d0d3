"""Warps of inputs and targets, and the noise field."""

from sswim.warps.monotone_warp import MonotoneWarps, monotone_warp
from sswim.warps.noise_field import NoiseField, log_noise_ratio
from sswim.warps.normal_scores import InputNormalScores, NormalScores, learn_normal_scores
from sswim.warps.output_warp import OutputMap, OutputWarp, OutputWarpName, SinhArcsinhMap, TanhMap
from sswim.warps.projection import SPREAD, project
from sswim.warps.pseudo_gp import PseudoGP, PseudoPrior, pseudo_gp_moments
from sswim.warps.warp import WarpFactors, WarpLayer

__all__ = [
    "SPREAD",
    "InputNormalScores",
    "MonotoneWarps",
    "NoiseField",
    "NormalScores",
    "OutputMap",
    "OutputWarp",
    "OutputWarpName",
    "PseudoGP",
    "PseudoPrior",
    "SinhArcsinhMap",
    "TanhMap",
    "WarpFactors",
    "WarpLayer",
    "learn_normal_scores",
    "log_noise_ratio",
    "monotone_warp",
    "project",
    "pseudo_gp_moments",
]
