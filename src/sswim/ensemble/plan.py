"""The recipe and the plan of the default ensemble: its ingredients and sizes.

The default is an ensemble of a few kinds of members. Some predict by features, from sums over all
rows, and some by neighbours, from the nearest rows. They differ in what is unsettled or depends on
the data: the number of warps, the kernel, and whether inputs are used as they are or as normal
scores. Sizes are chosen from the data alone. Each member leaves some rows out while its
hyper-parameters are learnt, and the weight of its kind is learnt from its predictions of these rows
(see :mod:`sswim.ensemble.stacking`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Literal, get_args

from sswim.files.records import Between
from sswim.members.kinds import FEW_ROWS, Kind, Plan
from sswim.members.model import Architecture, InputsName, NoiseName, WarpsName
from sswim.members.neighbour_training import MiniBatches
from sswim.members.neighbourhood import MAP_INPUTS
from sswim.members.objective import Objective
from sswim.members.training import Adam
from sswim.warps.output_warp import OutputWarpName
from sswim.warps.warp import WarpMatrix

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

KINDS: tuple[KindName, ...] = get_args(KindName)


@dataclass(frozen=True)
class Recipe:
    """The ingredients of the default ensemble, each of which can be left out, and its sizes.

    Sizes are chosen from the data where they are None.
    """

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
    correction: bool = True
    """Whether variances are corrected on held-out rows."""
    pruning: bool = True
    """Whether kinds that do not pay are left out after weighing."""
    n_components: int | None = None
    """Number of Fourier features of members that predict by features, while training."""
    n_pseudo: int | None = None
    """Number of pseudo-points of members that predict by features."""
    inputs: InputsName | None = None
    """Whether inputs are used as they are or as normal scores, in all kinds."""
    warp_matrix: WarpMatrix | None = None
    """Form of the matrix of all warps; None for ``"projected"`` if ``warp_dim`` is given, else
    ``"diagonal"``."""
    warp_dim: int | None = None
    """Dimension of the warped space; None for the number of inputs."""
    n_output_terms: int | None = None
    """Number of terms of the output warp; None for two."""
    max_iter: int | None = None
    """Number of training steps of every kind."""
    learning_rate: float | None = None
    """Largest learning rate of every kind."""
    length_scale: float | None = None
    """Start of all length-scales, in units of each input's spread."""


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
    n_training_neighbors: int
    """Largest number of neighbours in these steps."""
    n_warp_frequencies_by_neighbours: int
    n_pseudo_by_neighbours: int
    is_map: bool
    """Whether there are so few inputs that they may be places or times, whose distances count:
    normal scores would distort them."""


def choose_size(n_rows: int, n_inputs: int) -> Size:
    """Choose sizes whose cost grows slowly with the rows and that small tables hardly overfit."""
    few, many = n_rows < FEW_ROWS, n_rows > 10_000
    n_members = 3 if n_rows <= 5000 else 2
    n_frequencies = 256 if many else min(max(32 * round(n_rows / 160), 32), 192)
    return Size(
        n_frequencies=n_frequencies,
        # In few dimensions a kernel needs more features than it has length-scales to learn.
        n_more=n_frequencies * (3 if n_inputs <= MAP_INPUTS else 1),
        n_warp_frequencies=n_frequencies // 2,
        n_pseudo=128 if many else 64,
        n_members=n_members,
        n_stationary=n_members if few else 1,
        steps=110 if many else 80 if few else 60,
        neighbour_steps=300 if many else 100 if n_rows < 2000 else 200,
        n_training_neighbors=32 if few else 24,
        n_warp_frequencies_by_neighbours=128 if n_rows <= 5000 else 64,
        n_pseudo_by_neighbours=64 if n_rows <= 5000 else 32,
        is_map=n_inputs <= MAP_INPUTS,
    )


LEARNING_RATE = 0.08
"""Largest learning rate of members that predict by features."""

N_NEIGHBORS = 64
"""m, the number of rows that a prediction by neighbours is conditioned on."""


def make_plan(recipe: Recipe, size: Size) -> Plan:
    """Make the plan of a recipe."""
    return Plan(
        tuple(_make_kind(name, recipe, size) for name in recipe.kinds),
        screening=recipe.screening,
        precision="by noise" if recipe.screening else "float64",
        cross_fitting=recipe.cross_fitting,
        stacking=recipe.stacking,
        correction=recipe.correction,
        pruning=recipe.pruning,
        competition=recipe.stacking and recipe.pruning,
    )


def _make_kind(name: KindName, recipe: Recipe, size: Size) -> Kind:
    """Make a kind of the default by its name."""
    if name == "mean":
        architecture = Architecture(depth=0, n_frequencies=1, noise=recipe.noise)
        return Kind(name, "mean", architecture, Objective(), Adam(0, LEARNING_RATE))
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
        n_frequencies=size.n_warp_frequencies_by_neighbours,
        n_warp_frequencies=None,
        n_pseudo=size.n_pseudo_by_neighbours,
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
        steps = MiniBatches(size.neighbour_steps, n_neighbors=size.n_training_neighbors)
        return Kind(name, "neighbours", architecture, Objective(), steps, n_members)
    optimiser = Adam(size.steps, LEARNING_RATE, noise_rate=4.0)
    n_more = size.n_more if recipe.enrichment else 0
    return Kind(name, "features", architecture, Objective(), optimiser, size.n_members, n_more)


@dataclass(frozen=True)
class FittedKind:
    """A kind of members after a fit; see :class:`sswim.members.kinds.Kind`."""

    name: str
    n_members: int
    """Number of its members that were trained."""
    weight: Annotated[float, Between(0, 1 + 1e-6)]
    """Weight of all its members together; zero if it was left out."""
    depth: int
    kernel: str
    inputs: str
    output_warp: str
    n_features: int
    """F while training; 0 for members that predict by neighbours."""
    n_neighbors: int
    n_steps: int
    """Number of training steps of the member that took most."""
