from __future__ import annotations

import copy
import pickle
from dataclasses import replace
from operator import itemgetter
from typing import Any

import pytest
import torch
from builders.models import normal, small_rows
from builders.neighbours import (
    KERNELS,
    assert_close,
    exact_prediction,
    neighbour_model,
    row_of,
    without,
)

from sswim.base import record as record_module
from sswim.base.validation import UserError
from sswim.members import SSWIM, NeighbourMember, Prediction
from sswim.members import neighbour_member as predictor_module
from sswim.members import neighbourhood as local_prediction
from sswim.rows import Measure, Rows

N_ROWS = 23
HALVES = slice(0, 5), slice(5, 12)

CASES: dict[str, dict[str, Any]] = {
    **{kernel: {"kernel": kernel} for kernel in KERNELS},
    "joint warps": {"depth": 1, "warps": "joint"},
    "separate warps": {"depth": 1, "warps": "separate"},
    "whitened": {"depth": 1, "warps": "joint", "pseudo_prior": "whitened"},
    "two warps": {"depth": 2, "warps": "joint", "kernel": "rbf"},
    "normal scores": {"inputs": "normal-scores"},
    "warped normal scores": {"inputs": "normal-scores", "depth": 1},
    "noise": {"noise": "input-dependent"},
    "sinh-arcsinh": {"output_warp": "sinh-arcsinh"},
    "without weights": {"weighted": False},
    "all at once": {"depth": 1, "noise": "input-dependent", "output_warp": "tanh"},
}
EVERY_CASE = pytest.mark.parametrize("changes", CASES.values(), ids=CASES.keys())
AMPLITUDES = pytest.mark.parametrize("local", [False, True], ids=["global", "local"])


@pytest.fixture(autouse=True)
def _amplitudes_are_of_all_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_prediction, "N_AMPLITUDE", 100)


@pytest.fixture
def rows(generator: torch.Generator) -> Rows:
    return small_rows(generator, N_ROWS, n_targets=2, weighted=True)


@pytest.fixture
def inputs(generator: torch.Generator) -> Measure:
    return Measure(normal(generator, 11, 3))


def make(rows: Rows, generator: torch.Generator, **changes: Any) -> tuple[SSWIM, NeighbourMember]:
    """Make a model whose targets are rounded and whose noise is corrected, and its predictor."""
    model = neighbour_model(rows, generator, **changes)
    model.resolution.copy_(torch.tensor([0.1, 0.0]))
    model.noise_correction.copy_(torch.tensor([0.2, -0.1]))
    return model, NeighbourMember.condition_on(model, rows)


def chosen(rows: Rows, changes: dict[str, Any]) -> tuple[Rows, dict[str, Any]]:
    """Return the rows of a case, with weights unless it says otherwise, and the rest of it."""
    rest = {name: value for name, value in changes.items() if name != "weighted"}
    return (rows if changes.get("weighted", True) else replace(rows, weight=None)), rest


@EVERY_CASE
@AMPLITUDES
def test_with_all_rows_as_neighbours_it_is_the_exact_gp(
    changes: dict[str, Any], local: bool, rows: Rows, inputs: Measure, generator: torch.Generator
) -> None:
    rows, changes = chosen(rows, changes)
    model, predictor = make(rows, generator, local_amplitude=local, **changes)
    ours = predictor.predict(inputs)
    assert (ours.degrees is not None) == local
    assert_close(ours, exact_prediction(model, rows, inputs))
    assert torch.equal(predictor.predict_mean_chunk(inputs), ours.mean)


@EVERY_CASE
@AMPLITUDES
def test_leaving_one_out_is_the_exact_gp_of_the_others(
    changes: dict[str, Any], local: bool, rows: Rows, generator: torch.Generator
) -> None:
    """All other rows are neighbours if their number is one less than that of the rows."""
    rows, changes = chosen(rows, changes)
    changes = {"n_neighbors": N_ROWS - 1, "local_amplitude": local, **changes}
    model, predictor = make(rows, generator, **changes)
    ours = predictor.leave_one_out(rows)
    for row in (0, 5, 22):
        at = row_of(rows.inputs, row)
        expected = exact_prediction(model, without(rows, row), at)
        assert_close(row_of(ours, row), expected)


