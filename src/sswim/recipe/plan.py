"""The plan of a fit: which members to train, and how."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from sswim.model.architecture import Architecture, InputsName
from sswim.recipe.recipe import KindName, Recipe, Size
from sswim.training.neighbour_training import MiniBatches
from sswim.training.objective import Objective
from sswim.training.optimisers import Adam

LEARNING_RATE = 0.06
"""Largest learning rate of members that predict by features."""

N_NEIGHBORS = 64
"""m, the number of rows that a prediction by neighbours is conditioned on."""

N_WARP_FREQUENCIES, N_PSEUDO = 128, 64
"""Numbers of frequencies and pseudo-points of the warps of members that predict by neighbours."""

Precision = Literal["float32", "float64", "by noise"]
"""Precision of features in training; ``"by noise"`` is single unless the noise is too small."""


@dataclass(frozen=True)
class Kind:
    """A kind of member: what its members share."""

    name: str
    """Its name in the recipe, or how it predicts and its number of warps."""
    architecture: Architecture
    objective: Objective
    optimiser: Adam | MiniBatches
    """Mini-batches for members that predict by neighbours."""
    n_members: int = 1
    n_more: int = 0
    """Number of frequencies that its members get after training."""
    is_mean: bool = False
    """Whether it predicts the mean of all rows everywhere, and is not trained."""

    @property
    def by_neighbours(self) -> bool:
        """Whether its members predict by neighbours."""
        return self.architecture.n_neighbors > 0


@dataclass(frozen=True)
class Plan:
    """Everything that a fit needs to know besides the rows."""

    kinds: tuple[Kind, ...]
    length_scale: float | None = None
    """Start of all length-scales; None for the square root of the number of inputs."""
    screening: bool = False
    precision: Precision = "float64"
    """Precision of the features of members that predict by features."""
    cross_fitting: bool = False
    stacking: bool = False
    calibration: bool = False
    pruning: bool = False
    shortest_first: bool = False
    """Whether members that take least time are trained first: for a limited time."""

    @property
    def keeps_rows(self) -> bool:
        """Whether some members predict by neighbours, and so keep the rows."""
        return any(kind.by_neighbours for kind in self.kinds)

    @property
    def total_members(self) -> int:
        """Number of members of all kinds."""
        return sum(kind.n_members for kind in self.kinds)

    @property
    def n_folds(self) -> int:
        """Number of folds that members leave out, if they do."""
        return max(kind.n_members for kind in self.kinds)


def make_plan(recipe: Recipe, size: Size) -> Plan:
    """Make the plan of a recipe."""
    return Plan(
        tuple(_make_kind(name, recipe, size) for name in recipe.kinds),
        screening=recipe.screening,
        precision="by noise" if recipe.screening else "float64",
        cross_fitting=recipe.cross_fitting,
        stacking=recipe.stacking,
        calibration=recipe.calibration,
        pruning=recipe.pruning,
    )


def _make_kind(name: KindName, recipe: Recipe, size: Size) -> Kind:
    """Make a kind of the default by its name."""
    if name == "mean":
        architecture = Architecture(depth=0, n_frequencies=1, noise=recipe.noise)
        return Kind(name, architecture, Objective(), Adam(0, LEARNING_RATE), is_mean=True)
    scored = recipe.normal_scores and not size.is_map
    scores: InputsName = "normal-scores" if scored else "standardised"
    by_features = Architecture(
        n_frequencies=size.n_frequencies,
        n_warp_frequencies=size.n_warp_frequencies,
        n_pseudo=size.n_pseudo,
        warps=recipe.warps,
        output_warp=recipe.output_warp,
        noise=recipe.noise,
    )
    by_neighbours = replace(
        by_features,
        n_neighbors=N_NEIGHBORS,
        local_amplitude=recipe.local_amplitude,
        n_frequencies=N_WARP_FREQUENCIES,
        n_warp_frequencies=None,
        n_pseudo=N_PSEUDO,
    )
    # Kinds without an output warp are there for targets that no output warp suits.
    stationary = replace(by_neighbours, depth=0, output_warp="none")
    architectures = {
        "features-1": replace(by_features, depth=1, kernel="rbf"),
        "features-2": replace(by_features, depth=2, kernel="matern32"),
        "neighbours-0-smooth": replace(stationary, kernel="rbf"),
        "neighbours-0-rough": replace(stationary, kernel="matern12", inputs=scores),
        "neighbours-1": replace(by_neighbours, depth=1, kernel="matern32", inputs=scores),
    }
    architecture = architectures[name]
    if architecture.n_neighbors:
        # Exact kernels have no random draws: members without warps would be nearly the same.
        n_members = size.n_members if architecture.depth else size.n_stationary
        return Kind(name, architecture, Objective(), MiniBatches(size.neighbour_steps), n_members)
    optimiser = Adam(size.steps, LEARNING_RATE, noise_rate=4.0)
    n_more = size.n_more if recipe.enrichment else 0
    return Kind(name, architecture, Objective(), optimiser, size.n_members, n_more)
