"""How accuracy changes with the number of warps on top of each other."""

from __future__ import annotations

from sswim.lab.bench.methods import DEPTHS
from sswim.lab.paper.figures.sweep import Sweep

SWEEP = Sweep(
    "figure-depth",
    "warps",
    {f"paper-depth{n}": n for n in DEPTHS},
    quick=(0, 1),
    ticks=DEPTHS,
)
run = SWEEP.run
