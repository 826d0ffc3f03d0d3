from __future__ import annotations

from typing import Any

import pytest
import torch
from builders.models import DENSITIES, assert_close, members_of, normal, small_model, small_rows
from builders.neighbours import neighbour_model
from scipy.stats import multivariate_normal

from sswim.base import record as record_module
from sswim.ensemble import Ensemble, PendingUpdates, make_ensemble
from sswim.ensemble.mixture import equal_weights
from sswim.members import SSWIM, FeatureMember, NeighbourMember, condition
from sswim.members.member import join_rows
from sswim.members.model import log_precision, row_features
from sswim.rows import Measure, Rows, as_rows, learn_scaling


@pytest.fixture(params=[*DENSITIES.values()], ids=[*DENSITIES.keys()])
def density(request: pytest.FixtureRequest) -> dict[str, Any]:
    return dict(request.param)


@pytest.fixture
def rows(generator: torch.Generator) -> Rows:
    """Rows that are far from standardised."""
    rows = small_rows(generator, n_targets=2)
    return as_rows(100 + 10 * rows.inputs.mean, 5 - 3 * rows.targets)


@pytest.fixture
def models(rows: Rows, density: dict[str, Any], generator: torch.Generator) -> list[SSWIM]:
    standardised = learn_scaling(rows).rows(rows)
    return [small_model(standardised, generator, **density) for _ in range(3)]


def conditioned(models: list[SSWIM], rows: Rows, scaled_by: Rows) -> Ensemble:
    scaling = learn_scaling(scaled_by)
    members = tuple(condition(model, scaling.rows(rows)) for model in models)
    return Ensemble(scaling, members, equal_weights(len(members)))


@pytest.fixture
def ensemble(models: list[SSWIM], rows: Rows) -> Ensemble:
    return conditioned(models, rows, rows)


@pytest.fixture
def inputs(generator: torch.Generator) -> Measure:
    return Measure(100 + 10 * normal(generator, 7, 3))


def test_predictions_are_those_of_the_members_in_the_units_of_the_data(
    ensemble: Ensemble, inputs: Measure
) -> None:
    mixture = ensemble.predict(inputs)
    scaling = ensemble.scaling
    for number, ours in enumerate(members_of(mixture)):
        alone = ensemble.alone(number).predict(inputs)
        assert torch.allclose(alone.mean, ours.mean)
        assert alone.weights.tolist() == [1.0]
        member = ensemble.members[number]
        standardised = member.predict(scaling.inputs(inputs))
        # A Gaussian's quantiles under any monotone map; the median is the image of the mean.
        median = member.factors.output.inverse(standardised.mean)
        expected = median * scaling.target_spread + scaling.target_mean
        assert torch.allclose(ours.quantile(0.5), expected)
        if not member.factors.output.tensors():
            assert torch.allclose(ours.mean, expected)
    assert torch.allclose(mixture.mean, sum(m.mean for m in members_of(mixture)) / 3)  # type: ignore[arg-type]