@pytest.mark.parametrize("depth", [0, 1])
def test_single_precision_is_that_of_the_inputs_alone(
    depth: int, generator: torch.Generator
) -> None:
    """Warps are in single precision; the algebra of neighbours is in double precision."""
    rows = small_rows(generator, N_ROWS, n_targets=2, dtype=torch.float32)
    inputs = Measure(normal(generator, 11, 3).float())
    model, predictor = make(rows, generator, depth=depth)
    assert_close(predictor.predict(inputs), exact_prediction(model, rows, inputs))
    double = replace(rows, inputs=rows.inputs.to(dtype=torch.float64))
    exact = NeighbourMember.condition_on(model, double).predict(inputs.to(dtype=torch.float64))
    assert_close(predictor.predict(inputs), exact, 1e-4 if depth else 1e-9)
    assert predictor.predict(inputs).mean.dtype == torch.float64


@AMPLITUDES
@pytest.mark.parametrize("n_neighbors", [1, 2, 8, 40])
def test_a_prediction_is_the_exact_gp_of_its_neighbours(
    n_neighbors: int,
    local: bool,
    inputs: Measure,
    generator: torch.Generator,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its amplitude is that of the first of them: on a map, of near and far ones."""
    monkeypatch.setattr(local_prediction, "N_AMPLITUDE", 6)
    rows = small_rows(generator, 60, n_targets=2)
    model, predictor = make(
        rows, generator, n_neighbors=n_neighbors, depth=1, local_amplitude=local
    )
    ours = predictor.predict(inputs)
    query = predictor._query(inputs)
    for number, indices in enumerate(query.indices):
        at = row_of(inputs, number)
        mine = row_of(ours, number)
        expected = exact_prediction(model, rows.take(indices[indices >= 0]), at)
        if local and n_neighbors > 12:
            first = indices[:12]
            scaled = exact_prediction(model, rows.take(first[first >= 0]), at)
            expected = rescaled(expected, scaled, model)
        assert_close(mine, expected)


def rescaled(prediction: Prediction, amplitude: Prediction, model: SSWIM) -> Prediction:
    """Return a prediction with the amplitude and the degrees of another one."""
    factor, inflation = [], []
    for each in (prediction, amplitude):
        assert each.degrees is not None
        inflated = each.degrees / (each.degrees - 2)
        noise = (each.observation_variance - each.latent_variance) / inflated
        factor.append((noise - model.resolution.square() / 12) / model.noise())
        inflation.append(inflated)
    ratio = factor[1] / factor[0] * inflation[1] / inflation[0]
    noise = amplitude.observation_variance - amplitude.latent_variance
    latent = prediction.latent_variance * ratio
    return Prediction(prediction.mean, latent, latent + noise, amplitude.degrees)


@AMPLITUDES
def test_a_row_of_weight_two_is_the_row_twice(
    local: bool, inputs: Measure, generator: torch.Generator
) -> None:
    """The amplitude of its own counts rows, however often each counts.

    So means are the same, and variances too under one amplitude for all. With amplitudes of their
    own νs² + q is the same, and with it the variance times ν + m − 3.
    """
    rows = small_rows(generator, 12, n_targets=2)
    weight = torch.tensor([1.0, 2.0, 3.0] * 4, dtype=torch.float64)
    twice = rows.take(torch.arange(12).repeat_interleave(weight.long()))
    model = neighbour_model(rows, generator, n_neighbors=30, local_amplitude=local)
    ours = NeighbourMember.condition_on(model, replace(rows, weight=weight)).predict(inputs)
    theirs = NeighbourMember.condition_on(model, twice).predict(inputs)
    assert torch.allclose(ours.mean, theirs.mean, rtol=1e-9)
    if ours.degrees is None or theirs.degrees is None:
        assert_close(ours, theirs)
        return
    assert torch.allclose(theirs.degrees, ours.degrees + 12)
    for name in ("latent_variance", "observation_variance"):
        mine = getattr(ours, name) * (ours.degrees - 2)
        assert torch.allclose(mine, getattr(theirs, name) * (theirs.degrees - 2), rtol=1e-8)


def test_a_row_that_counts_several_times_is_left_out_as_often_as_it_is_given(
    generator: torch.Generator,
) -> None:
    rows = small_rows(generator, 12)
    weight = torch.tensor([1.0, 2.0, 3.0] * 4, dtype=torch.float64)
    weighted = replace(rows, weight=weight)
    model = neighbour_model(rows, generator, local_amplitude=False)
    predictor = NeighbourMember.condition_on(model, weighted)
    entirely, once = predictor.leave_one_out(weighted), predictor.leave_one_out(rows)
    for row in (0, 1, 2):
        at = row_of(rows.inputs, row)
        expected = exact_prediction(model, without(weighted, row), at)
        assert_close(row_of(entirely, row), expected)
        less = weight.clone()
        less[row] -= 1
        others = replace(rows, weight=less).take(less.nonzero()[:, 0])
        expected = exact_prediction(model, others, at)
        assert_close(row_of(once, row), expected)


def test_one_of_two_copies_is_left_out(generator: torch.Generator) -> None:
    """Copies need not be merged, and a row with the same inputs but another target is no copy."""
    rows = small_rows(generator, 12)
    rows.inputs.mean[3:6] = rows.inputs.mean[3]
    rows.targets[4] = rows.targets[3]
    model = neighbour_model(rows, generator, n_neighbors=11)
    ours = NeighbourMember.condition_on(model, rows).leave_one_out(rows)
    for row in (3, 5, 7):
        at = row_of(rows.inputs, row)
        expected = exact_prediction(model, without(rows, row), at)
        assert_close(row_of(ours, row), expected)


def test_rows_that_it_does_not_hold_are_predicted_from_as_many_neighbours(
    generator: torch.Generator,
) -> None:
    rows = small_rows(generator, 40)
    known, other = rows.map(lambda t: t[:30]), rows.map(lambda t: t[30:])
    predictor = NeighbourMember.condition_on(neighbour_model(rows, generator, n_neighbors=6), known)
    ours, theirs = predictor.leave_one_out(other).degrees, predictor.predict(other.inputs).degrees
    assert ours is not None
    assert theirs is not None
    assert predictor.degrees is not None
    for degrees in (ours, theirs):
        assert (degrees - predictor.degrees).max() <= 5  # ν + m − 1
        assert (degrees - predictor.degrees).min() >= 2


def test_chunks_change_nothing(
    rows: Rows, inputs: Measure, generator: torch.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, predictor = make(rows, generator, n_neighbors=7, depth=1, noise="input-dependent")
    uncertain = Measure(inputs.mean, input_variance=0.1 * inputs.mean.square())

    def everything() -> list[torch.Tensor]:
        draws = predictor.sample(3, torch.Generator().manual_seed(0))
        return [
            *predictor.predict(inputs).tensors(),
            *predictor.predict(uncertain).tensors(),
            *predictor.leave_one_out(rows).tensors(),
            predictor.covariance(inputs),
            draws(inputs),
        ]

    at_once = everything()
    monkeypatch.setattr(record_module, "CPU_ROWS", 4)
    monkeypatch.setattr(predictor_module, "ENTRIES", {"cpu": 7**2 * 3})
    threads = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        in_chunks = everything()
    finally:
        torch.set_num_threads(threads)
    for ours, theirs in zip(in_chunks, at_once, strict=True):
        assert torch.allclose(ours, theirs, rtol=1e-9, atol=1e-12)


@EVERY_CASE
def test_updating_equals_conditioning_on_all_rows(
    changes: dict[str, Any], rows: Rows, inputs: Measure, generator: torch.Generator
) -> None:
    rows, changes = chosen(rows, changes)
    model, whole = make(rows, generator, n_neighbors=9, **changes)
    first, second = rows.map(lambda t: t[:8]), rows.map(lambda t: t[8:])
    updated = NeighbourMember.condition_on(model, first).update(second)
    assert_close(updated.predict(inputs), whole.predict(inputs))
    assert torch.allclose(updated.count, whole.count)


def test_updating_merges_copies_and_joins_what_only_some_rows_have(
    inputs: Measure, generator: torch.Generator
) -> None:
    rows = small_rows(generator, 12, weighted=True, uncertain=True)
    plain = Rows(Measure(rows.inputs.mean), rows.targets)
    model = neighbour_model(rows, generator, n_neighbors=30)
    doubled = NeighbourMember.condition_on(model, plain).update(plain)
    assert len(doubled.rows) == 12
    assert doubled.rows.weight is not None
    assert torch.equal(doubled.rows.weight, torch.full((12,), 2.0, dtype=torch.float64))
    assert doubled.count == 24
    # Rows without weights count once, and rows without variances are exact.
    assert rows.weight is not None
    assert rows.inputs.input_variance is not None
    for parts in ((rows, plain), (plain, rows)):
        first, second = (each.map(itemgetter(s)) for each, s in zip(parts, HALVES, strict=True))
        joined = NeighbourMember.condition_on(model, first).update(second).predict(inputs)
        weight, variance = rows.weight.clone(), rows.inputs.input_variance.clone()
        exact = HALVES[1 if parts[1] is plain else 0]
        weight[exact], variance[exact] = 1, 0
        both = Rows(Measure(rows.inputs.mean, input_variance=variance), rows.targets, weight)
        assert_close(joined, NeighbourMember.condition_on(model, both).predict(inputs))


def test_a_model_without_rows_asks_for_them(inputs: Measure, generator: torch.Generator) -> None:
    rows = small_rows(generator, 12)
    model = neighbour_model(rows, generator)
    empty = NeighbourMember.condition_on(model, rows.no_rows())
    assert empty.count == 0
    for method in (empty.predict, empty.covariance, empty.predict_mean_chunk):
        with pytest.raises(UserError, match=r"saved without them.*partial_fit"):
            method(inputs)
    with pytest.raises(UserError, match=r"saved without them.*partial_fit"):
        empty.sample(2, generator)(inputs)
    expected = NeighbourMember.condition_on(model, rows).predict(inputs)
    assert_close(empty.update(rows).predict(inputs), expected, 1e-12)


def test_copies_and_pickles_predict_the_same(
    rows: Rows, inputs: Measure, generator: torch.Generator
) -> None:
    _, predictor = make(rows, generator, n_neighbors=7, depth=1)
    expected = predictor.predict(inputs)
    assert "known" in predictor.__dict__
    for other in (copy.deepcopy(predictor), pickle.loads(pickle.dumps(predictor))):
        assert "known" not in other.__dict__
        for ours, theirs in zip(other.predict(inputs).tensors(), expected.tensors(), strict=True):
            assert torch.equal(ours, theirs)


def test_a_model_may_change_after_conditioning(
    rows: Rows, inputs: Measure, generator: torch.Generator
) -> None:
    model, predictor = make(rows, generator, depth=1, output_warp="tanh", noise="input-dependent")
    before = replace(predictor).predict(inputs)
    with torch.no_grad():
        for tensor in (*model.parameters(), *model.buffers()):
            tensor.add_(1)
    for ours, theirs in zip(predictor.predict(inputs).tensors(), before.tensors(), strict=True):
        assert torch.equal(ours, theirs)


def test_duplicates_with_different_targets_and_no_noise(generator: torch.Generator) -> None:
    """They are almost singular: the ridge is the smallest there is."""
    rows = small_rows(generator, 12)
    rows.inputs.mean[6:] = rows.inputs.mean[:6]
    model = neighbour_model(rows, generator)
    with torch.no_grad():
        model.log_noise.fill_(-60)
    predictor = NeighbourMember.condition_on(model, rows)
    prediction = predictor.predict(rows.inputs)
    for tensor in (*prediction.tensors(), *predictor.leave_one_out(rows).tensors()):
        assert tensor.isfinite().all()
    expected = (rows.targets[:6] + rows.targets[6:]) / 2
    assert torch.allclose(prediction.mean[:6], expected, atol=1e-5)


def test_far_from_all_rows_the_prediction_is_the_mean_of_its_neighbours(
    generator: torch.Generator,
) -> None:
    rows = small_rows(generator, 20, n_targets=2)
    model = neighbour_model(rows, generator, n_neighbors=6, local_amplitude=False)
    far = NeighbourMember.condition_on(model, rows).predict(
        Measure(torch.full((1, 3), 1e6).double())
    )
    assert (far.mean > rows.targets.amin(0)).all()
    assert (far.mean < rows.targets.amax(0)).all()
    assert (far.latent_variance > model.signal()).all()


@pytest.mark.parametrize("depth", [0, 1])
@pytest.mark.parametrize("spread", [0.05, 0.3])
def test_uncertain_inputs_against_draws_of_them(
    depth: int, spread: float, generator: torch.Generator
) -> None:
    """The nodes are few, so the moments are right to a few percent of the spread."""
    rows = small_rows(generator, 24)
    predictor = NeighbourMember.condition_on(neighbour_model(rows, generator, depth=depth), rows)
    x = normal(generator, 4, 3)
    # One input is known exactly: the first, one in the middle, the last, none.
    deviation = spread * (0.5 + torch.rand(4, 3, generator=generator, dtype=torch.float64))
    deviation[[0, 1, 2], [0, 1, 2]] = 0
    ours = predictor.predict(Measure(x, input_variance=deviation.square()))
    for row in range(4):
        draws = predictor.predict(Measure(x[row] + deviation[row] * normal(generator, 2000, 3)))
        total = draws.observation_variance.mean(0) + draws.mean.var(0)
        latent = draws.latent_variance.mean(0) + draws.mean.var(0)
        error = (draws.mean.mean(0) - ours.mean[row]).abs()
        assert (error < 0.1 * total.sqrt()).all()
        assert torch.allclose(ours.observation_variance[row], total, rtol=0.1)
        assert torch.allclose(ours.latent_variance[row], latent, rtol=0.15)


def test_correlated_inputs_against_draws_of_them(generator: torch.Generator) -> None:
    rows = small_rows(generator, 24)
    predictor = NeighbourMember.condition_on(neighbour_model(rows, generator), rows)
    x = normal(generator, 1, 3)
    root = 0.2 * normal(generator, 3, 2)  # of rank two
    ours = predictor.predict(Measure(x, input_variance=(root @ root.T)[None]))
    draws = predictor.predict(Measure(x + normal(generator, 5000, 2) @ root.T))
    total = draws.observation_variance.mean(0) + draws.mean.var(0)
    assert ((draws.mean.mean(0) - ours.mean[0]).abs() < 0.1 * total.sqrt()).all()
    assert torch.allclose(ours.observation_variance[0], total, rtol=0.1)


def test_inputs_with_no_variance_are_points(
    rows: Rows, inputs: Measure, generator: torch.Generator
) -> None:
    _, predictor = make(rows, generator, depth=1, noise="input-dependent", output_warp="tanh")
    zero = Measure(inputs.mean, input_variance=torch.zeros_like(inputs.mean))
    assert_close(predictor.predict(zero), predictor.predict(inputs))


def test_rows_whose_inputs_have_no_variance_are_points(
    rows: Rows, inputs: Measure, generator: torch.Generator
) -> None:
    model, predictor = make(rows, generator, depth=1)
    zero = replace(rows.inputs, input_variance=torch.zeros_like(rows.inputs.mean))
    certain = NeighbourMember.condition_on(model, replace(rows, inputs=zero))
    assert_close(certain.predict(inputs), predictor.predict(inputs), 1e-6)
    assert_close(certain.leave_one_out(rows), predictor.leave_one_out(rows), 1e-6)


def test_rows_whose_inputs_are_nearly_unknown_say_little(
    inputs: Measure, generator: torch.Generator
) -> None:
    rows = small_rows(generator, 30)
    model = neighbour_model(rows, generator, local_amplitude=False)
    exact = NeighbourMember.condition_on(model, rows).predict(inputs)
    before = exact.latent_variance
    for spread in (0.1, 1.0, 100.0):
        variance = torch.full_like(rows.inputs.mean, spread)
        blurred = replace(rows, inputs=replace(rows.inputs, input_variance=variance))
        prediction = NeighbourMember.condition_on(model, blurred).predict(inputs)
        assert (prediction.latent_variance > before).all()
        before = prediction.latent_variance
    assert torch.allclose(prediction.mean, rows.targets.mean(0), atol=0.05)


@pytest.mark.parametrize(("n_rows", "n_neighbors"), [(1, 5), (60, 1)])
def test_a_row_left_without_neighbours_has_a_finite_prediction(
    n_rows: int, n_neighbors: int, generator: torch.Generator
) -> None:
    rows = small_rows(generator, n_rows)
    predictor = NeighbourMember.condition_on(neighbour_model(rows, generator, n_neighbors), rows)
    for tensor in predictor.leave_one_out(rows).tensors():
        assert tensor.isfinite().all()
