"""The model: a stack of warps under a sparse spectrum GP, its noise and its output warp."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import cast

import torch
from jaxtyping import Float, Float64
from torch import Tensor, nn

from sswim.architecture import Architecture
from sswim.features import expected_features, expected_quadratic
from sswim.linear import Observations
from sswim.measure import Measure, full_covariance
from sswim.noise import NoiseFactors, NoiseField, log_noise_ratio
from sswim.output_warp import OutputMap, OutputWarp
from sswim.record import Record
from sswim.rows import Rows
from sswim.scores import InputScores, Scores
from sswim.spectral import Spectrum, draw_frequencies
from sswim.trend import LinearTerms, Trend, expected_joint_quadratic, linear_features
from sswim.warp import WarpFactors, WarpLayer, warp


@dataclass(frozen=True)
class Factors(Record):
    """All that rows need of a model: small tensors, whatever the number of rows."""

    warps: tuple[WarpFactors, ...]
    frequencies: Float[Tensor, "*B M D"]
    """Ω of the top level."""
    output: OutputMap
    """T"""
    noise: NoiseFactors | None
    """Of log σ²(x)/σ²; None if the noise is constant."""
    scores: Scores | None = None
    """Of the inputs; None if they are seen as they are."""
    trend: LinearTerms | None = None
    """Of the linear features, if there are any."""


@dataclass(frozen=True)
class NegativeLogPrior(Record):
    """Of the parameters that have a prior."""

    warps: Float64[Tensor, "*B"]
    """Of all pseudo-targets."""
    density: Float64[Tensor, "*B"]
    """Of the output warp and the noise."""


class SSWIM(nn.Module):
    """The parameters: of the warps, and of the sparse spectrum GP on the warped inputs.

    Parameters are in float64. Start a new model with :func:`start`.

    A batch of members has their axes *B in front of every parameter, and so of all that is made of
    them; see :func:`sswim.members.stack`.
    """

    calibration: Tensor

    def __init__(
        self,
        architecture: Architecture,
        n_inputs: int,
        n_targets: int,
        batch: tuple[int, ...] = (),
    ) -> None:
        super().__init__()
        self.architecture = architecture
        self.batch = batch
        self.layers = nn.ModuleList(
            WarpLayer(
                n_inputs,
                architecture.warp_frequencies,
                architecture.n_pseudo,
                architecture.pseudo_prior,
                architecture.warps == "joint",
                batch,
            )
            for _ in range(architecture.depth)
        )
        self.spectrum = Spectrum(architecture.n_frequencies, n_inputs, batch)
        self.log_signal = nn.Parameter(torch.zeros(*batch, n_targets, dtype=torch.float64))
        self.log_noise = nn.Parameter(
            torch.full((*batch, n_targets), math.log(0.1), dtype=torch.float64)
        )
        # c: what the noise of observations turned out to be, on rows that training did not see.
        self.register_buffer("calibration", torch.zeros(*batch, n_targets, dtype=torch.float64))
        self.output_warp = (
            OutputWarp(architecture.output_warp, architecture.n_output_terms, n_targets, batch)
            if architecture.output_warp != "none"
            else None
        )
        self.noise_field = (
            NoiseField(n_inputs, architecture.n_noise_frequencies, n_targets, batch)
            if architecture.noise == "input-dependent"
            else None
        )
        self.scores = InputScores(n_inputs, batch) if architecture.inputs == "scored" else None
        self.trend = Trend(n_inputs, batch) if architecture.linear else None

    @property
    def n_inputs(self) -> int:
        """D"""
        return self.spectrum.unit_frequencies.shape[-1]

    @property
    def n_targets(self) -> int:
        """T"""
        return self.log_noise.shape[-1]

    def warp_layers(self) -> list[WarpLayer]:
        """The warps, from the inputs up."""
        return [cast(WarpLayer, layer) for layer in self.layers]

    def signal(self) -> Float64[Tensor, "*B T"]:
        """s², the prior variance of the top-level weights, for every target."""
        return self.log_signal.exp()

    def noise(self) -> Float64[Tensor, "*B T"]:
        """σ², the variance of the noise, for every target; that of σ²(x) where η(x) = 0."""
        return self.log_noise.exp()

    def condition(self) -> tuple[Factors, NegativeLogPrior]:
        """The factors that rows need, and the negative log prior."""
        warps_prior = torch.zeros(self.batch, dtype=torch.float64, device=self.log_noise.device)
        density_prior = warps_prior
        warps: list[WarpFactors] = []
        for layer in self.warp_layers():
            warp_factors, prior = layer.condition()
            warps.append(warp_factors)
            warps_prior = warps_prior + prior
        output, noise = OutputMap(), None
        if self.output_warp is not None:
            output, prior = self.output_warp.condition()
            density_prior = density_prior + prior
        if self.noise_field is not None:
            noise, prior = self.noise_field.condition()
            density_prior = density_prior + prior
        factors = Factors(
            tuple(warps),
            self.spectrum.frequencies(),
            output,
            noise,
            None if self.scores is None else self.scores.condition(),
            None if self.trend is None else self.trend.condition(),
        )
        return factors, NegativeLogPrior(warps_prior, density_prior)


def start(
    architecture: Architecture,
    sample: Float[Tensor, "S D"],
    n_targets: int,
    generator: torch.Generator,
    length_scale: float | None = None,
    signal: Float[Tensor, " T"] | None = None,
    noise: Float[Tensor, " T"] | None = None,
) -> SSWIM:
    """A model before training, on the CPU: every warp the identity.

    Args:
        architecture: Its shape.
        sample: Some rows of the inputs (all, or a random choice), for the starts of length-scales
            and pseudo-inputs, and for what is fixed then: normal scores, and the range of linear
            features. Inputs and targets should be standardised.
        n_targets: T.
        generator: A generator on the CPU; it alone decides every draw.
        length_scale: Where all length-scales start, in units of each input's spread; √D by
            default, because distances between standardised rows grow like √D and shorter
            length-scales would make all rows strangers to each other. A function that oscillates
            many times over the rows wants a shorter start.
        signal: Where s² starts, for every target; one by default.
        noise: Where σ² starts, for every target; a tenth by default.
    """
    raw = sample = sample.detach().to("cpu", torch.float64)
    model = SSWIM(architecture, sample.shape[1], n_targets)
    if model.scores is not None:
        model.scores.start(raw)
        sample = model.scores.condition().forward(Measure(raw)).mean
    if model.trend is not None:
        model.trend.start(raw)
    with torch.no_grad():
        for parameter, value in ((model.log_signal, signal), (model.log_noise, noise)):
            if value is not None:
                parameter.copy_(value.log())
    spread = _spread(sample)
    length_scales = start_length_scales(sample, length_scale)
    kernel, draw = architecture.kernel, architecture.draw
    for layer in model.warp_layers():
        for process in layer.processes():
            process.spectrum.start(kernel, draw, length_scales, generator)
            process.start(sample, spread, generator)
    model.spectrum.start(kernel, draw, length_scales, generator)
    if model.noise_field is not None:
        # The noise sees the raw inputs.
        raw_scales = start_length_scales(raw, length_scale)
        model.noise_field.spectrum.start(kernel, draw, raw_scales, generator)
    return model


def enrich(model: SSWIM, n_more: int, generator: torch.Generator) -> SSWIM:
    """A copy of a trained model with more frequencies at the top, all parameters kept.

    The frequencies are a sample of the kernel that the parameters describe; more of them resolve
    more of that kernel, with an error that falls like M^{-1/2}. Parameters learnt with few fit the
    same kernel with many. So the many need not be paid for at every step of training: they cost
    one conditioning on the rows, after it. The warps are what they were.

    Args:
        model: Not a batch.
        n_more: How many frequencies to add.
        generator: A generator on the CPU, for their draw.
    """
    if model.batch:
        raise ValueError(
            f"A batch of models {model.batch} cannot be enriched; take it apart with unstack first."
        )
    old = model.architecture
    further = draw_frequencies(old.kernel, n_more, model.n_inputs, generator, old.draw)
    architecture = replace(
        old,
        n_frequencies=old.n_frequencies + n_more,
        n_warp_frequencies=old.warp_frequencies,
    )
    device = model.log_noise.device
    richer = SSWIM(architecture, model.n_inputs, model.n_targets).to(device)
    state = model.state_dict()
    frequencies = (model.spectrum.unit_frequencies, further.to(device))
    richer.load_state_dict({**state, "spectrum.unit_frequencies": torch.cat(frequencies)})
    return richer


def start_length_scales(
    sample: Float[Tensor, "S D"], length_scale: float | None
) -> Float64[Tensor, " D"]:
    """Where length-scales start; see :func:`start`."""
    sample = sample.detach().to("cpu", torch.float64)
    return _spread(sample) * (math.sqrt(sample.shape[1]) if length_scale is None else length_scale)


def _spread(sample: Float64[Tensor, "S D"]) -> Float64[Tensor, " D"]:
    spread = sample.std(0, correction=0)
    return torch.where(spread > 0, spread, 1.0)  # a constant column has none


def warped(factors: Factors, inputs: Measure) -> list[Measure]:
    """The measures after each warp in turn, beginning with the inputs themselves.

    A model of scored inputs begins with these, and all measures are in units of the scores.
    """
    n_inputs = factors.frequencies.shape[-1]
    if inputs.mean.shape[-1] != n_inputs:
        raise ValueError(
            f"Rows must have the model's {n_inputs} inputs. Got {inputs.mean.shape[-1]}."
        )
    measures = [inputs if factors.scores is None else factors.scores.forward(inputs)]
    for factors_of_warp in factors.warps:
        measures.append(warp(factors_of_warp.to(dtype=inputs.mean.dtype), measures[-1]))
    return measures


def row_features(factors: Factors, inputs: Measure) -> Float[Tensor, "*B N F"]:
    """Expected top-level features of rows, in the precision of the inputs."""
    return top_features(factors, inputs, warped(factors, inputs)[-1])


def top_features(factors: Factors, inputs: Measure, top: Measure) -> Float[Tensor, "*B N F"]:
    """The same, given the last of the warped measures: Fourier features, and linear ones if any."""
    features = expected_features(factors.frequencies.to(top.mean.dtype), top)
    if factors.trend is None:
        return features
    return torch.cat((features, linear_features(factors.trend, inputs)), dim=-1)


def expected_top_quadratic(
    factors: Factors, inputs: Measure, top: Measure, form: Float[Tensor, "*B F F"]
) -> Float[Tensor, "*B N"]:
    """E[φᵀQφ] of all top-level features over the raw input's uncertainty, for a symmetric Q."""
    if factors.trend is None:
        return expected_quadratic(factors.frequencies, top, form)
    assert inputs.input_variance is not None
    covariance = full_covariance(inputs.mean, inputs.input_variance)
    if factors.scores is not None:
        covariance = factors.scores.slopes(inputs.mean)[..., None] * covariance  # cov(u, x) = SP
    return expected_joint_quadratic(
        factors.frequencies, factors.trend, top, inputs, covariance, form
    )


def log_precision(factors: Factors, inputs: Measure) -> Float64[Tensor, "*B N T"] | None:
    """log w = −η(x), for noise of variance σ²/w; None if it is constant."""
    return None if factors.noise is None else -log_noise_ratio(factors.noise, inputs)


def observe(factors: Factors, rows: Rows) -> Observations:
    """Rows as the regression sees them: warped inputs' features, warped targets, noise."""
    targets, log_slope = factors.output.forward(rows.targets)
    return Observations(
        features=row_features(factors, rows.inputs),
        targets=targets,
        log_slope=log_slope,
        log_precision=log_precision(factors, rows.inputs),
        multiplicity=rows.weight,
        temper=None if factors.noise is None else factors.noise.temper,
    )
