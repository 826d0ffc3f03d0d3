"""Objectives of training by features: values, gradients by chunks, and the size of chunks."""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import Any

import pytest
import torch
from builders.models import (
    DENSITIES,
    gradients,
    normal,
    relative_error,
    small_model,
    small_rows,
    unchecked,
)
from scipy.stats import multivariate_normal

from sswim.base.record import chunks
from sswim.members import EVIDENCE, LEAVE_ONE_OUT, MAP, SSWIM, Architecture, Objective, condition
from sswim.members import objective as objective_module
from sswim.members.model import row_features
from sswim.members.objective import (
    CPU_BATCH_BYTES,
    CPU_CHUNK_BYTES,
    CPU_GRAPH_BYTES,
    MIN_CHUNK_ROWS,
    OBJECTIVES,
    backward,
    chunk_size,
    graph_bytes_per_row,
    kept_rows,
    members_together,
    one_pass,
    two_passes,
)
from sswim.rows import Measure, Rows
from sswim.warps import log_noise_ratio

of_every_objective = pytest.mark.parametrize(
    "objective", OBJECTIVES.values(), ids=OBJECTIVES.keys()
)
of_every_density = pytest.mark.parametrize("density", DENSITIES.values(), ids=DENSITIES.keys())

CASES: dict[str, dict[str, Any]] = {
    "depth 0": {"depth": 0},
    "depth 1": {"depth": 1, "pseudo_prior": "whitened"},
    "depth 2": {"depth": 2, "pseudo_prior": "evidence"},
    "depth 3": {"depth": 3, "pseudo_prior": "whitened"},
    "projected": {"depth": 2, "warp_matrix": "projected", "warp_dim": 2},
    "full": {"depth": 2, "warp_matrix": "full", "warp_dim": 4},
    "noise": {"depth": 0, "noise": "input-dependent"},
    **{name: {"depth": 1, **changes} for name, changes in DENSITIES.items() if changes},
}


def value_and_gradient(
    model: SSWIM, rows: Rows, objective: Objective, chunk_rows: int
) -> tuple[float, dict[str, torch.Tensor]]:
    model.zero_grad()
    value = backward(model, rows, objective, chunk_rows).item()
    return value, gradients(model)


