"""Members by neighbours, against scikit-learn's exact GPs and against draws of their inputs.

Functions drawn from them are those of the posterior.
"""

from __future__ import annotations

from dataclasses import replace
from operator import itemgetter
from typing import Any

import pytest
import torch
from builders.models import assert_close, normal, small_rows
from builders.neighbours import (
    KERNELS,
    SCIKIT_LEARN,
    exact_prediction,
    neighbour_model,
    row_of,
    without,
)

from sswim.base.validation import UserError
from sswim.kernels import Kernel
from sswim.members import (
    SSWIM,
    NeighbourMember,
    Prediction,
    condition,
    neighbourhood,
    pathwise,
)
from sswim.members.neighbourhood import NeighbourIndex, thinned
from sswim.rows import Measure, Rows, as_rows

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
of_every_case = pytest.mark.parametrize("changes", CASES.values(), ids=CASES.keys())
of_both_amplitudes = pytest.mark.parametrize("local", [False, True], ids=["global", "local"])


@pytest.fixture
def rows(generator: torch.Generator) -> Rows:
    return small_rows(generator, N_ROWS, n_targets=2, weighted=True)


@pytest.fixture
def inputs(generator: torch.Generator) -> Measure:
    """Eleven inputs, of which the first two are near each other, and the last two equal."""
    x = normal(generator, 11, 3)
    x[1] = x[0] + 0.05
    x[10] = x[9]
    return Measure(x)


def on(model: SSWIM, rows: Rows) -> NeighbourMember:
    member = condition(model, rows)
    assert isinstance(member, NeighbourMember)
    return member


def make(
    rows: Rows, generator: torch.Generator, *, weighted: bool = True, **changes: Any
) -> tuple[SSWIM, Rows]:
    """Make a model whose targets are rounded and whose noise is corrected, and its rows."""
    model = neighbour_model(rows, generator, **changes)
    model.resolution.copy_(torch.tensor([0.1, 0.0]))
    model.noise_correction.copy_(torch.tensor([0.2, -0.1]))
    return model, rows if weighted else replace(rows, weight=None)


@of_every_case
@of_both_amplitudes
def test_with_all_rows_as_neighbours_it_is_the_exact_gp(
    changes: dict[str, Any], local: bool, rows: Rows, inputs: Measure, generator: torch.Generator
) -> None:
    """It is, in leaving one out too, where as many are neighbours as there are other rows."""
    changes = {"n_neighbors": N_ROWS - 1, "local_amplitude": local, **changes}
    model, rows = make(rows, generator, **changes)
    left_out = on(model, rows).leave_one_out(rows)
    for row in (0, 5, 22):
        at = row_of(rows.inputs, row)
        assert_close(row_of(left_out, row), exact_prediction(model, without(rows, row), at))
    model.architecture = replace(model.architecture, n_neighbors=N_ROWS)
    member = on(model, rows)
    ours = member.predict(inputs)
    assert (ours.degrees is not None) == local
    assert_close(ours, exact_prediction(model, rows, inputs))
    assert torch.equal(member.predict_mean_chunk(inputs), ours.mean)


@pytest.mark.parametrize("depth", [0, 1])
def test_single_precision_is_that_of_the_inputs_alone(
    depth: int, generator: torch.Generator
) -> None:
    """Warps are in single precision; the algebra of neighbours is in double precision."""
    rows = small_rows(generator, N_ROWS, n_targets=2, dtype=torch.float32)
    inputs = Measure(normal(generator, 11, 3).float())
    model, _ = make(rows, generator, depth=depth)
    ours = on(model, rows).predict(inputs)
    assert_close(ours, exact_prediction(model, rows, inputs))
    double = replace(rows, inputs=rows.inputs.to(dtype=torch.float64))
    exact = on(model, double).predict(inputs.to(dtype=torch.float64))
    assert_close(ours, exact, 1e-4 if depth else 1e-9)
    assert ours.mean.dtype == torch.float64


