"""The model of the paper, literally: warps, and the GP above them."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float64
from torch import Tensor, nn

from sswim.rows.rows import Measure
from sswim_lab.peers.published_features import SpectralGP

PSEUDO_SPREAD = math.sqrt(10)
"""Standard deviation of the pseudo-targets at the start, around one for g and zero for h."""
MARGIN = 0.2
"""Pseudo-inputs start up to this fraction of the inputs' range beyond it, on each side."""


class PseudoFunction(nn.Module):
    """A GP conditioned on pseudo-data, g or h of a warp; its variance includes its noise."""

    def __init__(
        self,
        gp: SpectralGP,
        inputs: Float64[Tensor, "N D"],
        n_pseudo: int,
        mean: float,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        low, high = inputs.amin(0).cpu(), inputs.amax(0).cpu()
        width = high - low
        shape = (n_pseudo, inputs.shape[1])
        uniform = torch.rand(*shape, generator=generator, dtype=torch.float64)
        normal = torch.randn(*shape, generator=generator, dtype=torch.float64)
        self.gp = gp
        self.pseudo_inputs = nn.Parameter(low - MARGIN * width + (1 + 2 * MARGIN) * width * uniform)
        self.pseudo_targets = nn.Parameter(mean + PSEUDO_SPREAD * normal)

    def forward(self, measure: Measure) -> tuple[Float64[Tensor, "N D"], Float64[Tensor, "N 1"]]:
        """Return the mean and variance at a measure."""
        pseudo = self.gp.features(Measure(self.pseudo_inputs))
        weights = self.gp.condition(pseudo, self.pseudo_targets)
        mean, variance = weights.predict(self.gp.features(measure))
        return mean, variance[:, None]


class PublishedWarp(nn.Module):
    """One layer: the measure of g(x) ⊙ x + h(x)."""

    def __init__(self, multiplier: PseudoFunction, shift: PseudoFunction) -> None:
        super().__init__()
        self.multiplier, self.shift = multiplier, shift

    def forward(self, measure: Measure) -> Measure:
        """Return m' = ĝ ⊙ m + ĥ and v' = m²·v_g + v_h + v·(v_g + ĝ²)."""
        (g, g_variance), (h, h_variance) = self.multiplier(measure), self.shift(measure)
        variance = measure.mean.square() * g_variance + h_variance
        if measure.variance is not None:
            variance = variance + measure.variance * (g_variance + g.square())
        return Measure(g * measure.mean + h, variance)


class PublishedModel(nn.Module):
    """Warps, and the GP above them."""

    def __init__(self, warps: list[PublishedWarp], top: SpectralGP) -> None:
        super().__init__()
        self.warps, self.top = nn.ModuleList(warps), top

    def warp(self, inputs: Float64[Tensor, "N D"]) -> Measure:
        """Return the measure after the last warp."""
        measure = Measure(inputs)
        for layer in self.warps:
            measure = layer(measure)
        return measure

    def features(self, inputs: Float64[Tensor, "N D"]) -> Float64[Tensor, "N F"]:
        """Return the features of the GP above the warps."""
        return self.top.features(self.warp(inputs))

    def pseudo_inputs(self) -> list[Float64[Tensor, "K D"]]:
        """Return the pseudo-inputs of g and h of every layer."""
        return [
            function.pseudo_inputs
            for function in self.modules()
            if isinstance(function, PseudoFunction)
        ]