@of_every_objective
@pytest.mark.parametrize("changes", CASES.values(), ids=CASES.keys())
@pytest.mark.parametrize("extras", [False, True], ids=["plain", "weighted and uncertain"])
def test_chunks_give_the_one_pass_gradient(
    objective: Objective,
    changes: dict[str, Any],
    extras: bool,
    generator: torch.Generator,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = small_rows(generator, n_targets=2 if extras else 1, weighted=extras, uncertain=extras)
    general = "warp_matrix" in changes
    model = small_model(rows, generator, perturb=0.1 if general else 0.3, **changes)
    value, expected = value_and_gradient(model, rows, objective, len(rows))
    assert set(expected) == {name for name, _ in model.named_parameters()}
    uneven = [rows.map(itemgetter(slice(*ends))) for ends in ((0, 4), (4, 4), (4, None))]
    cases = [(list(chunks(rows, size)), n * size) for size, n in ((1, 5), (7, 0), (7, 2), (7, 100))]
    for parts, n_kept in (*cases, (uneven, 0)):
        model.zero_grad()
        monkeypatch.setattr(objective_module, "kept_rows", lambda *_, most=n_kept: most)
        chunked = two_passes(model, parts, objective)
        assert chunked.item() == pytest.approx(value, rel=1e-10)
        for name, gradient in gradients(model).items():
            assert relative_error(gradient, expected[name]) < (1e-9 if general else 1e-10), name


@of_every_objective
@pytest.mark.parametrize(
    "changes", [{"depth": 0}, {"depth": 2}, DENSITIES["sinh-arcsinh"], DENSITIES["tanh"]], ids=str
)
def test_the_gradient_against_finite_differences(
    objective: Objective, changes: dict[str, Any], generator: torch.Generator
) -> None:
    rows = small_rows(generator, 9, n_targets=2, weighted=True, uncertain=True)
    model = small_model(rows, generator, **changes)
    _, gradient = value_and_gradient(model, rows, objective, len(rows))
    step = 1e-6
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            kept, direction = parameter.clone(), normal(generator, *parameter.shape)
            ends = []
            for sign in (1, -1):
                parameter.copy_(kept + sign * step * direction)
                ends.append(one_pass(model, rows, objective))
            parameter.copy_(kept)
            slope = (ends[0] - ends[1]) / (2 * step)
            error = (gradient[name] * direction).sum() - slope
            assert error.abs() < 1e-6 * max(1.0, slope.abs().item()), name


@of_every_density
@torch.no_grad()
def test_the_value_against_dense_formulas(
    density: dict[str, Any], generator: torch.Generator
) -> None:
    rows = small_rows(generator, n_targets=2)
    model = small_model(rows, generator, **density)
    factors, prior = model.factors()
    features = row_features(factors, rows.inputs)
    targets, log_slope = factors.output.forward(rows.targets)
    ratio = torch.zeros_like(targets)
    if factors.noise is not None:
        ratio = log_noise_ratio(factors.noise, rows.inputs)
    evidence = log_slope.sum().item()
    for t in range(2):
        covariance = model.signal()[t] * features @ features.mT
        covariance = covariance + (model.noise()[t] * ratio[:, t].exp()).diag()
        evidence += float(multivariate_normal.logpdf(targets[:, t].numpy(), cov=covariance.numpy()))
    n, prior_density, warps = len(rows), prior.density.item(), prior.warps.item()
    expected = (prior_density - evidence) / n
    assert one_pass(model, rows, EVIDENCE).item() == pytest.approx(expected, rel=1e-10)
    assert one_pass(model, rows, MAP).item() == pytest.approx(expected + warps / n, rel=1e-10)
    left_out = condition(model, rows).leave_one_out(rows).log_density(targets) + log_slope
    expected = (prior_density - left_out.sum().item()) / n
    assert one_pass(model, rows, LEAVE_ONE_OUT).item() == pytest.approx(expected, rel=1e-12)


@of_every_objective
@of_every_density
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


def test_impossible_objectives_and_rows_are_refused(generator: torch.Generator) -> None:
    rows = small_rows(generator)
    model = small_model(rows, generator)
    wide = Rows(Measure(rows.inputs.mean.repeat(1, 2)), rows.targets)
    refused: list[tuple[Callable[[], object], str]] = [
        (lambda: backward(model, iter([rows]), MAP), "started again"),
        (lambda: backward(model, [], MAP), "at least one chunk"),
        (lambda: backward(model, wide, MAP), "model's 3 inputs. Got 6"),
        (lambda: backward(model, small_rows(generator, 5, 2), MAP), "model's 1 targets. Got 2"),
        (lambda: backward(model, rows, MAP, chunk_rows=0), "chunk_rows must be at least 1"),
        (lambda: unchecked(Objective, criterion="aic"), "criterion must be one of"),
        (lambda: Objective(prior_weight=-1.0), "prior_weight must not be negative"),
    ]
    for call, message in refused:
        with pytest.raises(ValueError, match=message):
            call()


@of_every_objective
@of_every_density
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


# The size of chunks, and what is kept of them.


def test_chunks_stay_in_cache_on_a_cpu(generator: torch.Generator) -> None:
    architecture = Architecture()
    most = CPU_CHUNK_BYTES // (512 * 8)  # rows of 512 features in double precision
    for n, n_members, expected in (
        (most, 1, most),
        (most + 1, 1, most // 2 + 1),
        (4 * most, 4, most // 4),
        (4 * MIN_CHUNK_ROWS, 100, MIN_CHUNK_ROWS),
    ):
        assert chunk_size(architecture, small_rows(generator, n=n), n_members) == expected


@pytest.mark.parametrize("n_members", [1, 3])
def test_graphs_are_kept_within_a_fixed_amount_of_memory(
    n_members: int, generator: torch.Generator
) -> None:
    architecture = Architecture()
    for n in (100, 10_000):
        rows = small_rows(generator, n=n)
        row = n_members * graph_bytes_per_row(architecture, rows.inputs)
        kept = kept_rows(architecture, rows, n_members)
        assert kept * row <= CPU_GRAPH_BYTES < (kept + 1) * row


def test_members_are_trained_together_where_they_are_small(generator: torch.Generator) -> None:
    architecture, rows = Architecture(), small_rows(generator, n=100)
    most = CPU_BATCH_BYTES // (100 * graph_bytes_per_row(architecture, rows.inputs))
    assert members_together(architecture, rows.inputs, 100, most) == most > 1
    assert members_together(architecture, rows.inputs, 100, most + 1) == most
    assert members_together(architecture, rows.inputs, 10_000, 4) == 1