@of_both_amplitudes
@pytest.mark.parametrize("n_inputs", [3, 5], ids=["map", "many inputs"])
@pytest.mark.parametrize("n_neighbors", [1, 8, 40])
def test_a_prediction_is_the_exact_gp_of_its_neighbours(
    n_neighbors: int, n_inputs: int, local: bool, generator: torch.Generator
) -> None:
    """Its amplitude is that of the first of them: on a map, of near and far ones."""
    x = normal(generator, 150, n_inputs)
    rows = as_rows(x, (x @ normal(generator, n_inputs, 2)).sin())
    inputs = Measure(normal(generator, 11, n_inputs))
    model, _ = make(rows, generator, n_neighbors=n_neighbors, depth=1, local_amplitude=local)
    member = on(model, rows)
    scales = model.spectrum.length_scales().detach()
    known, points = (member.warp(each)[-1].mean / scales for each in (rows.inputs, inputs))
    index = NeighbourIndex(known, thinned(rows.inputs.mean))
    ours = member.predict(inputs)
    n_first = 2 * neighbourhood.N_AMPLITUDE if n_inputs == 3 else neighbourhood.N_AMPLITUDE
    for number, numbers in enumerate(index.neighbours(points, n_neighbors)):
        at = row_of(inputs, number)
        expected = exact_prediction(model, rows.take(numbers[numbers >= 0]), at)
        if local and n_neighbors > n_first:
            first = numbers[:n_first]
            scaled = exact_prediction(model, rows.take(first[first >= 0]), at)
            expected = rescaled(expected, scaled, model)
        assert_close(row_of(ours, number), expected)


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


def test_a_row_that_counts_several_times_is_left_out_as_often_as_it_is_given(
    generator: torch.Generator,
) -> None:
    rows = small_rows(generator, 12)
    weight = torch.tensor([1.0, 2.0, 3.0] * 4, dtype=torch.float64)
    weighted = replace(rows, weight=weight)
    model = neighbour_model(rows, generator, local_amplitude=False)
    member = on(model, weighted)
    entirely, once = member.leave_one_out(weighted), member.leave_one_out(rows)
    for row in (0, 1, 2):
        at = row_of(rows.inputs, row)
        assert_close(row_of(entirely, row), exact_prediction(model, without(weighted, row), at))
        less = weight.clone()
        less[row] -= 1
        others = replace(rows, weight=less).take(less.nonzero()[:, 0])
        assert_close(row_of(once, row), exact_prediction(model, others, at))


def test_one_of_two_copies_is_left_out(generator: torch.Generator) -> None:
    """Copies need not be merged, and a row with the same inputs but another target is no copy."""
    rows = small_rows(generator, 12)
    rows.inputs.mean[3:6] = rows.inputs.mean[3]
    rows.targets[4] = rows.targets[3]
    model = neighbour_model(rows, generator, n_neighbors=11)
    ours = on(model, rows).leave_one_out(rows)
    for row in (3, 5, 7):
        expected = exact_prediction(model, without(rows, row), row_of(rows.inputs, row))
        assert_close(row_of(ours, row), expected)


def test_rows_that_it_does_not_hold_are_predicted_from_as_many_neighbours(
    generator: torch.Generator,
) -> None:
    rows = small_rows(generator, 40)
    known, other = rows.map(lambda t: t[:30]), rows.map(lambda t: t[30:])
    member = on(neighbour_model(rows, generator, n_neighbors=6), known)
    assert member.degrees is not None
    for prediction in (member.leave_one_out(other), member.predict(other.inputs)):
        assert prediction.degrees is not None
        more = prediction.degrees - member.degrees
        assert more.max() <= 5  # ν + m − 1
        assert more.min() >= 2


@pytest.mark.parametrize(("n_rows", "n_neighbors"), [(1, 5), (60, 1)])
def test_a_row_left_without_neighbours_has_a_finite_prediction(
    n_rows: int, n_neighbors: int, generator: torch.Generator
) -> None:
    rows = small_rows(generator, n_rows)
    member = on(neighbour_model(rows, generator, n_neighbors), rows)
    assert all(tensor.isfinite().all() for tensor in member.leave_one_out(rows).tensors())


# More rows, copies, and no rows.


