"""The architecture of a model: the choices that fix the shapes of its parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sswim.base.validation import UserError, require_choice, require_flag, require_integer
from sswim.kernels.spectrum import Kernel
from sswim.warps.output_warp import OutputWarpName
from sswim.warps.pseudo_gp import PseudoPrior
from sswim.warps.warp import WarpMatrix

NoiseName = Literal["constant", "input-dependent"]
InputsName = Literal["standardised", "normal-scores"]
WarpsName = Literal["joint", "separate"]

LARGEST = 2**31 - 1
"""Largest size of anything."""

LARGEST_WARP_DIM = 10_000
"""Largest dimension of a warped space. Matrices to a larger one may not fit into memory."""

_SMALLEST = {
    "depth": 0,
    "n_frequencies": 1,
    "n_pseudo": 1,
    "n_output_terms": 1,
    "n_noise_frequencies": 1,
    "n_neighbors": 0,
}
"""Smallest value of every integer."""


@dataclass(frozen=True)
class Architecture:
    """The choices that fix the shapes of a model's parameters."""

    depth: int = 1
    """J, the number of warps; 0 gives the stationary sparse spectrum GP."""
    n_frequencies: int = 256
    """M, the number of frequencies of the top level, which has F = 2M features."""
    n_warp_frequencies: int | None = None
    """Number of frequencies of every warp; None for as many as at the top level."""
    n_pseudo: int = 128
    """K, the number of pseudo-points of g and of h in every warp."""
    warps: WarpsName = "separate"
    """Whether g and h of a warp have their own frequencies and pseudo-inputs, as published, or
    share them ("joint"), which is half the cost."""
    warp_matrix: WarpMatrix = "diagonal"
    """Form of the matrix G of the warps G(x) x + h(x) (see ``sswim.warps.warp``). A projection
    is part of the first warp only: later warps are diagonal, or full around the identity."""
    warp_dim: int | None = None
    """Q, the dimension of the warped space; None for that of the inputs, which a diagonal matrix
    keeps."""
    kernel: Kernel = "matern32"
    """Stationary kernel that the Fourier features approximate."""
    pseudo_prior: PseudoPrior = "evidence"
    """Form of the hierarchical prior on the pseudo-targets (see ``PseudoGP``)."""
    output_warp: OutputWarpName = "none"
    """Kind of the output warp T, a learnt monotone map of the targets."""
    n_output_terms: int = 2
    """Number of terms of the output warp."""
    noise: NoiseName = "constant"
    """Whether the noise depends on the input. If it does, it is learnt together with the rest by
    ``train``, or afterwards by ``learn_noise``."""
    n_noise_frequencies: int = 32
    """Number of frequencies of input-dependent noise."""
    inputs: InputsName = "standardised"
    """Whether the model sees the inputs as they are given, or maps them to normal scores first."""
    n_neighbors: int = 0
    """m, the number of nearest rows in the warped space that a prediction is conditioned on, under
    the exact kernel; 0 for all rows, by Fourier features."""
    local_amplitude: bool = True
    """Whether a neighbourhood has an amplitude of its own, which makes predictions Student-t; only
    with neighbours."""

    @property
    def warp_frequencies(self) -> int:
        """Number of frequencies of every warp."""
        return self.n_frequencies if self.n_warp_frequencies is None else self.n_warp_frequencies

    def warped_dim(self, n_inputs: int) -> int:
        """Return Q, the dimension of the warped space of a model with D inputs."""
        return n_inputs if self.warp_dim is None else self.warp_dim

    def __post_init__(self) -> None:
        require_choice("output_warp", self.output_warp, OutputWarpName)
        require_choice("noise", self.noise, NoiseName)
        require_choice("kernel", self.kernel, Kernel)
        require_choice("pseudo_prior", self.pseudo_prior, PseudoPrior)
        require_choice("inputs", self.inputs, InputsName)
        require_choice("warps", self.warps, WarpsName)
        require_choice("warp_matrix", self.warp_matrix, WarpMatrix)
        for name, smallest in _SMALLEST.items():
            require_integer(name, getattr(self, name), smallest, LARGEST)
        for name, largest in (("n_warp_frequencies", LARGEST), ("warp_dim", LARGEST_WARP_DIM)):
            if getattr(self, name) is not None:
                require_integer(name, getattr(self, name), 1, largest)
        require_flag("local_amplitude", self.local_amplitude)
        check_warp_matrix(self.warp_matrix, self.warp_dim, self.depth)


def check_warp_matrix(warp_matrix: WarpMatrix, warp_dim: int | None, depth: int) -> None:
    """Check that a form of the warps' matrix suits the dimension and the number of warps."""
    if warp_matrix == "diagonal" and warp_dim is not None:
        raise UserError(
            "A diagonal matrix keeps the dimension of the inputs. Got warp_matrix='diagonal' with "
            f"warp_dim={warp_dim}. Set warp_matrix='projected', or leave out warp_dim."
        )
    if warp_matrix != "diagonal" and depth == 0:
        raise UserError(
            "A matrix belongs to a warp, and a model without warps has none. Got "
            f"warp_matrix={warp_matrix!r} with depth=0. Set depth=1, or leave out warp_matrix and "
            "warp_dim."
        )
