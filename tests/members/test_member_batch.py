"""A batch of members computes what its members compute alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from builders.models import DENSITIES, gradients, normal, small_model, small_rows
from torch import Tensor

from sswim.base.record import Record, stack_records
from sswim.kernels.features import expected_quadratic
from sswim.members import LEAVE_ONE_OUT, MAP, SSWIM, Objective
from sswim.members.linear_regression import (
    leave_one_out,
    negative_log_evidence,
    posterior,
    statistics,
)
from sswim.members.model import observe, stack_models, unstack_models, warped_measures
from sswim.members.objective import backward
from sswim.rows import Rows
from sswim.warps.output_warp import OutputWarpName

MEMBERS = 3
SHAPES: list[dict[str, Any]] = [
    {"depth": 0},
    {"depth": 1},
    {"depth": 1, "pseudo_prior": "whitened"},
    {"depth": 2},
    {"depth": 2, "pseudo_prior": "whitened"},
    {"depth": 0, "inputs": "normal-scores"},
    {"depth": 1, "n_warp_frequencies": 4, "inputs": "normal-scores"},
]
"""Depths, priors of the warps and normal scores."""

CASES = [(name, True) for name in DENSITIES] + [("plain", False)]
"""Output warps and noise, and whether there are weights, uncertain inputs and two targets."""

TRAINED: list[tuple[dict[str, Any], Objective]] = [
    *((shape, MAP) for shape in SHAPES),
    ({"depth": 0}, LEAVE_ONE_OUT),
    ({"depth": 1, "pseudo_prior": "whitened"}, LEAVE_ONE_OUT),
    ({"depth": 0, "inputs": "normal-scores"}, LEAVE_ONE_OUT),
]
"""Architectures and objectives."""

of_all_shapes = pytest.mark.parametrize("shape", SHAPES, ids=str)
of_all_cases = pytest.mark.parametrize(("density", "extras"), CASES)
of_all_rows = pytest.mark.parametrize("own", [False, True], ids=["shared", "own"])


def members(
    generator: torch.Generator,
    *,
    own: bool,
    extras: bool,
    n: int = 11,
    **changes: Any,
) -> tuple[list[SSWIM], list[Rows], Rows]:
    """Make models, the rows of each, and the rows of their batch."""

    def rows() -> Rows:
        n_targets = 2 if extras else 1
        return small_rows(generator, n, n_targets, weighted=extras, uncertain=extras)

    given = [rows() for _ in range(MEMBERS)] if own else [rows()] * MEMBERS
    models = [small_model(each, generator, **changes) for each in given]
    return models, given, stack_records(given) if own else given[0]


def assert_same(actual: Record, expected: Sequence[Record]) -> None:
    """Compare a record of a batch with those of its members; shared tensors may lack their axis."""
    theirs = stack_records(expected).tensors()
    for ours, each in zip(actual.tensors(), theirs, strict=True):
        assert_close(ours.expand_as(each), each)


def assert_close(actual: Tensor, expected: Tensor, tolerance: float = 1e-12) -> None:
    assert actual.shape == expected.shape
    finite = expected.isfinite()  # an infinite bound is exactly that
    assert torch.equal(actual[~finite], expected[~finite])
    actual, expected = actual[finite], expected[finite]
    scale = torch.cat((expected.abs(), expected.new_tensor([1e-300]))).max()
    assert ((actual - expected).abs() <= tolerance * scale).all()


@of_all_shapes
@of_all_cases
@of_all_rows
@torch.no_grad()
def test_every_record_of_a_batch_is_that_of_its_members(
    shape: dict[str, Any],
    density: str,
    extras: bool,
    own: bool,
    generator: torch.Generator,
) -> None:
    models, each, rows = members(generator, own=own, extras=extras, **shape, **DENSITIES[density])
    batch = stack_models(models)
    factors, prior_of_batch = batch.factors()
    conditioned = [model.factors() for model in models]
    assert_same(factors, [pair[0] for pair in conditioned])
    assert_same(prior_of_batch, [pair[1] for pair in conditioned])
    pairs = [(pair[0], given) for pair, given in zip(conditioned, each, strict=True)]
    for ours, *theirs in zip(
        warped_measures(factors, rows.inputs),
        *(warped_measures(own_factors, given.inputs) for own_factors, given in pairs),
        strict=True,
    ):
        assert_same(ours, theirs)
    seen, seen_alone = observe(factors, rows), [observe(*pair) for pair in pairs]
    assert_same(seen, seen_alone)
    total, alone = statistics(seen), [statistics(one) for one in seen_alone]
    assert_same(total, alone)
    evidences = [
        negative_log_evidence(one, model.noise(), model.signal())
        for one, model in zip(alone, models, strict=True)
    ]
    evidence = negative_log_evidence(total, batch.noise(), batch.signal())
    assert_close(evidence, torch.stack(evidences))
    given_rows = posterior(total, batch.noise(), batch.signal())
    given_rows_alone = [
        posterior(one, model.noise(), model.signal())
        for one, model in zip(alone, models, strict=True)
    ]
    assert_same(given_rows, given_rows_alone)
    left_out = [leave_one_out(*pair) for pair in zip(seen_alone, given_rows_alone, strict=True)]
    assert_same(leave_one_out(seen, given_rows), left_out)
    predictions = [
        one.predict(of.features, of.log_precision)
        for one, of in zip(given_rows_alone, seen_alone, strict=True)
    ]
    assert_same(given_rows.predict(seen.features, seen.log_precision), predictions)
    covariances = [
        one.covariance(of.features) for one, of in zip(given_rows_alone, seen_alone, strict=True)
    ]
    assert_close(given_rows.covariance(seen.features), torch.stack(covariances))


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


@of_all_rows
@torch.no_grad()
def test_expected_quadratics_of_a_batch(own: bool, generator: torch.Generator) -> None:
    models, each, rows = members(generator, own=own, extras=True)
    measures = [
        warped_measures(model.factors()[0], given.inputs)[-1]
        for model, given in zip(models, each, strict=True)
    ]
    root = normal(generator, MEMBERS, 12, 12)
    forms = root @ root.mT
    batch = stack_models(models)
    top = warped_measures(batch.factors()[0], rows.inputs)[-1]
    expected = [
        expected_quadratic(model.spectrum.frequencies(), measure, form)
        for model, measure, form in zip(models, measures, forms, strict=True)
    ]
    assert_close(
        expected_quadratic(batch.spectrum.frequencies(), top, forms), torch.stack(expected)
    )


@pytest.mark.parametrize("kind", ["sinh-arcsinh", "tanh"])
@of_all_rows
@torch.no_grad()
def test_output_maps_of_a_batch_are_inverted(
    kind: OutputWarpName, own: bool, generator: torch.Generator
) -> None:
    models, each, rows = members(generator, own=own, extras=True, output_warp=kind)
    maps = [model.factors()[0].output for model in models]
    together = stack_models(models).factors()[0].output
    inverses = [one.inverse(given.targets) for one, given in zip(maps, each, strict=True)]
    assert_close(together.inverse(rows.targets), torch.stack(inverses))


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
