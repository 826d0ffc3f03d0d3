"""A batch of members computes what its members compute alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from builders.models import DENSITIES, gradients, small_model, small_rows
from torch import Tensor

from sswim.base.record import stack_records
from sswim.members import LEAVE_ONE_OUT, MAP, SSWIM, Objective
from sswim.members.model import stack_models, unstack_models
from sswim.members.objective import backward
from sswim.rows import Rows

MEMBERS = 3
SHAPES: list[dict[str, Any]] = [
    {"depth": 0},
    {"depth": 1, "pseudo_prior": "whitened"},
    {"depth": 2},
    {"depth": 0, "inputs": "normal-scores"},
    {"depth": 1, "n_warp_frequencies": 4, "inputs": "normal-scores"},
    {"depth": 2, "warp_matrix": "projected", "warp_dim": 2, "warps": "joint"},
    {"depth": 1, "warp_matrix": "full", "warp_dim": 5},
]
"""Depths, priors of the warps and normal scores."""

CASES = [(name, True) for name in DENSITIES] + [("plain", False)]
"""Output warps and noise, and whether there are weights, uncertain inputs and two targets."""

TRAINED = [(shape, MAP) for shape in SHAPES] + [(shape, LEAVE_ONE_OUT) for shape in SHAPES[:2]]
"""Architectures and objectives."""

of_all_cases = pytest.mark.parametrize(("density", "extras"), CASES)
of_all_rows = pytest.mark.parametrize("own", [False, True], ids=["shared", "own"])


def members(
    generator: torch.Generator, *, own: bool, extras: bool, **changes: Any
) -> tuple[list[SSWIM], list[Rows], Rows]:
    """Make models, the rows of each, and the rows of their batch."""
    n_targets = 2 if extras else 1
    given = [
        small_rows(generator, 11, n_targets, weighted=extras, uncertain=extras)
        for _ in range(MEMBERS if own else 1)
    ]
    each = given if own else given * MEMBERS
    models = [small_model(rows, generator, **changes) for rows in each]
    return models, each, stack_records(given) if own else given[0]


def assert_close(actual: Tensor, expected: Tensor, tolerance: float = 1e-12) -> None:
    assert actual.shape == expected.shape
    finite = expected.isfinite()  # an infinite bound is exactly that
    assert torch.equal(actual[~finite], expected[~finite])
    actual, expected = actual[finite], expected[finite]
    scale = torch.cat((expected.abs(), expected.new_tensor([1e-300]))).max()
    assert ((actual - expected).abs() <= tolerance * scale).all()


@pytest.mark.parametrize(("shape", "objective"), TRAINED, ids=str)
@of_all_cases
@of_all_rows
def test_values_and_gradients_of_a_batch_are_those_of_its_members(
    shape: dict[str, Any],
    objective: Objective,
    density: str,
    extras: bool,
    own: bool,
    generator: torch.Generator,
) -> None:
    models, each, rows = members(generator, own=own, extras=extras, **shape, **DENSITIES[density])
    batch = stack_models(models)
    pairs = zip(models, each, strict=True)
    values = torch.stack([backward(*pair, objective, len(rows)) for pair in pairs])
    expected = [gradients(model) for model in models]
    for size in (len(rows), 6):  # in one pass, and in two over chunks
        batch.zero_grad()
        assert_close(backward(batch, rows, objective, size), values)
        ours = gradients(batch)
        assert set(ours) == set(expected[0])
        for name, gradient in ours.items():
            assert_close(gradient, torch.stack([theirs[name] for theirs in expected]), 1e-10)


def test_members_may_have_more_than_one_axis(generator: torch.Generator) -> None:
    models, each, _ = members(generator, own=True, extras=True, output_warp="tanh")
    batch = stack_models([stack_models(models), stack_models(models[::-1])])
    rows = stack_records([stack_records(each), stack_records(each[::-1])])
    assert batch.batch == (2, MEMBERS)
    for size in (len(rows), 6):
        values = backward(batch, rows, MAP, size)
        expected = torch.stack([backward(*pair, MAP) for pair in zip(models, each, strict=True)])
        assert_close(values, torch.stack([expected, expected.flip(0)]))


@pytest.mark.parametrize(
    "density",
    [*DENSITIES.values(), {"depth": 0, "inputs": "normal-scores"}],
    ids=str,
)
def test_what_is_stacked_can_be_taken_apart(
    density: dict[str, Any], generator: torch.Generator
) -> None:
    models, _, _ = members(generator, own=False, extras=False, **density)
    batch = stack_models(models)
    assert batch.batch == (MEMBERS,)
    assert (batch.n_inputs, batch.n_targets) == (3, 1)
    again = unstack_models(batch)
    with torch.no_grad():
        for parameter in batch.parameters():
            parameter.zero_()  # copies do not change with the batch
    for ours, theirs in zip(again, models, strict=True):
        assert ours.batch == ()
        assert ours.architecture == theirs.architecture
        state, expected = ours.state_dict(), theirs.state_dict()
        assert state.keys() == expected.keys()
        assert all(torch.equal(state[name], expected[name]) for name in state)


def test_what_does_not_belong_together_is_refused(generator: torch.Generator) -> None:
    rows = small_rows(generator)
    model, deeper = (small_model(rows, generator, depth=depth) for depth in (1, 2))
    refused: list[tuple[Callable[[], object], str]] = [
        (lambda: stack_models([]), "at least one"),
        (lambda: stack_models([model, deeper]), "same architecture"),
        (lambda: stack_models([model, stack_models([model])]), "same architecture"),
        (lambda: unstack_models(model), "single model"),
    ]
    for call, message in refused:
        with pytest.raises(ValueError, match=message):
            call()
