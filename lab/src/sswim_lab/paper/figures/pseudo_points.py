"""Accuracy of one warp against the number of pseudo-points."""

from __future__ import annotations

from sswim_lab.bench.methods import N_PSEUDO
from sswim_lab.paper.figures.variants import VariantsFigure

FIGURE = VariantsFigure(
    "figure-pseudo-points",
    "pseudo-points",
    {f"paper-k{n}": n for n in N_PSEUDO},
    quick=(10, 40),
    ticks=N_PSEUDO[1::2],
    logarithmic=True,
)
run = FIGURE.run
