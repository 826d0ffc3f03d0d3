from __future__ import annotations

import math
from functools import partial
from typing import Any

import pytest
import torch
from builders.models import DENSITIES, gradients, relative_error, small_model, small_rows, unchecked
from scipy.stats import multivariate_normal

from sswim.base.record import chunks
from sswim.members import EVIDENCE, LEAVE_ONE_OUT, MAP, SSWIM, Objective, condition
from sswim.members.model import NoiseName, log_precision, row_features
from sswim.members.objective import backward, one_pass, two_passes
from sswim.rows import Measure, Rows
from sswim.warps.output_warp import OutputWarpName
from sswim.warps.pseudo_gp import PseudoPrior
from sswim.warps.warp import WarpMatrix

OBJECTIVES = {"map": MAP, "evidence": EVIDENCE, "leave-one-out": LEAVE_ONE_OUT}
OUTPUT_WARPS: tuple[OutputWarpName, ...] = ("none", "sinh-arcsinh", "tanh")
NOISES: tuple[NoiseName, ...] = ("constant", "input-dependent")


def value_and_gradient(
    model: SSWIM, rows: Rows, objective: Objective, chunk_rows: int
) -> tuple[float, dict[str, torch.Tensor]]:
    model.zero_grad()
    value = backward(model, rows, objective, chunk_rows).item()
    return value, gradients(model)


@pytest.mark.parametrize("objective", OBJECTIVES.values(), ids=OBJECTIVES.keys())
@pytest.mark.parametrize("depth", [0, 1, 2, 3])
@pytest.mark.parametrize("prior", ["whitened", "evidence"])
@pytest.mark.parametrize("extras", [False, True])
def test_chunks_give_the_one_pass_gradient(
    objective: Objective,
    depth: int,
    prior: PseudoPrior,
    extras: bool,
    generator: torch.Generator,
) -> None:
    rows = small_rows(generator, n_targets=2 if extras else 1, weighted=extras, uncertain=extras)
    model = small_model(rows, generator, depth=depth, pseudo_prior=prior)
    n = len(rows)
    value, expected = value_and_gradient(model, rows, objective, chunk_rows=n)
    assert set(expected) == {name for name, _ in model.named_parameters()}
    for size, n_kept in ((1, 0), (1, 5), (7, 0), (7, 2), (7, 100), (n, 0)):
        model.zero_grad()
        most_kept = partial(lambda most, _: most, n_kept * size)
        chunked_value = two_passes(model, list(chunks(rows, size)), objective, most_kept)
        assert chunked_value.item() == pytest.approx(value, rel=1e-12)
        chunked = gradients(model)
        for name, gradient in expected.items():
            assert relative_error(chunked[name], gradient) < 1e-10, name


@pytest.mark.parametrize("matrix", ["projected", "full"])
@pytest.mark.parametrize("warp_dim", [2, 4])
def test_chunks_give_the_one_pass_gradient_of_general_warps(
    matrix: WarpMatrix, warp_dim: int, generator: torch.Generator
) -> None:
    rows = small_rows(generator, weighted=True, uncertain=True)
    changes = {"depth": 2, "warp_matrix": matrix, "warp_dim": warp_dim}
    model = small_model(rows, generator, perturb=0.1, **changes)
    objective = OBJECTIVES["map"]
    value, expected = value_and_gradient(model, rows, objective, chunk_rows=len(rows))
    assert set(expected) == {name for name, _ in model.named_parameters()}
    model.zero_grad()
    chunked_value = two_passes(model, list(chunks(rows, 7)), objective, lambda _: 7)
    assert chunked_value.item() == pytest.approx(value, rel=1e-12)
    for name, gradient in gradients(model).items():
        assert relative_error(gradient, expected[name]) < 1e-9, name


@pytest.mark.parametrize("objective", OBJECTIVES.values(), ids=OBJECTIVES.keys())
@pytest.mark.parametrize("depth", [0, 1])
@pytest.mark.parametrize("output_warp", OUTPUT_WARPS)
@pytest.mark.parametrize("noise", NOISES)
def test_chunks_give_the_one_pass_gradient_of_the_density_too(
    objective: Objective,
    depth: int,
    output_warp: OutputWarpName,
    noise: NoiseName,
    generator: torch.Generator,
) -> None:
    rows = small_rows(generator, n_targets=2, weighted=True, uncertain=True)
    model = small_model(rows, generator, depth=depth, output_warp=output_warp, noise=noise)
    value, expected = value_and_gradient(model, rows, objective, chunk_rows=len(rows))
    assert set(expected) == {name for name, _ in model.named_parameters()}
    for size in (1, 7):
        chunked_value, chunked = value_and_gradient(model, rows, objective, chunk_rows=size)
        assert chunked_value == pytest.approx(value, rel=1e-10)
        for name, gradient in expected.items():
            assert relative_error(chunked[name], gradient) < 1e-10, name


