"""What figures share: curves of scores, files, and the check of a request."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from jaxtyping import Float64
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import MaxNLocator, NullLocator

from sswim.base.validation import UserError
from sswim.files.output_files import atomic_write
from sswim.plotting import CYCLE, INK, axes
from sswim_lab.paper.experiment import Request

Metric = Literal["rmse", "mnlp"]
LABELS: dict[Metric, str] = {"rmse": "RMSE, standardised", "mnlp": "MNLP, nats"}
COLOURS: dict[Metric, str] = {"rmse": CYCLE[0], "mnlp": CYCLE[1]}
FEW = 10
"""Maximum number of points of a curve that are drawn with markers."""


@dataclass(frozen=True)
class Curve:
    """A score against a number: means and standard deviations over repeats."""

    x: Float64[np.ndarray, " P"]
    mean: Float64[np.ndarray, " P"]
    std: Float64[np.ndarray, " P"]
    """Standard deviation; NaN for one repeat, for which no band is drawn."""


def small_multiples(
    curves: Mapping[str, Mapping[Metric, Curve]],
    label: str,
    ticks: Sequence[int],
    *,
    logarithmic: bool = False,
) -> Figure:
    """Draw the curves of data sets side by side, each with its own vertical axes.

    Args:
        curves: Curves by data set and metric.
        label: Label of the horizontal axes.
        ticks: Ticks of the horizontal axes.
        logarithmic: Whether the horizontal axes have a logarithmic scale.
    """
    figure = Figure(
        figsize=(max(4.5, 0.6 + 2.1 * len(curves)), 4.6),
        layout=ConstrainedLayoutEngine(w_pad=0.05, h_pad=0.06),
    )
    panels = figure.subplots(len(LABELS), len(curves), sharex=True, squeeze=False)
    for column, (name, by_metric) in enumerate(curves.items()):
        for row, metric in enumerate(LABELS):
            _draw(panels[row, column], by_metric[metric], COLOURS[metric])
        panels[0, column].set_title(name, fontsize="medium")
    for row, text in enumerate(LABELS.values()):
        panels[row, 0].set_ylabel(text)
    bottom = panels[-1, 0]  # all panels share its horizontal axis
    if logarithmic:
        bottom.set_xscale("log")
    bottom.set_xticks(ticks, [str(tick) for tick in ticks])
    bottom.xaxis.set_minor_locator(NullLocator())
    figure.align_ylabels()
    explained = f"{label}; bands: ± one standard deviation over the repeats"
    figure.supxlabel(explained, fontsize="medium")
    return figure


def _draw(ax: Axes, curve: Curve, colour: str) -> None:
    axes(ax)
    low, high = curve.mean - curve.std, curve.mean + curve.std
    ax.fill_between(curve.x, low, high, color=colour, alpha=0.2, lw=0)
    marker = "o" if len(curve.x) <= FEW else None
    ax.plot(curve.x, curve.mean, color=colour, lw=1.2, marker=marker, ms=3.5)
    ax.yaxis.set_major_locator(MaxNLocator(5))
    ax.tick_params(labelsize="small")
    ax.grid(axis="y", color=INK, alpha=0.12, lw=0.6)


DPI = 200
"""Resolution of the PNG file, and of images in the PDF file."""


def write_figure(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write a figure as PNG and as PDF, and return the paths."""
    # Without a date, equal figures make equal files.
    metadata = {"png": {}, "pdf": {"CreationDate": None}}
    paths = []
    for suffix, entries in metadata.items():
        path = folder / f"{name}.{suffix}"
        with atomic_write(path) as temporary:
            figure.savefig(temporary, format=suffix, dpi=DPI, metadata=entries)
        paths.append(path)
    return paths


def require_methods(request: Request, name: str, own: Collection[str]) -> None:
    """Raise an error if a requested method is not among the figure's own."""
    if not set(request.methods) <= set(own):
        raise UserError(
            f"The methods of {name} must be among {', '.join(own)}. "
            f"Got {', '.join(request.methods)}."
        )


def require_defaults(request: Request, name: str) -> None:
    """Raise an error if data sets or methods are requested for a figure with its own ones."""
    chosen = (*request.sets, *request.methods)
    if chosen:
        raise UserError(
            f"{name} has its own rows and model, so neither data sets nor methods can be chosen. "
            f"Got {', '.join(chosen)}."
        )
