"""Monotone warps: smooth increasing functions of each input by itself.

The slope of a function is e^{r_c} within each of C cells of equal width, smoothed by a Gaussian. At
the ends it goes on for ever. With the cells' inner edges a_c and I(t) = ∫Φ(t/w)dt, the integral of
the smoothed step, the function is

    u(x) = e^{r_0}·x + Σ_{c≥1} (e^{r_c} − e^{r_{c−1}})·I(x − a_c),    I(t) = t·Φ(t/w) + w·φ(t/w).

Its slope lies between the smallest and the largest e^{r_c}, so it cannot fold the inputs: a warp of
few rows that can, puts rows side by side that have nothing to do with each other.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Bool, Float64
from torch import Tensor, nn

N_CELLS = 8
"""C, the number of cells of an input."""

SMOOTHNESS = 0.75
"""w, the standard deviation of the Gaussian that smooths the slope, in cells."""

LENGTH_SCALE = 0.3
"""Length-scale of r, the log slope, in units of the range of an input; its variance is one."""

_JITTER = 1e-6
"""Added to the diagonal of the covariance of r."""


def monotone_warp(
    log_slopes: Float64[Tensor, "B D C"], inputs: Float64[Tensor, "*#B R D"]
) -> Float64[Tensor, "B R D"]:
    """Return u(x) of every input, in the notation above.

    Args:
        log_slopes: r, for every member and input.
        inputs: x, with the cells between −½ and ½; for all members, or for each.
    """
    slopes = log_slopes.exp()
    n_cells = slopes.shape[-1]
    edges = torch.arange(1, n_cells, dtype=inputs.dtype, device=inputs.device) / n_cells - 0.5
    distance, width = inputs[..., None] - edges, SMOOTHNESS / n_cells
    ratio = distance / width
    density = (-0.5 * ratio.square()).exp() / math.sqrt(2 * math.pi)
    ramps = distance * torch.special.ndtr(ratio) + width * density  # I(x − a)
    changes = slopes.diff(dim=-1)[..., None, :, :]
    return slopes[..., None, :, 0] * inputs + (ramps * changes).sum(-1)


class MonotoneWarps(nn.Module):
    """The whitened log slopes ε of all members, r = Cε where CCᵀ is the covariance of r.

    At zero the warps are the identity, and for members without a warp they stay there.
    """

    root: Tensor
    used: Tensor

    def __init__(self, used: Bool[Tensor, " B"], n_inputs: int) -> None:
        super().__init__()
        self.register_buffer("used", used.to(torch.float64)[:, None, None])
        n_members = len(used)
        self.whitened = nn.Parameter(torch.zeros(n_members, n_inputs, N_CELLS, dtype=torch.float64))
        centres = (torch.arange(N_CELLS, dtype=torch.float64) + 0.5) / N_CELLS
        squared = (centres[:, None] - centres).square()
        covariance = (-0.5 * squared / LENGTH_SCALE**2).exp()
        identity = torch.eye(N_CELLS, dtype=torch.float64)
        self.register_buffer("root", torch.linalg.cholesky(covariance + _JITTER * identity))

    def factors(self) -> tuple[Float64[Tensor, "B D C"], Float64[Tensor, " B"]]:
        """Return r, and its negative log prior up to a constant."""
        return self.used * self.whitened @ self.root.mT, 0.5 * self.whitened.square().sum((-2, -1))
