"""The systems of the paper, literally: with its parametrisation, its starts and its settings.

What this package does otherwise, and why, is in the documentation; here every step is as it was
published, so that published numbers can be checked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor, nn

from sswim.base.devices import resolve_device
from sswim.lab.peers.protocol import Gaussian
from sswim.lab.peers.published_features import (
    Kernel,
    SpectralProcess,
    TwoSpectra,
    start_length_scales,
)
from sswim.lab.peers.scales import Scales
from sswim.rows.measure import Measure

TOP_PRECISIONS, WARP_PRECISIONS = (0.5, 1.5), (0.1, 1.0)
"""Of the weights and of the noise, at the start."""
PSEUDO_SPREAD = math.sqrt(10)
"""Of the pseudo-targets, around one and zero."""
MARGIN = 0.2
"""Part of the range of the inputs, beyond which pseudo-inputs start on each side."""
PREDICTED_ROWS = 8192
"""At a time."""

N_COMPONENTS = {"supercond": 1024, "protein": 1024, "song": 256, "buzz": 128}
"""Where not 512."""
LEARNING_RATES = {"abalone": 0.03, "creep": 0.03, "ailerons": 0.003}
"""Of the sets that have the RBF kernel, and Adam with its own betas."""
SPREADS = {
    "elevators": ((0.1, 1.0), (0.001, 0.1)),
    "airfoil": ((1.0, 1.0), (0.1, 0.1)),
    "concrete": ((1.0, 1.0), (0.001, 10.0)),
    "parkinsons": ((1.0, 10.0), (0.1, 10.0)),
    "bikeshare": ((0.01, 0.1), (0.001, 0.1)),
    "supercond": ((0.1, 0.1), (0.1, 0.1)),
    "protein": ((10.0, 1.0), (1.0, 1.0)),
    "song": ((0.005, 10.0), (0.005, 10.0)),
    "abalone": ((0.001, 0.1), (0.001, 0.01)),
    "creep": ((0.01, 3.0), (0.005, 1.0)),
    "ailerons": ((0.01, 1.0), (0.0001, 1.0)),
}
"""p and t of a data set, set by hand: of one layer, and of two and more."""
OTHER_SPREADS = (0.005, 1.0)


class PseudoFunction(nn.Module):
    """g or h: a process conditioned on pseudo-data, whose variance includes its noise."""

    def __init__(
        self,
        process: SpectralProcess,
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
        self.process = process
        self.pseudo_inputs = nn.Parameter(low - MARGIN * width + (1 + 2 * MARGIN) * width * uniform)
        self.pseudo_targets = nn.Parameter(mean + PSEUDO_SPREAD * normal)

    def forward(self, measure: Measure) -> tuple[Float64[Tensor, "N D"], Float64[Tensor, "N 1"]]:
        """Mean and variance at a measure."""
        pseudo = self.process.features(Measure(self.pseudo_inputs))
        weights = self.process.condition(pseudo, self.pseudo_targets)
        mean, variance = weights.predict(self.process.features(measure))
        return mean, variance[:, None]


class PublishedWarp(nn.Module):
    """One layer: the measure of g(x) ⊙ x + h(x)."""

    def __init__(self, multiplies: PseudoFunction, adds: PseudoFunction) -> None:
        super().__init__()
        self.multiplies, self.adds = multiplies, adds

    def forward(self, measure: Measure) -> Measure:
        """m' = ĝ ⊙ m + ĥ,    v' = m²·v_g + v_h + v·(v_g + ĝ²)."""
        (g, g_variance), (h, h_variance) = self.multiplies(measure), self.adds(measure)
        variance = measure.mean.square() * g_variance + h_variance
        if measure.variance is not None:
            variance = variance + measure.variance * (g_variance + g.square())
        return Measure(g * measure.mean + h, variance)


class PublishedModel(nn.Module):
    """Warps and the process above them."""

    def __init__(self, warps: list[PublishedWarp], top: SpectralProcess) -> None:
        super().__init__()
        self.warps, self.top = nn.ModuleList(warps), top

    def warp(self, inputs: Float64[Tensor, "N D"]) -> Measure:
        """The measure after the last warp."""
        measure = Measure(inputs)
        for layer in self.warps:
            measure = layer(measure)
        return measure

    def features(self, inputs: Float64[Tensor, "N D"]) -> Float64[Tensor, "N F"]:
        """What the process above sees of inputs."""
        return self.top.features(self.warp(inputs))


@dataclass(frozen=True)
class FittedPublished:
    """A model, and the rows it is conditioned on."""

    model: PublishedModel
    scales: Scales
    inputs: Float64[Tensor, "N D"]
    targets: Float64[Tensor, "N 1"]

    @torch.no_grad()
    def predict(self, x: Float64[np.ndarray, "M D"]) -> Gaussian:
        """The densities of the targets of rows."""
        weights = self.model.top.condition(self.model.features(self.inputs), self.targets)
        rows = self.scales.inputs(x).split(PREDICTED_ROWS)
        predictions = [weights.predict(self.model.features(some)) for some in rows]
        mean = torch.cat([mean[:, 0] for mean, _ in predictions])
        variance = torch.cat([variance for _, variance in predictions])
        return Gaussian(*self.scales.original(mean, variance))

    @torch.no_grad()
    def warp(
        self, x: Float64[np.ndarray, "M D"]
    ) -> tuple[Float64[np.ndarray, "M D"], Float64[np.ndarray, "M D"]]:
        """Mean and variance after the last warp, in units of the standardised inputs."""
        measure = self.model.warp(self.scales.inputs(x))
        variance = torch.zeros_like(measure.mean) if measure.variance is None else measure.variance
        return measure.mean.cpu().numpy(), variance.cpu().numpy()

    def pseudo_inputs(self) -> list[Float64[np.ndarray, "K D"]]:
        """Of g and h of every layer, in units of the standardised inputs."""
        return [
            function.pseudo_inputs.detach().cpu().numpy().copy()
            for function in self.model.modules()
            if isinstance(function, PseudoFunction)
        ]


Callback = Callable[[int, FittedPublished], object]
"""Called with the number of every step, and the model as it is after it."""


@dataclass(frozen=True)
class PublishedSSWIM:
    """Sparse spectrum warped input measures with the published settings; depth 0 is RFFS."""

    depth: int = 1
    n_components: int | None = None
    """Of every process; None for what was published."""
    n_pseudo: int = 10_000
    kernel: Kernel = "matern32"
    warp_spread: float = OTHER_SPREADS[0]
    """p: length-scales of warps start at ½·range·√(D/p)."""
    top_spread: float = OTHER_SPREADS[1]
    """t: length-scales of the process above start at that value of the warped inputs, over t."""
    steps: int = 150
    learning_rate: float = 0.05
    betas: tuple[float, float] = (0.1, 0.1)
    two_spectra: bool = False
    """Features of two sets of frequencies above, RFFNS."""
    libraries: tuple[str, ...] = ("torch",)
    max_rows: int | None = None

    def tailored(self, name: str) -> PublishedSSWIM:
        """With the settings that were published for a data set."""
        changes: dict[str, Any] = {"n_components": self.n_components or N_COMPONENTS.get(name)}
        if name in LEARNING_RATES:
            changes |= {
                "kernel": "rbf",
                "learning_rate": LEARNING_RATES[name],
                "betas": (0.9, 0.999),
            }
        if self.depth > 0:
            one, more = SPREADS.get(name, (OTHER_SPREADS, OTHER_SPREADS))
            warp_spread, top_spread = one if self.depth == 1 else more
            changes |= {"warp_spread": warp_spread, "top_spread": top_spread}
        return replace(self, **changes)

    def settings(self) -> Mapping[str, Any]:
        """All but the libraries."""
        return {
            "depth": self.depth,
            "features": self._n_components,
            "pseudo": self.n_pseudo,
            "kernel": self.kernel,
            "p": self.warp_spread,
            "t": self.top_spread,
            "steps": self.steps,
            "learning_rate": self.learning_rate,
            "betas": self.betas,
            "two_spectra": self.two_spectra,
        }

    def device(self, wanted: str) -> str:
        """Any that PyTorch has."""
        return str(resolve_device(wanted))

    def fit(
        self,
        x: Float64[np.ndarray, "N D"],
        y: Float64[np.ndarray, " N"],
        seed: int,
        device: str,
        callback: Callback | None = None,
    ) -> FittedPublished:
        """Maximise the evidence, and keep the last step whatever came of it."""
        scales = Scales.of(x, y, self.device(device), torch.float64)
        generator = torch.Generator().manual_seed(seed)
        inputs, targets = scales.inputs(x), scales.targets(y)[:, None]
        model = self.start(inputs, generator)
        fitted = FittedPublished(model, scales, inputs, targets)
        optimiser = torch.optim.Adam(
            model.parameters(), lr=self.learning_rate, betas=self.betas, fused=True
        )
        for step in range(1, self.steps + 1):
            optimiser.zero_grad()
            loss = model.top.negative_log_evidence(model.features(inputs), targets)
            loss.backward()
            optimiser.step()
            if callback is not None:
                callback(step, fitted)
        return fitted

    @torch.no_grad()
    def start(self, inputs: Float64[Tensor, "N D"], generator: torch.Generator) -> PublishedModel:
        """A model before training; what a layer starts from are the inputs as they reach it.

        Args:
            inputs: Standardised, on the device of the model.
            generator: A generator on the CPU, so that every device sees the same draw.
        """
        measure, warps = Measure(inputs), []
        for _ in range(self.depth):
            functions = [
                PseudoFunction(
                    self._process(
                        SpectralProcess,
                        start_length_scales(measure.mean, self.warp_spread),
                        WARP_PRECISIONS,
                        generator,
                    ),
                    measure.mean,
                    self.n_pseudo,
                    mean,
                    generator,
                )
                for mean in (1.0, 0.0)
            ]
            warps.append(PublishedWarp(*functions).to(inputs.device))
            measure = warps[-1](measure)
        length_scales = start_length_scales(measure.mean, self.warp_spread) / self.top_spread
        kind = TwoSpectra if self.two_spectra else SpectralProcess
        top = self._process(kind, length_scales, TOP_PRECISIONS, generator)
        return PublishedModel(warps, top.to(inputs.device))

    def _process(
        self,
        kind: type[SpectralProcess],
        length_scales: Float64[Tensor, " D"],
        precisions: tuple[float, float],
        generator: torch.Generator,
    ) -> SpectralProcess:
        n_frequencies = self._n_components // 2
        return kind(self.kernel, n_frequencies, length_scales.cpu(), *precisions, generator)

    @property
    def _n_components(self) -> int:
        return 512 if self.n_components is None else self.n_components


RFFS = PublishedSSWIM(depth=0, warp_spread=1.0, top_spread=1.0)
"""The same regression without warps."""
RFFNS = replace(RFFS, two_spectra=True)
"""And with a nonstationary kernel instead."""
