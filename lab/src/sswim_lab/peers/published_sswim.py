"""The methods of the paper, literally: with its parametrisation, its starts and its settings.

The documentation says what this package does differently, and why. Here every step is as it was
published, so that the published numbers can be checked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor

from sswim.rows.rows import Measure, marginal_variance
from sswim_lab.peers.protocol import Gaussian
from sswim_lab.peers.published_features import (
    KernelName,
    SpectralGP,
    TwoSpectraGP,
    start_length_scales,
)
from sswim_lab.peers.published_model import PseudoFunction, PublishedModel, PublishedWarp
from sswim_lab.peers.standardised_rows import StandardisedRows, standardise
from sswim_lab.peers.torch_method import TorchMethod

TOP_PRECISIONS, WARP_PRECISIONS = (0.5, 1.5), (0.1, 1.0)
"""Precisions of the weights and of the noise at the start."""
PREDICTED_ROWS = 8192
"""Number of rows in a chunk of predictions."""

N_COMPONENTS = {"supercond": 1024, "protein": 1024, "song": 256, "buzz": 128}
"""Numbers of features of the data sets where it is not 512."""
LEARNING_RATES = {"abalone": 0.03, "creep": 0.03, "ailerons": 0.003}
"""Learning rates of the data sets with the RBF kernel and the default betas of Adam."""
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
"""p and t of a data set, set by hand, for one layer and for two and more."""
OTHER_SPREADS = (0.005, 1.0)
"""p and t of every other data set."""


@dataclass(frozen=True)
class FittedPublished:
    """A model, and the rows that it is conditioned on."""

    model: PublishedModel
    rows: StandardisedRows

    @torch.no_grad()
    def predict(self, x: Float64[np.ndarray, "M D"]) -> Gaussian:
        """Return the predictive densities at rows."""
        known = self.model.features(self.rows.x)
        weights = self.model.top.condition(known, self.rows.y[:, None])
        chunks = self.rows.inputs(x).split(PREDICTED_ROWS)
        predictions = [weights.predict(self.model.features(chunk)) for chunk in chunks]
        mean = torch.cat([mean[:, 0] for mean, _ in predictions])
        variance = torch.cat([variance for _, variance in predictions])
        return self.rows.gaussian(mean, variance)

    @torch.no_grad()
    def warp(
        self, x: Float64[np.ndarray, "M D"]
    ) -> tuple[Float64[np.ndarray, "M D"], Float64[np.ndarray, "M D"]]:
        """Return the mean and variance after the last warp, in the units of the inputs."""
        measure = self.rows.scaling.original_warps(self.model.warp(self.rows.inputs(x)))
        variance = marginal_variance(measure)
        if variance is None:
            variance = torch.zeros_like(measure.mean)
        return measure.mean.cpu().numpy(), variance.cpu().numpy()

    @torch.no_grad()
    def pseudo_inputs(self) -> list[Float64[np.ndarray, "K D"]]:
        """Return the pseudo-inputs of g and h of every layer, in the units of the inputs."""
        scaling = self.rows.scaling
        return [
            scaling.original_warps(Measure(inputs)).mean.cpu().numpy()
            for inputs in self.model.pseudo_inputs()
        ]


Callback = Callable[[int, FittedPublished], object]
"""Called after every step, with the number of the step and the model."""


@dataclass(frozen=True)
class PublishedSSWIM(TorchMethod):
    """Sparse spectrum warped input measures with the published settings; depth 0 is RFFS."""

    depth: int = 1
    """Number of warps."""
    n_components: int | None = None
    """Number of features of every GP; None for the published number."""
    n_pseudo: int = 10_000
    """Number of pseudo-points of g, and of h."""
    kernel: KernelName = "matern32"
    warp_spread: float = OTHER_SPREADS[0]
    """p: length-scales of warps start at ½·range·√(D/p)."""
    top_spread: float = OTHER_SPREADS[1]
    """t: length-scales of the GP above start at ½·range·√(D/p)/t, by the range of warped inputs."""
    steps: int = 150
    learning_rate: float = 0.05
    betas: tuple[float, float] = (0.1, 0.1)
    two_spectra: bool = False
    """Whether the GP above has two sets of frequencies, as RFFNS does."""

    def for_data_set(self, name: str) -> PublishedSSWIM:
        """Return the method with the settings that were published for a data set."""
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
        """Return every field, by the names that results files have."""
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

    def fit(
        self,
        x: Float64[np.ndarray, "N D"],
        y: Float64[np.ndarray, " N"],
        seed: int,
        device: str,
        callback: Callback | None = None,
    ) -> FittedPublished:
        """Maximise the evidence, and keep the parameters of the last step."""
        rows = standardise(x, y, self.device(device))
        model = self.start(rows.x, torch.Generator().manual_seed(seed))
        fitted = FittedPublished(model, rows)
        optimiser = torch.optim.Adam(
            model.parameters(), lr=self.learning_rate, betas=self.betas, fused=True
        )
        for step in range(1, self.steps + 1):
            optimiser.zero_grad()
            loss = model.top.negative_log_evidence(model.features(rows.x), rows.y[:, None])
            loss.backward()
            optimiser.step()
            if callback is not None:
                callback(step, fitted)
        return fitted

    @torch.no_grad()
    def start(self, inputs: Float64[Tensor, "N D"], generator: torch.Generator) -> PublishedModel:
        """Return a model before training; a layer starts from the inputs as they reach it.

        Args:
            inputs: Standardised inputs, on the device of the model.
            generator: A generator on the CPU, so that every device gets the same draws.
        """
        measure, warps = Measure(inputs), []
        for _ in range(self.depth):
            functions = [
                PseudoFunction(
                    self._spectral_gp(
                        SpectralGP,
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
        gp_class = TwoSpectraGP if self.two_spectra else SpectralGP
        top = self._spectral_gp(gp_class, length_scales, TOP_PRECISIONS, generator)
        return PublishedModel(warps, top.to(inputs.device))

    def _spectral_gp(
        self,
        gp_class: type[SpectralGP],
        length_scales: Float64[Tensor, " D"],
        precisions: tuple[float, float],
        generator: torch.Generator,
    ) -> SpectralGP:
        n_frequencies = self._n_components // 2
        return gp_class(self.kernel, n_frequencies, length_scales.cpu(), precisions, generator)

    @property
    def _n_components(self) -> int:
        return 512 if self.n_components is None else self.n_components


RFFS = PublishedSSWIM(depth=0, warp_spread=1.0, top_spread=1.0)
"""Bayesian linear regression on random Fourier features, without warps."""
RFFNS = replace(RFFS, two_spectra=True)
"""RFFS with a nonstationary kernel."""
