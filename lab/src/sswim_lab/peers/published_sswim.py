"""The methods of the paper, literally: with its parametrisation, its starts and its settings.

The documentation says what this package does differently, and why. Here every step is as it was
published, so that the published numbers can be checked.

Its Bayesian linear regression on Fourier features is in the form with precisions: weights
w ~ N(0, α⁻¹I), noise N(0, β⁻¹), and given rows Φ, y

    A = αI + βΦᵀΦ,    w ~ N(m, A⁻¹),    m = βA⁻¹Φᵀy.

The rest of this package has the same regression in another form
(:mod:`sswim.members.linear_regression`), without the limits that the published parametrisation
puts on what few steps can learn.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor, nn

from sswim.base.cholesky import cholesky
from sswim.kernels.features import expected_features
from sswim.rows import Measure, marginal_variance
from sswim_lab.peers.protocol import Gaussian, StandardisedRows, TorchMethod, standardise

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


KernelName = Literal["matern32", "rbf"]


def positive(raw: Float64[Tensor, "*S"]) -> Float64[Tensor, "*S"]:
    """Return softplus(r)²; a gradient step of fixed size cannot change its order of magnitude."""
    return nn.functional.softplus(raw).square()


def inverse_positive(value: Float64[Tensor, "*S"]) -> Float64[Tensor, "*S"]:
    """Return r = √v + log(1 − e^{−√v}), for which softplus(r)² is v."""
    root = value.sqrt()
    return root + (-(-root).expm1()).log()


@dataclass(frozen=True)
class WeightPosterior:
    """The posterior of the weights given rows."""

    mean: Float64[Tensor, "F Q"]
    """m, one column for every output."""
    factor: Float64[Tensor, "F F"]
    """L with LLᵀ = A, which the outputs share."""
    noise: Float64[Tensor, ""]
    """β⁻¹"""

    def predict(
        self, features: Float64[Tensor, "N F"]
    ) -> tuple[Float64[Tensor, "N Q"], Float64[Tensor, " N"]]:
        """Return the mean φᵀm and the variance φᵀA⁻¹φ + β⁻¹ of observations."""
        whitened = torch.linalg.solve_triangular(self.factor, features.mT, upper=False)
        return features @ self.mean, whitened.square().sum(0) + self.noise


class SpectralGP(nn.Module):
    """A sparse spectrum GP whose kernel is a product of 1-D kernels.

    Its parameters are the length-scales and the precisions of the weights and of the noise.
    """

    unit_frequencies: Tensor

    def __init__(
        self,
        kernel: KernelName,
        n_frequencies: int,
        length_scales: Float64[Tensor, " D"],
        precisions: tuple[float, float],
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        unit = draw_frequencies(kernel, n_frequencies, len(length_scales), generator)
        self.register_buffer("unit_frequencies", unit)
        self.raw_length_scales = nn.Parameter(inverse_positive(length_scales))
        weight_precision, noise_precision = torch.tensor(precisions, dtype=torch.float64)
        self.raw_weight_precision = nn.Parameter(inverse_positive(weight_precision))
        self.raw_noise_precision = nn.Parameter(inverse_positive(noise_precision))

    def features(self, measure: Measure) -> Float64[Tensor, "N F"]:
        """Return the expected features M^{-1/2} exp(−½Ω²v) ⊙ [cos Ωm, sin Ωm]."""
        return expected_features(self.unit_frequencies / positive(self.raw_length_scales), measure)

    def condition(
        self, features: Float64[Tensor, "N F"], targets: Float64[Tensor, "N Q"]
    ) -> WeightPosterior:
        """Return the posterior of the weights given rows."""
        precision = positive(self.raw_noise_precision)  # β
        gram = precision * (features.mT @ features)
        identity = torch.eye(len(gram), dtype=gram.dtype, device=gram.device)
        factor = cholesky(
            gram + positive(self.raw_weight_precision) * identity, name="matrix αI + βΦᵀΦ"
        )
        mean = torch.cholesky_solve(precision * (features.mT @ targets), factor)
        return WeightPosterior(mean, factor, 1 / precision)

    def negative_log_evidence(
        self, features: Float64[Tensor, "N F"], targets: Float64[Tensor, "N 1"]
    ) -> Float64[Tensor, ""]:
        """Return ½(β‖y − Φm‖² + α‖m‖² + log|A| − F log α − N log β + N log 2π)."""
        weights = self.condition(features, targets)
        alpha, beta = positive(self.raw_weight_precision), positive(self.raw_noise_precision)
        error = beta * (targets - features @ weights.mean).square().sum()
        size = alpha * weights.mean.square().sum()
        log_determinant = 2 * weights.factor.diagonal().log().sum()
        n_rows, n_features = features.shape
        volume = n_features * alpha.log() + n_rows * (beta.log() - math.log(2 * math.pi))
        return 0.5 * (error + size + log_determinant - volume)


class TwoSpectraGP(SpectralGP):
    """A GP with two sets of frequencies, whose means and widths are learnt.

    Its kernel is nonstationary: φ(x) = (4M)^{-1/2} [cos Ω₁x + cos Ω₂x, sin Ω₁x + sin Ω₂x]
    """

    other_unit_frequencies: Tensor

    def __init__(
        self,
        kernel: KernelName,
        n_frequencies: int,
        length_scales: Float64[Tensor, " D"],
        precisions: tuple[float, float],
        generator: torch.Generator,
    ) -> None:
        super().__init__(kernel, n_frequencies, length_scales, precisions, generator)
        other = draw_frequencies(kernel, n_frequencies, len(length_scales), generator)
        self.register_buffer("other_unit_frequencies", other)
        self.raw_other_length_scales = nn.Parameter(inverse_positive(length_scales))
        self.means = nn.Parameter(torch.zeros(2, len(length_scales), dtype=torch.float64))

    def features(self, measure: Measure) -> Float64[Tensor, "N F"]:
        """Return half the sum of the features of both sets."""
        first, second = self.means
        one = first + self.unit_frequencies / positive(self.raw_length_scales)
        other = second + self.other_unit_frequencies / positive(self.raw_other_length_scales)
        return 0.5 * (expected_features(one, measure) + expected_features(other, measure))


def draw_frequencies(
    kernel: KernelName, n_frequencies: int, n_inputs: int, generator: torch.Generator
) -> Float64[Tensor, "M D"]:
    """Draw independent coordinates, normal or Student-t with three degrees of freedom.

    The kernel is then a product of 1-D kernels, which for Matérn-3/2 is not the isotropic kernel.
    """
    shape = (n_frequencies, n_inputs)
    normal = torch.randn(*shape, generator=generator, dtype=torch.float64)
    if kernel == "rbf":
        return normal
    chi = torch.randn(3, *shape, generator=generator, dtype=torch.float64).square().sum(0)
    return normal * (3 / chi).sqrt()


def start_length_scales(inputs: Float64[Tensor, "N D"], spread: float) -> Float64[Tensor, " D"]:
    """Return ½·range·√(D/p) of every input; a constant input counts as having the range one."""
    width = inputs.amax(0) - inputs.amin(0)
    width = torch.where(width > 0, width, 1.0)
    return 0.5 * width * math.sqrt(inputs.shape[1] / spread)
