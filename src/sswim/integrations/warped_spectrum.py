"""The warps and frequencies of a kernel, as one module that keeps its own precision."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast

import torch
from jaxtyping import Float, Float64
from torch import Tensor, nn

from sswim.model.architecture import Architecture
from sswim.model.output_warp import OutputMap
from sswim.model.pseudo_gp import PseudoGP
from sswim.model.spectrum import draw_frequencies
from sswim.model.sswim import Factors, new_warp_layers
from sswim.model.start import start_length_scales, start_warps
from sswim.model.warp import WarpLayer


class WarpedSpectrum(nn.Module):
    """A stack of warps, and frequencies at unit length-scale on top of it, in float64.

    Whoever has this module may be in another precision: ``to``, ``float`` and ``double`` move it to
    another device, but leave it in float64, as factors of pseudo-data need it.
    """

    unit_frequencies: Tensor
    started: Tensor

    def __init__(self, architecture: Architecture, n_inputs: int, batch: tuple[int, ...]) -> None:
        super().__init__()
        self.architecture = architecture
        self.layers = new_warp_layers(architecture, n_inputs, batch)
        shape = (*batch, architecture.n_frequencies, n_inputs)
        self.register_buffer("unit_frequencies", torch.zeros(shape, dtype=torch.float64))
        # Stored with the rest, so that loaded parameters are not drawn again.
        self.register_buffer("started", torch.zeros(batch, dtype=torch.bool))

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        def keep_dtype(tensor: Tensor) -> Tensor:
            changed = fn(tensor)
            return changed if changed.dtype == tensor.dtype else tensor.to(changed.device)

        return super()._apply(keep_dtype, recurse)

    @torch.no_grad()
    def start(self, sample: Float[Tensor, "S D"], generator: torch.Generator) -> None:
        """Draw frequencies and pseudo-inputs, in place; all members of a batch start alike.

        Args:
            sample: Rows of inputs.
            generator: A generator on the CPU.
        """
        sample = sample.detach().to("cpu", torch.float64)
        kernel, draw = self.architecture.kernel, self.architecture.draw
        n_frequencies, n_inputs = self.unit_frequencies.shape[-2:]
        layers = new_warp_layers(self.architecture, n_inputs, ())
        scales = start_length_scales(sample, None)
        start_warps(map(_warp_layer, layers), kernel, draw, sample, scales, generator)
        state = self.layers.state_dict()
        for name, tensor in layers.state_dict().items():
            state[name].copy_(tensor)
        self.unit_frequencies.copy_(
            draw_frequencies(kernel, n_frequencies, n_inputs, generator, draw)
        )
        self.started.fill_(True)

    def condition(self, length_scales: Float[Tensor, "*B 1 L"]) -> Factors:
        """Return the tensors that features are computed from.

        Args:
            length_scales: Length-scales of the warped inputs: one for all of them, or one for each.
        """
        warps = tuple(_warp_layer(layer).condition()[0] for layer in self.layers)
        return Factors(warps, self.unit_frequencies / length_scales, OutputMap(), noise=None)

    def gps(self) -> Iterator[PseudoGP]:
        """Yield the GPs of all warps, from the inputs up."""
        for layer in self.layers:
            yield from _warp_layer(layer).gps()

    def whitened_targets(self) -> Float64[Tensor, "*B G K Q"]:
        """Return ε, the whitened pseudo-targets of all GPs; a priori they are standard normal."""
        return torch.stack([gp.pseudo_targets for gp in self.gps()], dim=-3)

    @torch.no_grad()
    def set_whitened_targets(self, values: Float[Tensor, "*B G K Q"]) -> None:
        """Set ε, the whitened pseudo-targets of all GPs."""
        for gp, value in zip(self.gps(), values.unbind(-3), strict=True):
            gp.pseudo_targets.copy_(value)


def _warp_layer(module: nn.Module) -> WarpLayer:
    return cast(WarpLayer, module)
