"""Frequencies drawn from the spectral densities of stationary kernels."""

from __future__ import annotations

import math
from typing import Literal

import torch
from jaxtyping import Float, Float64
from scipy import special
from torch import Tensor, nn

from sswim.base.validation import require_choice

Kernel = Literal["rbf", "matern12", "matern32", "matern52"]

DEGREES_OF_FREEDOM: dict[Kernel, int] = {"matern12": 1, "matern32": 3, "matern52": 5}
"""2ν, the degrees of freedom of a Matérn kernel's spectral density, a multivariate Student-t."""

_OPEN_INTERVAL = (2.0**-32, 1 - 2.0**-32)
"""Bounds of uniform random numbers: quantiles at 0 and 1 may be infinite."""


def draw_frequencies(
    kernel: Kernel, n_frequencies: int, n_inputs: int, generator: torch.Generator
) -> Float64[Tensor, "M D"]:
    """Draw frequencies from a kernel's spectral density at unit length-scale.

    The spectral density of the RBF kernel is N(0, I). The density of Matérn-ν is the multivariate
    Student-t with 2ν degrees of freedom, ``ω = z·√(2ν/χ²)`` with *one* ``χ² ~ χ²_{2ν}`` for all
    coordinates of a frequency: the isotropic kernel. (One χ² per coordinate would give a product of
    1-D kernels.)

    Frequencies have orthogonal directions in blocks of D, and radii stratified over all of them:
    they approximate the kernel better than independent ones. The factor Q of a Gaussian matrix QR
    is uniform over the orthogonal group if the signs are chosen such that the diagonal of R is
    positive.

    Args:
        kernel: The stationary kernel.
        n_frequencies: M, the number of frequencies.
        n_inputs: D, the number of inputs.
        generator: A generator on the CPU, so that the draw is the same on every device.
    """
    require_choice("kernel", kernel, Kernel)
    if n_frequencies < 1 or n_inputs < 1:
        raise ValueError(
            "A draw needs at least one frequency and one input. "
            f"Got n_frequencies={n_frequencies}, n_inputs={n_inputs}."
        )
    blocks = math.ceil(n_frequencies / n_inputs)
    normal = torch.randn(blocks, n_inputs, n_inputs, generator=generator, dtype=torch.float64)
    q, r = torch.linalg.qr(normal)
    signed = q * r.diagonal(dim1=-2, dim2=-1).sign()[:, None, :]
    directions = signed.mT.reshape(-1, n_inputs)[:n_frequencies]
    strata = torch.randperm(n_frequencies, generator=generator)
    offset = torch.rand(n_frequencies, generator=generator, dtype=torch.float64)
    return _radii(kernel, (strata + offset) / n_frequencies, n_inputs)[:, None] * directions


def draw_independent_frequencies(
    kernel: Kernel, n_frequencies: int, n_inputs: int, generator: torch.Generator
) -> Float64[Tensor, "M D"]:
    """Draw independent frequencies from the spectral density of :func:`draw_frequencies`."""
    normal = torch.randn(n_frequencies, n_inputs, generator=generator, dtype=torch.float64)
    uniform = torch.rand(n_frequencies, generator=generator, dtype=torch.float64)
    return _radii(kernel, uniform, n_inputs)[:, None] * nn.functional.normalize(normal, dim=-1)


def _radii(kernel: Kernel, uniform: Float64[Tensor, " M"], d: int) -> Float64[Tensor, " M"]:
    """Return quantiles of ‖ω‖, which has the law χ_D for the RBF kernel, else √(D·F(D, 2ν)).

    (If ‖z‖² ~ χ²_D and χ² ~ χ²_{2ν}, then F = (‖z‖²/D)/(χ²/2ν) is F-distributed, and D·F/(D·F + 2ν)
    is Beta(D/2, ν).)
    """
    uniform = uniform.clamp(*_OPEN_INTERVAL)
    if kernel == "rbf":
        return torch.from_numpy(special.gammaincinv(d / 2, uniform.numpy())).mul(2).sqrt()
    degrees = DEGREES_OF_FREEDOM[kernel]
    beta = special.betaincinv(d / 2, degrees / 2, uniform.numpy())
    complement = special.betaincinv(degrees / 2, d / 2, (1 - uniform).numpy())  # 1 − beta
    return torch.from_numpy(degrees * beta / complement).sqrt()


class Spectrum(nn.Module):
    """Frequencies: a fixed draw, divided by one learnable length-scale per input."""

    unit_frequencies: Tensor

    def __init__(self, n_frequencies: int, n_inputs: int, batch: tuple[int, ...] = ()) -> None:
        super().__init__()
        self.register_buffer(
            "unit_frequencies", torch.zeros(*batch, n_frequencies, n_inputs, dtype=torch.float64)
        )
        self.log_length_scales = nn.Parameter(torch.zeros(*batch, n_inputs, dtype=torch.float64))

    def frequencies(self) -> Float[Tensor, "*B M D"]:
        """Return Ω, the unit frequencies divided by the length-scales."""
        return self.unit_frequencies * (-self.log_length_scales).exp()[..., None, :]

    def length_scales(self) -> Float64[Tensor, "*B D"]:
        """Return ℓ, the length-scales."""
        return self.log_length_scales.exp()

    @torch.no_grad()
    def start(
        self,
        kernel: Kernel,
        length_scales: Float64[Tensor, " D"],
        generator: torch.Generator,
    ) -> None:
        """Draw the frequencies and set the length-scales of a single member."""
        n_frequencies, n_inputs = self.unit_frequencies.shape
        if n_frequencies:
            self.unit_frequencies.copy_(
                draw_frequencies(kernel, n_frequencies, n_inputs, generator)
            )
        self.log_length_scales.copy_(length_scales.log())
