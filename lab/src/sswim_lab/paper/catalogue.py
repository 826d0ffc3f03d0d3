"""The experiments by name."""

from __future__ import annotations

from sswim_lab.paper.experiment import Experiment, FigureExperiment, TableExperiment

MAIN_SETS = (
    "concrete",
    "parkinsons",
    "bikeshare",
    "ct_slice",
    "supercond",
    "protein",
    "buzz",
    "song",
)
OUTPUT_WARP_SETS = ("abalone", "creep", "ailerons")
OURS = ("sswim1-paper", "sswim2-paper")
"""The paper's own methods, with its settings."""
DEFAULT = "sswim"
"""This package's default, which is not in the paper's tables."""
MAIN_METHODS = (*OURS, "dsdgp", "dkl", "rffns", "svgp", "sgpr", "rffs", DEFAULT)
OUTPUT_WARP_METHODS = ("gp", "bwgp", "mlwgp3", "mlwgp20", *OURS, DEFAULT)

_ALL: tuple[Experiment, ...] = (
    TableExperiment(
        "table-main",
        "RMSE and MNLP on eight data sets",
        MAIN_SETS,
        MAIN_METHODS,
        ("airfoil", "concrete"),
    ),
    TableExperiment(
        "table-complete",
        "RMSE and MNLP on ten data sets",
        ("elevators", "airfoil", *MAIN_SETS),
        MAIN_METHODS,
        ("airfoil", "concrete"),
    ),
    TableExperiment(
        "table-output-warp",
        "MSE and MNLP beside Gaussian processes with warped outputs",
        OUTPUT_WARP_SETS,
        OUTPUT_WARP_METHODS,
        ("creep",),
    ),
    FigureExperiment("figure-warp-1d", "The effect of a warp on a signal of one input", "warp_1d"),
    FigureExperiment(
        "figure-pseudo-points", "Scores by the number of pseudo-points", "pseudo_points"
    ),
    FigureExperiment("figure-depth", "Scores by the number of warps", "depth"),
    FigureExperiment("figure-overfitting", "Test scores at every step of training", "overfitting"),
    FigureExperiment("figure-gramacy", "Warps of a function of two inputs", "gramacy"),
)

EXPERIMENTS: dict[str, Experiment] = {each.name: each for each in _ALL}
"""Experiments by name, in the order in which ``all`` runs them."""
