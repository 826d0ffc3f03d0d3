"""Figures of a fitted regressor: predictions, warps, densities and training.

Needs matplotlib, which nothing else in the package imports. Every function draws into the axes it
is given, or into those of a new figure, and returns them.
"""

from sswim.plotting.densities import plot_calibration, plot_noise, plot_output_map, plot_pit
from sswim.plotting.predictions import plot_map, plot_prediction
from sswim.plotting.style import CYCLE, DEEP, INK, POSITIONS, png
from sswim.plotting.training import plot_history
from sswim.plotting.warps import plot_warped_data, plot_warps

__all__ = [
    "CYCLE",
    "DEEP",
    "INK",
    "POSITIONS",
    "plot_calibration",
    "plot_history",
    "plot_map",
    "plot_noise",
    "plot_output_map",
    "plot_pit",
    "plot_prediction",
    "plot_warped_data",
    "plot_warps",
    "png",
]
