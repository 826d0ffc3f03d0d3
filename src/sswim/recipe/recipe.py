"""The ingredients and the sizes of the default ensemble, chosen from the data alone.

The default is an ensemble of a few kinds of members. Some predict by features, from sums over all
rows, and some by neighbours, from the nearest rows. They differ in what is unsettled or depends on
the data: the number of warps, the kernel, and whether inputs are used as they are or as normal
scores. Each member leaves some rows out while its hyper-parameters are learnt, and the weight of
its kind is learnt from its predictions of these rows (see :mod:`sswim.recipe.stacking`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from sswim.model.architecture import NoiseName, WarpsName
from sswim.model.output_warp import OutputWarpName
from sswim.posterior.neighbour_index import MAP_INPUTS

KindName = Literal[
    "mean",
    "features-1",
    "features-2",
    "neighbours-0-smooth",
    "neighbours-0-rough",
    "neighbours-1",
]
"""How a kind predicts, and its number of warps. The mean of all rows is a kind as well: on small
tables of noise nothing is better."""

KINDS: tuple[KindName, ...] = (
    "mean",
    "features-1",
    "features-2",
    "neighbours-0-smooth",
    "neighbours-0-rough",
    "neighbours-1",
)


FEW_ROWS = 400
"""Number of rows below which stationary kinds have a member for every fold: one alone would leave
too many of the rows out."""


@dataclass(frozen=True)
class Recipe:
    """The ingredients of the default ensemble, each of which can be left out."""

    kinds: tuple[KindName, ...] = KINDS
    normal_scores: bool = True
    """Whether some kinds use normal scores of the inputs, unless these are few."""
    local_amplitude: bool = True
    """Whether each neighbourhood has an amplitude of its own."""
    warps: WarpsName = "joint"
    """Whether g and h of a warp share frequencies and pseudo-inputs."""
    output_warp: OutputWarpName = "sinh-arcsinh"
    noise: NoiseName = "input-dependent"
    screening: bool = True
    """Whether the evidence of stationary models decides where features start."""
    enrichment: bool = True
    """Whether members get more features after training."""
    cross_fitting: bool = True
    """Whether members leave rows out, from which weights and noise levels are learnt."""
    stacking: bool = True
    """Whether the weights of kinds are learnt; else all are equal."""
    calibration: bool = True
    """Whether variances are corrected on held-out rows."""
    pruning: bool = True
    """Whether kinds that do not pay are left out after weighing."""

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Recipe:
        """Restore a recipe from ``dataclasses.asdict`` by way of JSON, which has no tuples."""
        return cls(**{**content, "kinds": tuple(content["kinds"])})


@dataclass(frozen=True)
class Size:
    """The sizes of an ensemble."""

    n_frequencies: int
    """M at the top level while training."""
    n_more: int
    """Number of frequencies added after training."""
    n_warp_frequencies: int
    n_pseudo: int
    """K"""
    n_members: int
    """Number of members of each kind that has several."""
    n_stationary: int
    """Number of members of each kind that has no warps and no random draws."""
    steps: int
    """Number of steps of members that predict by features."""
    neighbour_steps: int
    """Number of steps of members that predict by neighbours."""
    is_map: bool
    """Whether there are so few inputs that they may be places or times, whose distances count:
    normal scores would distort them."""


def choose_size(n_rows: int, n_inputs: int) -> Size:
    """Choose sizes whose cost grows slowly with the rows and that small tables hardly overfit."""
    many = n_rows > 10_000
    n_members = 3 if n_rows <= 5000 else 2
    n_frequencies = 256 if many else min(max(32 * round(n_rows / 160), 32), 192)
    return Size(
        n_frequencies=n_frequencies,
        # In few dimensions a kernel needs more features than it has length-scales to learn.
        n_more=n_frequencies * (3 if n_inputs <= MAP_INPUTS else 1),
        n_warp_frequencies=n_frequencies // 2,
        n_pseudo=128 if many else 64,
        n_members=n_members,
        n_stationary=n_members if n_rows < FEW_ROWS else 1,
        steps=150 if many else 80,
        neighbour_steps=300 if many else 100 if n_rows < 2000 else 200,
        is_map=n_inputs <= MAP_INPUTS,
    )
