"""Accuracy against the number of warps."""

from __future__ import annotations

from sswim_lab.bench.methods import DEPTHS
from sswim_lab.paper.figures.variants import VariantsFigure

FIGURE = VariantsFigure(
    "figure-depth",
    "warps",
    {f"paper-depth{n}": n for n in DEPTHS},
    quick=(0, 1),
    ticks=DEPTHS,
)
run = FIGURE.run
