"""The plan of a fit: which members to train, and how."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sswim.model.architecture import Architecture
from sswim.recipe.recipe import Recipe, Size
from sswim.training.neighbour_training import MiniBatches
from sswim.training.objective import Objective
from sswim.training.optimisers import Adam

WHITENED_WEIGHT = 16.0
"""Weight of the whitened prior; with a weight of one, point estimates of that many ε overfit."""

LEARNING_RATE = 0.06
"""Largest learning rate of the default."""

Precision = Literal["float32", "float64", "by noise"]
"""Precision of features in training; ``"by noise"`` is single unless the noise is too small."""


@dataclass(frozen=True)
class Kind:
    """A kind of member: the architecture and the objective that its members share."""

    architecture: Architecture
    objective: Objective


@dataclass(frozen=True)
class Plan:
    """Everything that a fit needs to know besides the rows."""

    kinds: tuple[Kind, ...]
    n_members: int
    """Number of members of each kind."""
    optimiser: Adam | MiniBatches
    """Mini-batches for members that predict by neighbours, all or none of the members."""
    length_scale: float | None = None
    """Start of all length-scales; None for the square root of the number of inputs."""
    screening: bool = False
    precision: Precision = "float64"
    n_more: int = 0
    """Number of frequencies added after training."""
    cross_fitting: bool = False
    stacking: bool = False
    calibration: bool = False

    @property
    def by_neighbours(self) -> bool:
        """Whether the members predict by neighbours."""
        return isinstance(self.optimiser, MiniBatches)

    @property
    def total_members(self) -> int:
        """Number of members of all kinds."""
        return len(self.kinds) * self.n_members


def make_plan(recipe: Recipe, size: Size) -> Plan:
    """Make the plan of a recipe."""
    kinds = tuple(
        _make_kind(recipe, size, depth, number) for depth in recipe.depths for number in (0, 1)
    )
    return Plan(
        kinds,
        size.n_members,
        Adam(size.steps, LEARNING_RATE, noise_rate=4.0),
        screening=recipe.screening,
        precision="by noise" if recipe.screening else "float64",
        n_more=size.n_more if recipe.enrichment else 0,
        cross_fitting=recipe.cross_fitting,
        stacking=recipe.stacking,
        calibration=recipe.calibration,
    )


def _make_kind(recipe: Recipe, size: Size, depth: int, number: int) -> Kind:
    """Make one of the two kinds of a depth.

    Normal scores go with the first kernel in shallow members and with the second in deep ones.
    """
    half = (number + depth // 2) % 2 == 0
    whitened = recipe.whitening and half
    architecture = Architecture(
        depth=depth,
        n_frequencies=size.n_frequencies,
        n_warp_frequencies=size.n_warp_frequencies,
        n_pseudo=size.n_pseudo,
        warps=recipe.warps,
        kernel=recipe.kernels[number % len(recipe.kernels)],
        inputs="normal-scores" if recipe.normal_scores and half else "standardised",
        linear=recipe.linear and depth == 0 and number == 0,
        pseudo_prior="whitened" if whitened else "evidence",
        output_warp=recipe.output_warp,
        noise=recipe.noise,
    )
    return Kind(architecture, Objective(prior_weight=WHITENED_WEIGHT if whitened else 1.0))
