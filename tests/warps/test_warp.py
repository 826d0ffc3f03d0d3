"""Input warps of every form of matrix, against drawn functions and derivatives."""

from __future__ import annotations

import math
from itertools import product
from typing import Literal

import pytest
import torch
from builders.models import assert_moments, move_gp, normal, observations
from torch import Tensor

from sswim.kernels import expected_features
from sswim.members.linear_regression import posterior, statistics
from sswim.rows import Measure
from sswim.warps import (
    SPREAD,
    PseudoGP,
    PseudoPrior,
    WarpFactors,
    WarpLayer,
    project,
    pseudo_gp_moments,
)
from sswim.warps.warp import warp

D, Q, N = 3, 2, 12
Matrix = Literal["diagonal", "projected", "full"]
MATRICES: tuple[Matrix, ...] = ("diagonal", "projected", "full")
of_all_matrices = pytest.mark.parametrize("matrix", MATRICES)
of_all_forms = pytest.mark.parametrize(("matrix", "joint"), [*product(MATRICES, (False, True))])


@torch.no_grad()
def bent_layer(
    generator: torch.Generator,
    matrix: Matrix,
    joint: bool = False,
    prior: PseudoPrior = "evidence",
    *,
    deeper: bool = False,
) -> WarpLayer:
    """Make a layer with random parameters; deeper layers keep the number of inputs."""
    n_inputs, n_outputs = (Q, None) if deeper else (D, None if matrix == "diagonal" else Q)
    is_full = matrix == "full"
    layer = WarpLayer(n_inputs, 10, 7, prior, joint, is_full=is_full, n_outputs=n_outputs)
    for gp in layer.gps():
        move_gp(gp, generator)
        gp.log_signal.add_(0.3 * normal(generator, *gp.log_signal.shape))
    if layer.projection is not None:
        layer.projection.start(normal(generator, Q, D))
        for parameter in layer.projection.parameters():
            parameter.copy_(0.3 * normal(generator, *parameter.shape))
    return layer


def projection_of(layer: WarpLayer) -> Tensor:
    """Write P out."""
    if layer.projection is None:
        return torch.eye(D, dtype=torch.float64)
    parts = layer.projection
    return (parts.directions + SPREAD * parts.deviations / D**0.5) @ parts.log_scales.exp().diag()


def draw_functions(gp: PseudoGP, points: Tensor, n: int, generator: torch.Generator) -> Tensor:
    """Draw all outputs of a GP's functions at points, by weights given the pseudo-data."""
    frequencies = gp.spectrum.frequencies()
    pseudo = expected_features(frequencies, Measure(gp.pseudo_inputs))
    n_outputs = gp.pseudo_targets.shape[-1] // len(gp.log_signal)
    signal = gp.log_signal.exp().repeat_interleave(n_outputs)
    ridge = (gp.log_noise - gp.log_signal[0]).exp()
    weights = posterior(
        statistics(observations(pseudo, gp.pseudo_targets)), ridge * signal, signal
    ).sample_weights(n, generator)
    return expected_features(frequencies, Measure(points)) @ weights


def mean_warp(factors: WarpFactors, points: Tensor) -> Tensor:
    return warp(factors, Measure(points)).mean


@of_all_forms
@torch.no_grad()
def test_first_layer_against_sampled_matrices(
    matrix: Matrix, joint: bool, generator: torch.Generator
) -> None:
    """Compared with G(x) x + h(x) of drawn matrices, written out."""
    layer = bent_layer(generator, matrix, joint)
    x = normal(generator, 4, D)
    projection = projection_of(layer)
    seen = x if matrix == "full" else x @ projection.T
    n = 50_000
    values = torch.cat([draw_functions(gp, seen, n, generator) for gp in layer.gps()], dim=-1)
    functions = values.unflatten(-1, (-1, len(projection)))  # (n, 4, functions, outputs)
    if matrix == "full":
        drawn = projection + functions[..., :-1, :].mT
    else:
        drawn = (1 + functions[..., 0, :])[..., None] * projection
    draws = torch.einsum("...qd,...d->...q", drawn, x) + functions[..., -1, :]
    assert_moments(warp(layer.factors()[0], Measure(x)), draws)
    for point in range(4):
        correlations = torch.corrcoef(draws[:, point].mT) - torch.eye(len(projection))
        assert correlations.abs().max() < 5 / math.sqrt(n)  # coordinates are independent


