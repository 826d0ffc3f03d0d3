"""The default: what is trained, and how, chosen from the data alone.

An ensemble of six kinds of members, two of each depth, that differ in what is unsettled or depends
on the data: the kernel, whether inputs are taken as they are or by their normal scores, and the
form of the prior on the warps. Each member leaves some rows out while its hyper-parameters are
learnt, and its predictions of these decide how much its kind counts (see ``stacking``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from sswim.model.architecture import Architecture, NoiseName, WarpsName
from sswim.model.output_warp import OutputWarpName
from sswim.model.spectrum import Kernel
from sswim.training.objective import Objective
from sswim.training.training import Adam

WHITENED_WEIGHT = 16.0
"""How much the whitened prior counts: with one, point estimates of that many ε overfit."""


LEARNING_RATE = 0.06

Precision = Literal["float32", "float64", "by noise"]
"""By noise: single, unless so little noise is found that single precision could not tell it."""


@dataclass(frozen=True)
class Recipe:
    """The ingredients of the default, each of which can be left out."""

    depths: tuple[int, ...] = (0, 1, 2)
    """Of the members' stacks of warps."""
    kernels: tuple[Kernel, ...] = ("matern32", "rbf")
    """Those of the kinds of a depth, in turn."""
    normal_scores: bool = True
    """Half of the kinds see normal scores of the inputs."""
    whitening: bool = True
    """And these have the whitened prior on their warps, the others the literal one."""
    warps: WarpsName = "joint"
    """g and h of a warp share frequencies and pseudo-inputs, or have their own."""
    linear: bool = True
    """The first stationary kind has linear terms."""
    output_warp: OutputWarpName = "sinh-arcsinh"
    noise: NoiseName = "input-dependent"
    screening: bool = True
    """Length-scales, signal and noise start where the evidence of the stationary model says."""
    enrichment: bool = True
    """Members get as many further features once they are trained."""
    cross_fitting: bool = True
    """Members leave rows out, which then decide on weights and noise levels."""
    weighing: bool = True
    """Kinds are weighed; else all count the same."""
    calibration: bool = True
    """Noise levels are corrected."""

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Recipe:
        """Undo ``dataclasses.asdict`` and JSON, which has no tuples."""
        tuples = {name: tuple(content[name]) for name in ("depths", "kernels")}
        return cls(**{**content, **tuples})


@dataclass(frozen=True)
class Size:
    """How much of everything, given the number of rows and of inputs."""

    n_frequencies: int
    """M at the top, while training."""
    n_more: int
    """Further ones afterwards."""
    n_warp_frequencies: int
    n_pseudo: int
    """K"""
    n_members: int
    """Of each kind."""
    steps: int


def choose_size(n_rows: int, n_inputs: int) -> Size:
    """Sizes whose cost grows slowly with the rows, and that small tables cannot overfit by far."""
    many = n_rows > 10_000
    n_frequencies = 256 if many else min(max(32 * round(n_rows / 160), 32), 192)
    return Size(
        n_frequencies=n_frequencies,
        # In few dimensions a kernel needs more features than it has length-scales to learn.
        n_more=n_frequencies * (3 if n_inputs <= 3 else 1),
        n_warp_frequencies=n_frequencies // 2,
        n_pseudo=128 if many else 64,
        n_members=3 if n_rows <= 5000 else 2,
        steps=150 if many else 80,
    )


@dataclass(frozen=True)
class Kind:
    """What members of one kind have in common."""

    architecture: Architecture
    objective: Objective


@dataclass(frozen=True)
class Plan:
    """All that training needs to know."""

    kinds: tuple[Kind, ...]
    n_members: int
    """Of each kind."""
    optimiser: Adam
    length_scale: float | None = None
    """Where length-scales start; None for the root of the number of inputs."""
    screening: bool = False
    precision: Precision = "float64"
    """Of the features while training."""
    n_more: int = 0
    """Frequencies added after training."""
    cross_fitting: bool = False
    weighing: bool = False
    calibration: bool = False

    @property
    def total_members(self) -> int:
        """Of all kinds."""
        return len(self.kinds) * self.n_members


def make_plan(recipe: Recipe, size: Size) -> Plan:
    """The plan of a recipe."""
    kinds = tuple(
        _kind(recipe, size, depth, number) for depth in recipe.depths for number in (0, 1)
    )
    return Plan(
        kinds,
        size.n_members,
        Adam(size.steps, LEARNING_RATE, noise_rate=4.0),
        screening=recipe.screening,
        precision="by noise" if recipe.screening else "float64",
        n_more=size.n_more if recipe.enrichment else 0,
        cross_fitting=recipe.cross_fitting,
        weighing=recipe.weighing,
        calibration=recipe.calibration,
    )


def _kind(recipe: Recipe, size: Size, depth: int, number: int) -> Kind:
    """Scores come with the first kernel in shallow members and with the second in deep ones."""
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