@pytest.mark.parametrize("uncertain", [False, True])
def test_chunks_of_inputs_change_nothing(
    uncertain: bool, ensemble: Ensemble, inputs: Measure, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A member predicts the same, to the last bit, by the ensemble or directly."""
    if uncertain:
        inputs = Measure(inputs.mean, input_variance=torch.full_like(inputs.mean, 3.0))
    expected = ensemble.predict(inputs)
    monkeypatch.setattr(record_module, "CPU_ROWS", 3)
    assert torch.allclose(ensemble.predict_mean(inputs), expected.mean, rtol=1e-11)
    mixture, standardised = ensemble.predict(inputs), ensemble.scaling.inputs(inputs)
    assert torch.allclose(mixture.mean, expected.mean, rtol=1e-11)
    for member, density in zip(ensemble.members, members_of(mixture), strict=True):
        assert_close(member.predict(standardised), density.warped, 0.0)


@pytest.mark.parametrize("include_noise", [False, True])
def test_draws_have_the_moments_and_quantiles_of_the_mixture(
    ensemble: Ensemble, inputs: Measure, include_noise: bool, generator: torch.Generator
) -> None:
    n = 40_000
    near = Measure(inputs.mean[:1] + torch.tensor([[0.0], [0.5]], dtype=torch.float64))
    draws = ensemble.sample(n, generator, include_noise=include_noise)(near)
    mixture = ensemble.predict(near)
    mixture = mixture if include_noise else mixture.without_noise()
    standard_error = (mixture.observation_variance / n).sqrt()
    assert ((draws.mean(0) - mixture.mean).abs() < 4.5 * standard_error).all()
    for probability in (0.05, 0.5, 0.95):
        below = (draws < mixture.quantile(probability)).double().mean(0)
        slack = 4.5 * (probability * (1 - probability) / n) ** 0.5
        assert (below - probability).abs().max() < slack
    products = (draws - draws.mean(0)).prod(1)  # of the two inputs
    expected = ensemble.covariance(near, include_noise=include_noise)[:, 0, 1]
    assert ((products.mean(0) - expected).abs() < 4.5 * products.std(0) / n**0.5).all()


def test_the_evidence_of_one_member_is_its_own(ensemble: Ensemble) -> None:
    alone = [
        Ensemble(ensemble.scaling, (member,), equal_weights(1)).log_evidence()
        for member in ensemble.members
    ]
    together = ensemble.log_evidence()
    assert min(alone) <= together <= max(alone)
    best = max(alone)  # subtracted so that exponentials do not overflow
    expected = best + (torch.stack(alone) - best).exp().mean().log()
    assert torch.allclose(together, expected, rtol=1e-12)


@torch.no_grad()
def test_the_evidence_against_the_dense_density_of_the_targets(
    ensemble: Ensemble, rows: Rows
) -> None:
    """In the units of the targets: log p(y) = log p(z) + Σ log T' − Σ log spread."""
    standardised = ensemble.scaling.rows(rows)
    for member in ensemble.members:
        assert isinstance(member, FeatureMember)
        z, log_slope = member.factors.output.forward(standardised.targets)
        features = row_features(member.factors, standardised.inputs)
        precision = log_precision(member.factors, standardised.inputs)
        expected = (log_slope - ensemble.scaling.target_spread.log()).sum().item()
        for t in range(2):
            noise = member.posterior.noise[t].expand(len(rows))
            if precision is not None:
                noise = noise / precision[:, t].exp()
            covariance = member.signal[t] * features @ features.mT + noise.diag()
            expected += float(multivariate_normal.logpdf(z[:, t].numpy(), cov=covariance.numpy()))
        ours = Ensemble(ensemble.scaling, (member,), equal_weights(1)).log_evidence().item()
        assert ours == pytest.approx(expected, rel=1e-10)


def test_leaving_one_out_equals_conditioning_on_the_others(
    ensemble: Ensemble, models: list[SSWIM], rows: Rows
) -> None:
    left_out = ensemble.leave_one_out(rows)
    for row in (0, 9, 22):
        others = rows.map(lambda t, row=row: torch.cat((t[:row], t[row + 1 :])))  # type: ignore[misc]
        expected = conditioned(models, others, rows).predict(rows.inputs)
        for name in ("mean", "observation_variance"):
            for one, other in (
                (left_out, expected),
                (left_out.without_noise(), expected.without_noise()),
            ):
                ours, theirs = getattr(one, name)[row], getattr(other, name)[row]
                assert torch.allclose(ours, theirs, rtol=1e-7)
        ours, theirs = (m.log_density(rows.targets)[row] for m in (left_out, expected))
        assert torch.allclose(ours, theirs, rtol=1e-8)


def mixed(rows: Rows, generator: torch.Generator, scaled_by: Rows) -> Ensemble:
    """Make an ensemble of members by features and by neighbours that keeps its rows."""
    scaling = learn_scaling(scaled_by)
    standardised = scaling.rows(rows)
    models = [
        small_model(scaling.rows(scaled_by), generator, n_frequencies=20),
        neighbour_model(scaling.rows(scaled_by), generator, 8),
        neighbour_model(scaling.rows(scaled_by), generator, 8, depth=1),
    ]
    members = [condition(model, standardised) for model in models]
    return make_ensemble(scaling, members, equal_weights(3), standardised)


def test_rows_are_kept_where_they_are_smaller_than_statistics(
    rows: Rows, inputs: Measure, generator: torch.Generator
) -> None:
    scaling = learn_scaling(rows)
    standardised = scaling.rows(rows)
    for n_frequencies, is_kept in ((3, False), (10, True)):
        model = small_model(standardised, generator, n_frequencies=n_frequencies)
        members = [condition(model, standardised)]
        made = make_ensemble(scaling, members, equal_weights(1), standardised)
        assert (made.rows is not None) == is_kept
        assert make_ensemble(scaling, members, made.weights, None).rows is None
        others = standardised.map(lambda tensor: tensor[:-1])
        assert make_ensemble(scaling, members, made.weights, others).rows is None
    more = small_rows(generator, 40, n_targets=2)
    updated = made.update(more)
    assert updated.rows is None  # there are many
    unkept = Ensemble(scaling, tuple(members), equal_weights(1)).update(more)
    assert_close(updated.predict(inputs), unkept.predict(inputs))


def test_neighbours_share_the_rows_which_updates_keep(
    rows: Rows, generator: torch.Generator
) -> None:
    first, second = rows.map(lambda t: t[:8]), rows.map(lambda t: t[8:])
    state = generator.get_state()
    expected = mixed(rows, generator, rows)
    updated = mixed(first, generator.set_state(state), rows).update(second)
    assert_close(updated, expected, 0.0)  # joined rows are conditioned on as if at once
    for ensemble in (expected, updated):
        assert ensemble.rows is not None
        shared = [each for each in ensemble.members if isinstance(each, NeighbourMember)]
        assert len(shared) == 2
        assert all(each.rows is ensemble.rows for each in shared)


# Rows that wait.


@pytest.fixture(params=[torch.float64, torch.float32], ids=str)
def dtype(request: pytest.FixtureRequest) -> torch.dtype:
    value: torch.dtype = request.param
    return value


@pytest.fixture
def first(generator: torch.Generator, dtype: torch.dtype) -> Rows:
    return small_rows(generator, dtype=dtype)


@pytest.fixture(params=["features", "neighbours", "both"])
def updatable(request: pytest.FixtureRequest, first: Rows, generator: torch.Generator) -> Ensemble:
    scaling = learn_scaling(first)
    rows = scaling.rows(first)
    models = []
    if request.param != "neighbours":
        models.append(small_model(rows, generator, depth=2))
    if request.param != "features":
        models.append(neighbour_model(rows, generator, 8, depth=1))
    members = [condition(model, rows) for model in models]
    return make_ensemble(scaling, members, equal_weights(len(models)), rows)


def require_close(ours: Ensemble, theirs: Ensemble, points: Rows) -> None:
    """Check that predictions differ by at most 1e-8 of the targets' spread."""
    found = [
        (mixture.mean, mixture.observation_variance.sqrt(), mixture.log_density(points.targets))
        for mixture in (each.predict(points.inputs) for each in (ours, theirs))
    ]
    for mine, expected in zip(*found, strict=True):
        assert (mine - expected).abs().max() < 1e-8 * points.targets.std()


def test_pieces_of_any_kind_in_any_order_with_predictions_between(
    updatable: Ensemble,
    dtype: torch.dtype,
    generator: torch.Generator,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(record_module, "CPU_ROWS", 100)  # rows are added several times on the way
    plain = small_rows(generator, 25, dtype=dtype)
    forms: tuple[dict[str, bool], ...] = ({}, {"weighted": True}, {"uncertain": True})
    pieces = [plain, *(small_rows(generator, 25, dtype=dtype, **forms[i % 3]) for i in range(30))]
    pieces.append(plain)
    points = small_rows(generator, 20, dtype=dtype)
    at_once = updatable.update(join_rows(pieces))
    for order, predicted_every in ((pieces, 7), (pieces[::-1], 3)):
        updates = PendingUpdates(updatable)
        for number, piece in enumerate(order):
            updates = updates.add(piece)
            if number % predicted_every == 0:
                updates.ensemble.predict(points.inputs)
        require_close(updates.ensemble, at_once, points)


def test_few_rows_wait_until_the_ensemble_is_used(
    updatable: Ensemble, generator: torch.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_module, "CPU_ROWS", 30)
    piece = small_rows(generator, 9)
    waiting = PendingUpdates(updatable).add(piece).add(piece)
    assert (waiting.base, waiting.n_waiting) == (updatable, 18)
    used = waiting.ensemble
    assert used is waiting.ensemble
    assert used.members[0].count == 23 + 18
    again = waiting.add(piece)
    assert again.base is used
    assert again.n_waiting == 9
    full = again.add(piece).add(piece).add(piece)
    n_held = 0 if used.rows is None else len(used.rows)
    assert n_held <= 36
    assert full.n_waiting == 0
    assert full.ensemble.members[0].count == 23 + 18 + 36