@pytest.mark.parametrize("matrix", ["diagonal", "full"])
@pytest.mark.parametrize("joint", [False, True])
@torch.no_grad()
def test_deeper_layers_against_draws_under_the_same_independence(
    matrix: Matrix, joint: bool, generator: torch.Generator
) -> None:
    factors = bent_layer(generator, matrix, joint, deeper=True).factors()[0]
    spread = 0.3 * normal(generator, N, Q).square()
    measure = Measure(normal(generator, N, Q), spread)
    moments = [pseudo_gp_moments(gp, measure) for gp in factors.gps]
    means = torch.cat([part.mean for part in moments], dim=-1).unflatten(-1, (-1, Q))
    variances = torch.cat([part.variance for part in moments], dim=-1)
    n = 50_000
    noise = normal(generator, n, *means.shape)
    functions = means + variances.sqrt()[..., None] * noise  # (n, N, functions, Q)
    x = measure.mean + spread.sqrt() * normal(generator, n, N, Q)
    if matrix == "full":
        draws = x + torch.einsum("...dq,...d->...q", functions[..., :-1, :], x)
    else:
        draws = (1 + functions[..., 0, :]) * x
    assert_moments(warp(factors, measure), draws + functions[..., -1, :])


@of_all_matrices
@torch.no_grad()
def test_slopes_are_the_derivatives_of_the_mean(matrix: Matrix, generator: torch.Generator) -> None:
    """JSJᵀ of a tiny covariance, against derivatives by autograd; also without certain inputs."""
    factors = bent_layer(generator, matrix).factors()[0].map(Tensor.detach)
    x = normal(generator, N, D)
    covariance = 1e-14 * torch.eye(D, dtype=torch.float64).expand(N, D, D)
    passed = warp(factors, Measure(x, input_variance=covariance))
    assert passed.input_variance is not None
    with torch.enable_grad():
        for row in range(N):
            jacobian = torch.autograd.functional.jacobian(
                lambda point: mean_warp(factors, point[None])[0], x[row]
            )
            expected = jacobian @ covariance[row] @ jacobian.mT
            assert torch.allclose(passed.input_variance[row], expected, rtol=1e-6, atol=1e-20)
    certain = warp(factors, Measure(x)).tensors()
    for ours, theirs in zip(passed.tensors(), certain, strict=False):
        assert torch.allclose(ours, theirs, atol=1e-10)


@of_all_forms
@pytest.mark.parametrize("prior", ["whitened", "evidence"])
@torch.no_grad()
def test_without_pseudo_targets_a_warp_is_its_projection(
    matrix: Matrix, joint: bool, prior: PseudoPrior, generator: torch.Generator
) -> None:
    layer = bent_layer(generator, matrix, joint, prior)
    for gp in layer.gps():
        gp.pseudo_targets.zero_()
    x = normal(generator, N, D)
    assert torch.allclose(mean_warp(layer.factors()[0], x), x @ projection_of(layer).T)


@torch.no_grad()
def test_a_projection_passes_a_diagonal_covariance_on_exactly(generator: torch.Generator) -> None:
    projection, x = normal(generator, Q, D), normal(generator, N, D)
    variance = normal(generator, N, D).square()
    passed = project(projection, Measure(x, input_variance=variance))
    expected = torch.einsum("qd,nd,rd->nqr", projection, variance, projection)
    assert passed.input_variance is not None
    assert torch.allclose(passed.input_variance, expected)


@of_all_forms
def test_gradients_of_all_moments(matrix: Matrix, joint: bool, generator: torch.Generator) -> None:
    layer = bent_layer(generator, matrix, joint)
    x = normal(generator, 3, D)
    variance = 0.1 * normal(generator, 3, D).square()

    def run() -> tuple[Tensor, ...]:
        factors, _ = layer.factors()
        measures = Measure(x), Measure(x, input_variance=variance)
        return tuple(part for measure in measures for part in warp(factors, measure).tensors())

    def moments(*values: Tensor) -> tuple[Tensor, ...]:
        return torch.func.functional_call(layer, dict(zip(names, values, strict=True)), ())

    layer.forward = run
    names, parameters = zip(*layer.named_parameters(), strict=True)
    values = [parameter.detach().clone().requires_grad_() for parameter in parameters]
    assert torch.autograd.gradcheck(moments, values, atol=1e-6, rtol=1e-4)


@of_all_matrices
@torch.no_grad()
def test_float32_moments_agree_with_float64(matrix: Matrix, generator: torch.Generator) -> None:
    factors = bent_layer(generator, matrix).factors()[0]
    x = normal(generator, 50, D)
    measure = Measure(x, input_variance=0.1 * x.square())
    double = warp(factors, measure)
    single = warp(factors.to(dtype=torch.float32), measure.to(dtype=torch.float32))
    for ours, theirs in zip(single.tensors(), double.tensors(), strict=True):
        assert ours.dtype == torch.float32
        assert torch.allclose(ours.double(), theirs, rtol=1e-4, atol=1e-4)
