"""The ingredients and the sizes of the default ensemble, chosen from the data alone.

The default is an ensemble of six kinds of members, two for each depth. The kinds differ in what is
unsettled or depends on the data: the kernel, whether inputs are used as they are or as normal
scores, and the form of the prior on the warps. Each member leaves some rows out while its
hyper-parameters are learnt, and the weight of its kind is learnt from its predictions of these rows
(see :mod:`sswim.recipe.stacking`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sswim.model.architecture import NoiseName, WarpsName
from sswim.model.output_warp import OutputWarpName
from sswim.model.spectrum import Kernel


@dataclass(frozen=True)
class Recipe:
    """The ingredients of the default ensemble, each of which can be left out."""

    depths: tuple[int, ...] = (0, 1, 2)
    """Numbers of warps of the members."""
    kernels: tuple[Kernel, ...] = ("matern32", "rbf")
    """Kernels of the kinds of one depth, in turn."""
    normal_scores: bool = True
    """Whether half of the kinds use normal scores of the inputs."""
    whitening: bool = True
    """Whether these kinds have the whitened prior on their warps; the others have the literal."""
    warps: WarpsName = "joint"
    """Whether g and h of a warp share frequencies and pseudo-inputs."""
    linear: bool = True
    """Whether the first stationary kind has linear features."""
    output_warp: OutputWarpName = "sinh-arcsinh"
    noise: NoiseName = "input-dependent"
    screening: bool = True
    """Whether the evidence of stationary models decides where training starts."""
    enrichment: bool = True
    """Whether members get more features after training."""
    cross_fitting: bool = True
    """Whether members leave rows out, from which weights and noise levels are learnt."""
    stacking: bool = True
    """Whether the weights of kinds are learnt; else all are equal."""
    calibration: bool = True
    """Whether noise levels are corrected on held-out rows."""

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Recipe:
        """Restore a recipe from ``dataclasses.asdict`` by way of JSON, which has no tuples."""
        tuples = {name: tuple(content[name]) for name in ("depths", "kernels")}
        return cls(**{**content, **tuples})


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
    """Number of members of each kind."""
    steps: int


def choose_size(n_rows: int, n_inputs: int) -> Size:
    """Choose sizes whose cost grows slowly with the rows and that small tables hardly overfit."""
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
