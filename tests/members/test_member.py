"""The protocol of members by features and by neighbours: what both ways do alike."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
import torch
from builders.cores import use_threads
from builders.models import DENSITIES, assert_close, normal, small_model, small_rows
from builders.neighbours import neighbour_model, row_of
from torch import Tensor

from sswim.base import record
from sswim.members import (
    SSWIM,
    FeatureMember,
    NeighbourMember,
    condition,
    feature_member,
    neighbour_member,
)
from sswim.rows import Measure, Rows

CASES: dict[str, dict[str, Any]] = {
    **{f"features, {name}": {"depth": 2, **changes} for name, changes in DENSITIES.items()},
    "features, scores": {"inputs": "normal-scores", "n_warp_frequencies": 4},
    "features, noise": {"depth": 0, "inputs": "normal-scores", "noise": "input-dependent"},
    "neighbours": {"n_neighbors": 7},
    "neighbours, one amplitude": {"n_neighbors": 40, "local_amplitude": False, "kernel": "rbf"},
    "neighbours, warped": {"n_neighbors": 7, "depth": 1, **DENSITIES["tanh"]},
}


@pytest.fixture
def rows(generator: torch.Generator) -> Rows:
    return small_rows(generator, n_targets=2, weighted=True, uncertain=True)


@pytest.fixture
def inputs(generator: torch.Generator) -> Measure:
    """Eleven inputs, of which the last two are equal."""
    x = normal(generator, 11, 3)
    x[10] = x[9]
    return Measure(x)


@pytest.fixture(params=[*CASES.values()], ids=[*CASES.keys()])
def model(rows: Rows, generator: torch.Generator, request: pytest.FixtureRequest) -> SSWIM:
    make = neighbour_model if "n_neighbors" in request.param else small_model
    made: SSWIM = make(rows, generator, **request.param)
    return made


@pytest.fixture
def member(model: SSWIM, rows: Rows) -> FeatureMember | NeighbourMember:
    made = condition(model, rows)
    assert isinstance(made, NeighbourMember if model.architecture.n_neighbors else FeatureMember)
    return made


def test_chunks_and_threads_change_nothing(
    model: SSWIM, rows: Rows, inputs: Measure, monkeypatch: pytest.MonkeyPatch
) -> None:
    uncertain = Measure(inputs.mean, input_variance=0.1 * inputs.mean.square())

    def everything() -> list[Tensor]:
        member = condition(model, rows)
        draws = member.sample(3, torch.Generator().manual_seed(0))
        return [
            *member.predict(inputs).tensors(),
            *member.predict(uncertain).tensors(),
            *member.leave_one_out(rows).tensors(),
            *member.update(rows).predict(inputs).tensors(),
            *(tensor for measure in member.warp(inputs) for tensor in measure.tensors()),
            member.covariance(inputs),
            draws(inputs),
        ]

    at_once = everything()
    monkeypatch.setattr(record, "CPU_ROWS", 4)
    monkeypatch.setattr(feature_member, "PAIRS", 4 * 6**2)
    monkeypatch.setattr(neighbour_member, "ENTRIES", {"cpu": 7**2 * 3})
    with use_threads(3):
        in_chunks = everything()
    for ours, theirs in zip(in_chunks, at_once, strict=True):
        assert torch.allclose(ours, theirs, rtol=1e-9, atol=1e-12)


def test_updating_equals_conditioning_on_all_rows(
    member: FeatureMember | NeighbourMember, rows: Rows, inputs: Measure
) -> None:
    first, second = rows.map(lambda t: t[:8]), rows.map(lambda t: t[8:])
    updated = condition(member.model, first).update(second)
    assert torch.allclose(updated.count, member.count)
    assert_close(updated.predict(inputs), member.predict(inputs))


def test_a_model_may_change_after_conditioning(
    member: FeatureMember | NeighbourMember, rows: Rows, inputs: Measure
) -> None:
    before = copy.deepcopy(member).predict(inputs), member.factors.output.forward(rows.targets)[0]
    with torch.no_grad():
        for tensor in (*member.model.parameters(), *member.model.buffers()):
            tensor.add_(1)
    assert_close(member.predict(inputs), before[0], 0)
    assert torch.equal(member.factors.output.forward(rows.targets)[0], before[1])


def test_copies_and_pickles_predict_the_same(
    member: FeatureMember | NeighbourMember, inputs: Measure
) -> None:
    for other in (copy.deepcopy(member), pickle.loads(pickle.dumps(member))):
        assert_close(other.predict(inputs), member.predict(inputs), 0)


def test_a_drawn_function_is_the_same_wherever_it_is_evaluated(
    member: FeatureMember | NeighbourMember, inputs: Measure, generator: torch.Generator
) -> None:
    functions = member.sample(5, generator)
    together = functions(inputs)
    assert together.shape == (5, 11, 2)
    apart = [functions(row_of(inputs, row)) for row in range(11)]
    assert torch.allclose(torch.cat(apart, dim=1), together, rtol=1e-9, atol=1e-12)
    many = functions(inputs.map(lambda t: t.repeat(100, 1)))  # in chunks
    assert torch.allclose(many[:, -11:], together, rtol=1e-9, atol=1e-12)
    assert torch.allclose(together[:, 9], together[:, 10], rtol=1e-9)
    assert not torch.allclose(together[0], together[1], atol=1e-3)


def test_inputs_with_no_variance_are_points(
    member: FeatureMember | NeighbourMember, rows: Rows, inputs: Measure
) -> None:
    zero = Measure(inputs.mean, input_variance=torch.zeros_like(inputs.mean))
    assert_close(member.predict(zero), member.predict(inputs), 1e-6)
