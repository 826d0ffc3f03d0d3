"""The choices that fix the shape of a model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sswim.base.validation import require_choice
from sswim.model.output_warp import OutputWarpName
from sswim.model.pseudo_gp import PseudoPrior
from sswim.model.spectrum import Draw, Kernel

NoiseName = Literal["constant", "input-dependent"]
InputsName = Literal["standardised", "normal-scores"]
WarpsName = Literal["joint", "separate"]


@dataclass(frozen=True)
class Architecture:
    """The choices that fix the shape of a model."""

    depth: int = 1
    """J, the number of warps; 0 is the stationary sparse spectrum GP."""
    n_frequencies: int = 256
    """M, at the top; there are F = 2M features."""
    n_warp_frequencies: int | None = None
    """Those of every warp; None for as many as at the top."""
    n_pseudo: int = 128
    """K, the pseudo-points of g and of h in every warp."""
    warps: WarpsName = "separate"
    """g and h of a warp have frequencies and pseudo-inputs of their own, as published; or, joint,
    they share them, which is half the cost."""
    kernel: Kernel = "matern32"
    draw: Draw = "orthogonal"
    pseudo_prior: PseudoPrior = "evidence"
    """The form of the hierarchical prior on the pseudo-targets (see ``PseudoGP``)."""
    output_warp: OutputWarpName = "none"
    """A learnt monotone map of the targets."""
    n_output_terms: int = 2
    """How many terms that map has."""
    noise: NoiseName = "constant"
    """Input-dependent, it is learnt jointly by ``train``, or after it by ``learn_noise``."""
    n_noise_frequencies: int = 32
    """Of the noise where it depends on the inputs."""
    inputs: InputsName = "standardised"
    """As they are given; or mapped to their normal scores before anything else."""
    linear: bool = False
    """Linear features beside the Fourier features, for a trend; without warps only."""

    @property
    def warp_frequencies(self) -> int:
        """How many frequencies every warp has."""
        return self.n_frequencies if self.n_warp_frequencies is None else self.n_warp_frequencies

    def __post_init__(self) -> None:
        require_choice("output_warp", self.output_warp, OutputWarpName)
        require_choice("noise", self.noise, NoiseName)
        if self.n_output_terms < 1 or self.n_noise_frequencies < 1:
            raise ValueError(
                "n_output_terms and n_noise_frequencies must be at least 1. "
                f"Got n_output_terms={self.n_output_terms}, "
                f"n_noise_frequencies={self.n_noise_frequencies}."
            )
        require_choice("kernel", self.kernel, Kernel)
        require_choice("draw", self.draw, Draw)
        require_choice("pseudo_prior", self.pseudo_prior, PseudoPrior)
        require_choice("inputs", self.inputs, InputsName)
        require_choice("warps", self.warps, WarpsName)
        if self.depth < 0 or self.n_frequencies < 1 or self.n_pseudo < 1:
            raise ValueError(
                "depth must be at least 0, n_frequencies and n_pseudo at least 1. "
                f"Got depth={self.depth}, n_frequencies={self.n_frequencies}, "
                f"n_pseudo={self.n_pseudo}."
            )
        if self.warp_frequencies < 1:
            raise ValueError(
                f"n_warp_frequencies must be at least 1, or None. Got {self.n_warp_frequencies}."
            )
        if self.linear and self.depth > 0:
            raise ValueError(
                "Linear features are of the raw inputs, which only a model without warps sees. "
                f"Got linear=True with depth={self.depth}."
            )