@pytest.mark.parametrize("objective", OBJECTIVES.values(), ids=OBJECTIVES.keys())
@pytest.mark.parametrize("depth", [0, 2])
def test_the_gradient_against_finite_differences(
    objective: Objective, depth: int, generator: torch.Generator
) -> None:
    rows = small_rows(generator, weighted=True)
    model = small_model(rows, generator, depth=depth)
    assert_gradient_of_differences(model, rows, objective)


@pytest.mark.parametrize("objective", OBJECTIVES.values(), ids=OBJECTIVES.keys())
@pytest.mark.parametrize("output_warp", ["sinh-arcsinh", "tanh"])
def test_the_gradient_of_the_density_against_finite_differences(
    objective: Objective, output_warp: OutputWarpName, generator: torch.Generator
) -> None:
    rows = small_rows(generator, n_targets=2, weighted=True, uncertain=True)
    model = small_model(rows, generator, output_warp=output_warp, noise="input-dependent")
    assert_gradient_of_differences(model, rows, objective, ("output_warp", "noise_field"))


def assert_gradient_of_differences(
    model: SSWIM, rows: Rows, objective: Objective, of: tuple[str, ...] = ("",)
) -> None:
    """Return the gradients of the parameters whose names begin with a prefix."""
    _, gradient = value_and_gradient(model, rows, objective, len(rows))
    step = 1e-6
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if not name.startswith(of):
                continue
            flat = parameter.view(-1)
            numeric = torch.zeros_like(flat)
            for i in range(len(flat)):
                kept = flat[i].item()
                flat[i] = kept + step
                above = one_pass(model, rows, objective)
                flat[i] = kept - step
                numeric[i] = (above - one_pass(model, rows, objective)) / (2 * step)
                flat[i] = kept
            error = (gradient[name].view(-1) - numeric).abs().max()
            assert error < 1e-6 * max(1.0, numeric.abs().max().item()), name


@torch.no_grad()
def test_the_value_against_dense_formulas(generator: torch.Generator) -> None:
    rows = small_rows(generator)
    model = small_model(rows, generator)
    factors, prior = model.factors()
    features = row_features(factors, rows.inputs)
    identity = torch.eye(len(rows), dtype=torch.float64)
    covariance = model.signal() * features @ features.mT + model.noise() * identity
    evidence = multivariate_normal.logpdf(rows.targets[:, 0].numpy(), cov=covariance.numpy())
    n = len(rows)
    assert one_pass(model, rows, EVIDENCE).item() == pytest.approx(-evidence / n, rel=1e-10)
    assert one_pass(model, rows, MAP).item() == pytest.approx(
        (prior.warps.item() - evidence) / n, rel=1e-10
    )
    left_out = condition(model, rows).leave_one_out(rows).log_density(rows.targets)
    expected = -left_out.mean().item()
    assert one_pass(model, rows, LEAVE_ONE_OUT).item() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("output_warp", ["sinh-arcsinh", "tanh"])
@torch.no_grad()
def test_the_value_with_a_density_of_its_own_against_dense_formulas(
    output_warp: OutputWarpName, generator: torch.Generator
) -> None:
    rows = small_rows(generator, n_targets=2)
    model = small_model(rows, generator, output_warp=output_warp, noise="input-dependent")
    factors, prior = model.factors()
    features = row_features(factors, rows.inputs)
    targets, log_slope = factors.output.forward(rows.targets)
    precision = log_precision(factors, rows.inputs)
    assert precision is not None
    evidence = log_slope.sum().item()
    for t in range(2):
        covariance = model.signal()[t] * features @ features.mT
        covariance = covariance + (model.noise()[t] * (-precision[:, t]).exp()).diag()
        evidence += float(multivariate_normal.logpdf(targets[:, t].numpy(), cov=covariance.numpy()))
    n, density, warps = len(rows), prior.density.item(), prior.warps.item()
    expected = (density - evidence) / n
    assert one_pass(model, rows, EVIDENCE).item() == pytest.approx(expected, rel=1e-10)
    assert one_pass(model, rows, MAP).item() == pytest.approx(expected + warps / n, rel=1e-10)
    left_out = condition(model, rows).leave_one_out(rows).log_density(targets) + log_slope
    expected = (density - left_out.sum().item()) / n
    assert one_pass(model, rows, LEAVE_ONE_OUT).item() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("objective", OBJECTIVES.values(), ids=OBJECTIVES.keys())
