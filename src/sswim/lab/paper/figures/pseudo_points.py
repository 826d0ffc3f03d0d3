"""How accuracy grows with the number of pseudo-points, of one warp."""

from __future__ import annotations

from sswim.lab.bench.methods import N_PSEUDO
from sswim.lab.paper.figures.sweep import Sweep

SWEEP = Sweep(
    "figure-pseudo-points",
    "pseudo-points",
    {f"paper-k{n}": n for n in N_PSEUDO},
    quick=(10, 40),
    ticks=N_PSEUDO[1::2],
    logarithmic=True,
)
run = SWEEP.run