def test_updating_merges_copies_and_joins_what_only_some_rows_have(
    inputs: Measure, generator: torch.Generator
) -> None:
    rows = small_rows(generator, 12, weighted=True, uncertain=True)
    plain = Rows(Measure(rows.inputs.mean), rows.targets)
    model = neighbour_model(rows, generator, n_neighbors=30)
    doubled = on(model, plain).update(plain)
    assert doubled.rows.weight is not None
    assert torch.equal(doubled.rows.weight, torch.full((12,), 2.0, dtype=torch.float64))
    assert doubled.count == 24
    # Rows without weights count once, and rows without variances are exact.
    assert rows.weight is not None
    assert rows.inputs.input_variance is not None
    for parts in ((rows, plain), (plain, rows)):
        first, second = (each.map(itemgetter(s)) for each, s in zip(parts, HALVES, strict=True))
        joined = on(model, first).update(second).predict(inputs)
        weight, variance = rows.weight.clone(), rows.inputs.input_variance.clone()
        exact = HALVES[1 if parts[1] is plain else 0]
        weight[exact], variance[exact] = 1, 0
        both = Rows(Measure(rows.inputs.mean, input_variance=variance), rows.targets, weight)
        assert_close(joined, on(model, both).predict(inputs))


def test_a_model_without_rows_asks_for_them(inputs: Measure, generator: torch.Generator) -> None:
    rows = small_rows(generator, 12)
    model = neighbour_model(rows, generator)
    empty = on(model, rows.no_rows())
    assert empty.count == 0
    draws = empty.sample(2, generator)
    for method in (empty.predict, empty.covariance, empty.predict_mean_chunk, draws):
        with pytest.raises(UserError, match=r"saved without them.*partial_fit"):
            method(inputs)
    assert_close(empty.update(rows).predict(inputs), on(model, rows).predict(inputs), 1e-12)


# Extremes.


def test_duplicates_with_different_targets_and_no_noise_are_averaged(
    generator: torch.Generator,
) -> None:
    """They are almost singular: the ridge is the smallest there is."""
    rows = small_rows(generator, 12)
    rows.inputs.mean[6:] = rows.inputs.mean[:6]
    model = neighbour_model(rows, generator)
    with torch.no_grad():
        model.log_noise.fill_(-60)
    member = on(model, rows)
    prediction = member.predict(rows.inputs)
    for tensor in (*prediction.tensors(), *member.leave_one_out(rows).tensors()):
        assert tensor.isfinite().all()
    expected = (rows.targets[:6] + rows.targets[6:]) / 2
    assert torch.allclose(prediction.mean[:6], expected, atol=1e-5)


def test_coordinates_far_from_the_origin_change_nothing(
    rows: Rows, inputs: Measure, generator: torch.Generator
) -> None:
    model = neighbour_model(rows, generator)
    expected = on(model, rows).predict(inputs)
    moved = replace(rows, inputs=Measure(rows.inputs.mean + 2**20))
    assert_close(on(model, moved).predict(Measure(inputs.mean + 2**20)), expected, 1e-6)


# Uncertain inputs.


@pytest.mark.parametrize("depth", [0, 1])
@pytest.mark.parametrize("spread", [0.05, 0.3])
def test_uncertain_inputs_against_draws_of_them(
    depth: int, spread: float, generator: torch.Generator
) -> None:
    """The nodes are few, so the moments are right to a few percent of the spread."""
    rows = small_rows(generator, 24)
    member = on(neighbour_model(rows, generator, depth=depth), rows)
    x = normal(generator, 5, 3)
    # One input is known exactly: the first, one in the middle, the last, none.
    deviation = spread * (0.5 + torch.rand(5, 3, generator=generator, dtype=torch.float64))
    deviation[[0, 1, 2], [0, 1, 2]] = 0
    covariance = deviation.square().diag_embed()
    root = 0.2 * normal(generator, 3, 2)  # the last row's inputs are correlated
    covariance[4] = root @ root.T
    draws_of_rows = normal(generator, 2000, 5, 3) * deviation
    draws_of_rows[:, 4] = normal(generator, 2000, 2) @ root.T
    diagonal = member.predict(Measure(x, input_variance=deviation.square()))
    ours = member.predict(Measure(x, input_variance=covariance))
    assert_close(diagonal.map(lambda t: t[:4]), ours.map(lambda t: t[:4]), 1e-9)
    for row in range(5):
        draws = member.predict(Measure(x[row] + draws_of_rows[:, row]))
        total = draws.observation_variance.mean(0) + draws.mean.var(0)
        latent = draws.latent_variance.mean(0) + draws.mean.var(0)
        error = (draws.mean.mean(0) - ours.mean[row]).abs()
        assert (error < 0.1 * total.sqrt()).all()
        assert torch.allclose(ours.observation_variance[row], total, rtol=0.1)
        assert torch.allclose(ours.latent_variance[row], latent, rtol=0.15)