@pytest.mark.parametrize("output_warp", ["sinh-arcsinh", "tanh"])
def test_a_density_that_is_not_warped_is_the_plain_one(
    objective: Objective, output_warp: OutputWarpName, generator: torch.Generator
) -> None:
    """But for the prior of its parameters at zero, which counts in every objective."""
    rows = small_rows(generator, n_targets=2, weighted=True, uncertain=True)
    model = small_model(rows, generator, output_warp=output_warp, noise="input-dependent")
    assert model.output_warp is not None
    assert model.noise_field is not None
    field = model.noise_field
    zeroed = (model.output_warp.coordinates, field.coefficients, field.slopes)
    with torch.no_grad():
        for parameter in (*zeroed, field.level):
            parameter.zero_()
    plain = small_model(rows, generator)
    shared = plain.state_dict().keys()
    plain.load_state_dict({name: model.state_dict()[name] for name in shared})
    value, gradient = value_and_gradient(model, rows, objective, len(rows))
    expected_value, expected = value_and_gradient(plain, rows, objective, len(rows))
    assert rows.weight is not None
    size = sum(parameter.numel() for parameter in zeroed)
    prior = 0.5 * size * math.log(2 * math.pi) / rows.weight.sum().item()
    assert value - prior == pytest.approx(expected_value, rel=1e-12)
    for name in expected:
        assert relative_error(gradient[name], expected[name]) < 1e-10, name


@pytest.mark.parametrize("objective", OBJECTIVES.values(), ids=OBJECTIVES.keys())
@pytest.mark.parametrize("density", DENSITIES.values(), ids=DENSITIES.keys())
def test_weighted_rows_count_as_repeated_ones(
    objective: Objective, density: dict[str, Any], generator: torch.Generator
) -> None:
    rows = small_rows(generator)
    model = small_model(rows, generator, **density)
    times = torch.randint(1, 4, (len(rows),), generator=generator)
    weighted = Rows(rows.inputs, rows.targets, times.to(torch.float64))
    repeated = rows.map(lambda tensor: tensor.repeat_interleave(times, dim=0))
    value, gradient = value_and_gradient(model, weighted, objective, 5)
    expected_value, expected = value_and_gradient(model, repeated, objective, 99)
    assert value == pytest.approx(expected_value, rel=1e-12)
    assert all(relative_error(gradient[name], expected[name]) < 1e-9 for name in expected)


def test_chunks_may_come_from_any_iterable_that_starts_again(generator: torch.Generator) -> None:
    rows = small_rows(generator)
    model = small_model(rows, generator)
    value, expected = value_and_gradient(model, rows, MAP, len(rows))
    model.zero_grad()
    # Uneven chunks, one of them with no rows.
    cuts = [rows.map(lambda t: t[:4]), rows.map(lambda t: t[4:4]), rows.map(lambda t: t[4:])]
    assert backward(model, cuts, MAP).item() == pytest.approx(value, rel=1e-12)
    for name, gradient in gradients(model).items():
        assert relative_error(gradient, expected[name]) < 1e-10
    with pytest.raises(ValueError, match="started again"):
        backward(model, iter(cuts), MAP)
    with pytest.raises(ValueError, match="at least one chunk"):
        backward(model, [], MAP)


def test_rows_that_do_not_suit_the_model_are_refused(generator: torch.Generator) -> None:
    rows = small_rows(generator)
    model = small_model(rows, generator)
    wide = Rows(Measure(rows.inputs.mean.repeat(1, 2)), rows.targets)
    with pytest.raises(ValueError, match=r"model's 3 inputs. Got 6"):
        backward(model, wide, MAP)
    two = small_rows(generator, n_targets=2)
    with pytest.raises(ValueError, match=r"model's 1 targets. Got 2"):
        backward(model, two, MAP)
    with pytest.raises(ValueError, match="chunk_rows must be at least 1"):
        backward(model, rows, MAP, chunk_rows=0)


def test_impossible_objectives_are_refused() -> None:
    with pytest.raises(ValueError, match="criterion must be one of"):
        unchecked(Objective, criterion="aic")
    with pytest.raises(ValueError, match="prior_weight must not be negative"):
        Objective(prior_weight=-1.0)


@pytest.mark.parametrize("objective", OBJECTIVES.values(), ids=OBJECTIVES.keys())
@pytest.mark.parametrize("density", DENSITIES.values(), ids=DENSITIES.keys())
def test_float32_features_give_nearly_the_same_gradient(
    objective: Objective, density: dict[str, Any], generator: torch.Generator
) -> None:
    rows = small_rows(generator, n=200)
    model = small_model(rows, generator, depth=2, **density)
    value, expected = value_and_gradient(model, rows, objective, 200)
    single = Rows(rows.inputs.to(dtype=torch.float32), rows.targets)
    for size in (50, 200):
        single_value, gradient = value_and_gradient(model, single, objective, size)
        assert single_value == pytest.approx(value, rel=1e-5)
        for name in expected:
            assert gradient[name].dtype == torch.float64
            assert relative_error(gradient[name], expected[name]) < 1e-3, name
