"""Figures of a fitted regressor: predictions, warps, densities, what was learnt, training.

Every function draws into the axes that it is given, or into those of a new figure, and returns the
axes; ``plot_monitor`` has four panels, and takes and returns a figure. Only ``sswim.plotting`` and
``sswim_lab`` import matplotlib; ``import sswim`` does not.
"""

from sswim.plotting.densities import plot_calibration, plot_noise, plot_output_map, plot_pit
from sswim.plotting.insight import plot_effect, plot_local_metric, plot_relevance
from sswim.plotting.monitor import plot_monitor
from sswim.plotting.predictions import plot_history, plot_map, plot_prediction
from sswim.plotting.style import CYCLE, INK, INPUT_COLOURS, add_legend, axes, png
from sswim.plotting.warps import plot_warped_data, plot_warps

__all__ = [
    "CYCLE",
    "INK",
    "INPUT_COLOURS",
    "add_legend",
    "axes",
    "plot_calibration",
    "plot_effect",
    "plot_history",
    "plot_local_metric",
    "plot_map",
    "plot_monitor",
    "plot_noise",
    "plot_output_map",
    "plot_pit",
    "plot_prediction",
    "plot_relevance",
    "plot_warped_data",
    "plot_warps",
    "png",
]