def test_inputs_with_no_variance_are_points(
    rows: Rows, inputs: Measure, generator: torch.Generator
) -> None:
    model, _ = make(rows, generator, depth=1, noise="input-dependent", output_warp="tanh")
    member = on(model, rows)
    known = replace(rows.inputs, input_variance=torch.zeros_like(rows.inputs.mean))
    certain = on(model, replace(rows, inputs=known))
    assert_close(certain.predict(inputs), member.predict(inputs), 1e-6)
    assert_close(certain.leave_one_out(rows), member.leave_one_out(rows), 1e-6)


def test_rows_whose_inputs_are_nearly_unknown_say_little(
    inputs: Measure, generator: torch.Generator
) -> None:
    rows = small_rows(generator, 30)
    model = neighbour_model(rows, generator, local_amplitude=False)
    before = on(model, rows).predict(inputs).latent_variance
    for spread in (0.1, 1.0, 100.0):
        variance = torch.full_like(rows.inputs.mean, spread)
        blurred = replace(rows, inputs=replace(rows.inputs, input_variance=variance))
        prediction = on(model, blurred).predict(inputs)
        assert (prediction.latent_variance > before).all()
        before = prediction.latent_variance
    assert torch.allclose(prediction.mean, rows.targets.mean(0), atol=0.05)


# Drawn functions, and joint covariances.

DRAWN: dict[str, dict[str, Any]] = {
    **{kernel: {"kernel": kernel} for kernel in KERNELS},
    "one amplitude": {"local_amplitude": False},
    "few neighbours": {"n_neighbors": 6},
    "warped": {"depth": 1, "noise": "input-dependent", "output_warp": "tanh"},
    "uncertain rows": {"uncertain": True},
}


@pytest.fixture(params=[*DRAWN.values()], ids=[*DRAWN.keys()])
def member(
    rows: Rows, generator: torch.Generator, request: pytest.FixtureRequest
) -> NeighbourMember:
    """A member from rows whose inputs are known, or uncertain, some of them hardly."""
    changes = dict(request.param)
    if changes.pop("uncertain", False):
        variance = 0.3 * normal(generator, *rows.inputs.mean.shape).square()
        variance[::3] = 0
        rows = replace(rows, inputs=replace(rows.inputs, input_variance=variance))
    return on(neighbour_model(rows, generator, **changes), rows)


def test_draws_have_the_predicted_moments(member: NeighbourMember, inputs: Measure) -> None:
    """They have, up to chance and the error of the draws' kernel."""
    n = 1000
    prediction = member.predict(inputs)
    functions, observations = (
        member.sample(n, torch.Generator().manual_seed(seed), include_noise=seed == 2)
        for seed in (1, 2)
    )
    latent, observed, again = functions(inputs), observations(inputs), observations(inputs)
    for draws, variance in (
        (latent, prediction.latent_variance),
        (observed, prediction.observation_variance),
    ):
        assert ((draws.mean(0) - prediction.mean).abs() < 4.5 * (variance / n).sqrt()).all()
        assert torch.allclose(draws.var(0), variance, rtol=0.25)
        assert abs((draws.var(0) / variance).log().mean().item()) < 0.05
    noise = prediction.observation_variance - prediction.latent_variance
    assert torch.allclose((observed - again).var(0), 2 * noise, rtol=0.25)  # of the same functions
    centred = latent - latent.mean(0)
    errors = torch.einsum("nit,njt->tij", centred, centred) / (n - 1)
    deviation = prediction.latent_variance.mT.sqrt()
    scale = deviation[:, :, None] * deviation[:, None, :]
    unlike = (errors - member.covariance(inputs)) / scale
    assert unlike.abs().max() < 0.25
    assert unlike.square().mean().sqrt() < 0.08


