"""The plan of a fit: which members to train, and how.

The ingredients and the sizes of the default ensemble, chosen from the data alone.

The default is an ensemble of a few kinds of members. Some predict by features, from sums over all
rows, and some by neighbours, from the nearest rows. They differ in what is unsettled or depends on
the data: the number of warps, the kernel, and whether inputs are used as they are or as normal
scores. Each member leaves some rows out while its hyper-parameters are learnt, and the weight of
its kind is learnt from its predictions of these rows (see :mod:`sswim.ensemble.stacking`).

A kind of members after a fit: its weight, its members and their steps.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Literal

from sswim.files.records import Between
from sswim.members.architecture import Architecture, InputsName, NoiseName, WarpsName
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
    calibration: bool = True
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


@dataclass(frozen=True)
class FittedKind:
    """A kind of members after a fit; see :class:`sswim.ensemble.plan.Kind`."""

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


def describe_kind(kind: Kind, n_members: int, n_steps: int, weight: float) -> FittedKind:
    """Describe what became of a kind."""
    architecture = kind.architecture
    return FittedKind(
        name=kind.name,
        n_members=n_members,
        weight=weight,
        depth=architecture.depth,
        kernel=architecture.kernel,
        inputs=architecture.inputs,
        output_warp=architecture.output_warp,
        n_features=0 if kind.by_neighbours else 2 * architecture.n_frequencies,
        n_neighbors=architecture.n_neighbors,
        n_steps=n_steps,
    )
