"""Warps of inputs and targets, and the noise field."""

from sswim.warps.monotone_warp import MonotoneWarps, monotone_warp
from sswim.warps.noise_field import NoiseFactors, NoiseField, log_noise_ratio
from sswim.warps.normal_scores import N_KNOTS, InputNormalScores, NormalScores, learn_normal_scores
from sswim.warps.output_warp import OutputMap, OutputWarp, OutputWarpName, SinhArcsinhMap, TanhMap
from sswim.warps.projection import (
    SPREAD,
    Projection,
    principal_directions,
    project,
    with_random_directions,
)
from sswim.warps.pseudo_gp import PseudoGP, PseudoPrior, pseudo_gp_moments
from sswim.warps.warp import WarpFactors, WarpLayer, WarpMatrix

__all__ = [
    "N_KNOTS",
    "SPREAD",
    "InputNormalScores",
    "MonotoneWarps",
    "NoiseFactors",
    "NoiseField",
    "NormalScores",
    "OutputMap",
    "OutputWarp",
    "OutputWarpName",
    "Projection",
    "PseudoGP",
    "PseudoPrior",
    "SinhArcsinhMap",
    "TanhMap",
    "WarpFactors",
    "WarpLayer",
    "WarpMatrix",
    "learn_normal_scores",
    "log_noise_ratio",
    "monotone_warp",
    "principal_directions",
    "project",
    "pseudo_gp_moments",
    "with_random_directions",
]