def test_draws_have_the_tails_of_a_student_t(rows: Rows, inputs: Measure) -> None:
    """Each draw has one amplitude, with as many degrees of freedom as the prediction."""
    generator = torch.Generator().manual_seed(0)
    few = rows.map(lambda t: t[:4])
    member = on(neighbour_model(few, generator), few)
    prediction = member.predict(inputs)
    assert prediction.degrees is not None
    assert prediction.degrees.max() < 10
    draws = member.sample(4000, generator)(inputs)
    scale = prediction.latent_variance.sqrt() * prediction.scale_ratio()
    level = torch.special.ndtri(torch.tensor([0.95], dtype=torch.float64))
    stretched = prediction.stretch(level)[0] * prediction.latent_variance.sqrt()
    above = ((draws - prediction.mean) > stretched).double().mean(0)
    assert (above - 0.05).abs().max() < 0.03
    assert (above - 0.05).mean().abs() < 0.01
    assert ((draws - prediction.mean) / scale).abs().max() > 6


def test_the_joint_covariance_has_the_latent_variances_and_is_one(
    member: NeighbourMember, inputs: Measure, monkeypatch: pytest.MonkeyPatch
) -> None:
    covariance = member.covariance(inputs)
    assert covariance.shape == (2, 11, 11)
    diagonal = covariance.diagonal(dim1=-2, dim2=-1).mT
    assert torch.allclose(diagonal, member.predict(inputs).latent_variance, rtol=1e-12)
    assert torch.allclose(covariance, covariance.mT, rtol=1e-9, atol=1e-12)
    values = torch.linalg.eigvalsh(covariance)
    known = member.rows.inputs.input_variance is None
    assert (values.amin(-1) > -(1e-8 if known else 1e-3) * values.amax(-1)).all()
    rtol = 1e-6 if known else 0.03
    assert torch.allclose(covariance[:, 9, 10], covariance[:, 9, 9], rtol=rtol)
    monkeypatch.setattr(pathwise, "BLOCK_ROWS", 7)
    assert torch.allclose(member.covariance(inputs), covariance, rtol=1e-9, atol=1e-12)
    # Uncertain inputs widen the diagonal alone.
    blurred = Measure(inputs.mean, input_variance=torch.full_like(inputs.mean, 0.1))
    wider = member.covariance(blurred)
    off = ~torch.eye(11, dtype=torch.bool)
    assert torch.allclose(wider[:, off], covariance[:, off], rtol=1e-9, atol=1e-12)
    diagonal = wider.diagonal(dim1=-2, dim2=-1).mT
    assert torch.allclose(diagonal, member.predict(blurred).latent_variance, rtol=1e-9)


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_joint_covariance_is_that_of_the_exact_gp(
    kernel: Kernel, rows: Rows, inputs: Measure, generator: torch.Generator
) -> None:
    """It is, if all rows are neighbours: here from a posterior with an unknown constant."""
    model = neighbour_model(rows, generator, kernel=kernel, local_amplitude=False)
    ours = condition(model, rows).covariance(inputs)
    known, points = (
        each.mean / model.spectrum.length_scales().detach() for each in (rows.inputs, inputs)
    )
    of = SCIKIT_LEARN[kernel](1.0)
    own, towards, rest = (
        torch.from_numpy(of(a.numpy(), b.numpy()))
        for a, b in ((known, known), (known, points), (points, points))
    )
    assert rows.weight is not None
    for target in range(2):
        ridge = model.noise()[target] / model.signal()[target] / rows.weight
        inverse = (own + ridge.diag()).inverse().detach()
        missing = 1 - inverse.sum(0) @ towards  # 1 − 1ᵀK⁻¹k
        unit = rest - towards.T @ inverse @ towards
        unit = unit + missing[:, None] * missing[None] / inverse.sum()
        expected = unit * model.signal()[target].detach()
        assert torch.allclose(ours[target], expected, rtol=1e-7, atol=1e-9)
