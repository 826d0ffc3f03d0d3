from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from builders.models import DENSITIES, members_of, normal, small_model, small_rows
from builders.neighbours import neighbour_model
from scipy.stats import multivariate_normal

from sswim.base import record as record_module
from sswim.base.record import Record, map_chunks
from sswim.ensemble import Ensemble, make_ensemble
from sswim.ensemble import ensemble as ensemble_module
from sswim.ensemble.mixture import equal_weights
from sswim.members import SSWIM, FeatureMember, NeighbourMember, condition
from sswim.members import feature_member as feature_module
from sswim.members import member as predictor_module
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


def test_one_member_alone(ensemble: Ensemble, inputs: Measure) -> None:
    mixture = ensemble.predict(inputs)
    for number, member in enumerate(members_of(mixture)):
        alone = ensemble.alone(number).predict(inputs)
        assert torch.allclose(alone.mean, member.mean)
        assert alone.weights.tolist() == [1.0]


def test_predictions_are_those_of_the_members_in_the_units_of_the_data(
    ensemble: Ensemble, inputs: Measure
) -> None:
    mixture = ensemble.predict(inputs)
    scaling = ensemble.scaling
    for member, ours in zip(ensemble.members, members_of(mixture), strict=True):
        standardised = member.predict(scaling.inputs(inputs))
        # A Gaussian's quantiles under any monotone map; the median is the image of the mean.
        median = member.factors.output.inverse(standardised.mean)
        expected = median * scaling.target_spread + scaling.target_mean
        assert torch.allclose(ours.quantile(0.5), expected)
        if not member.factors.output.tensors():
            assert torch.allclose(ours.mean, expected)
    assert torch.allclose(mixture.mean, sum(m.mean for m in members_of(mixture)) / 3)  # type: ignore[arg-type]


@pytest.mark.parametrize("uncertain", [False, True])
def test_means_alone_are_the_means(
    uncertain: bool, ensemble: Ensemble, inputs: Measure, monkeypatch: pytest.MonkeyPatch
) -> None:
    if uncertain:
        inputs = Measure(inputs.mean, input_variance=torch.full_like(inputs.mean, 3.0))
    expected = ensemble.predict(inputs).mean
    monkeypatch.setattr(record_module, "CPU_ROWS", 3)
    assert torch.allclose(ensemble.predict_mean(inputs), expected, rtol=1e-11)


def test_inputs_are_cut_into_chunks_once(
    ensemble: Ensemble, inputs: Measure, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A member predicts the same, to the last bit, by the ensemble or directly."""
    seen: list[tuple[str, int]] = []

    def counted(place: str) -> Callable[..., Any]:
        def call(function: Callable[..., Any], record: Record, size: int, **options: Any) -> Any:
            seen.append((place, len(record.tensors()[0])))
            return map_chunks(function, record, size, **options)

        return call

    monkeypatch.setattr(record_module, "CPU_ROWS", 3)
    monkeypatch.setattr(ensemble_module, "map_chunks", counted("ensemble"))
    monkeypatch.setattr(predictor_module, "map_chunks", counted("member"))
    monkeypatch.setattr(feature_module, "map_chunks", counted("member"))
    mixture = ensemble.predict(inputs)
    assert seen == [("ensemble", 7)] * 3
    standardised = ensemble.scaling.inputs(inputs)
    for member, density in zip(ensemble.members, members_of(mixture), strict=True):
        seen.clear()
        directly = member.predict(standardised)
        assert seen == [("member", 7)]
        for ours, theirs in zip(directly.tensors(), density.warped.tensors(), strict=True):
            assert torch.equal(ours, theirs)
    seen.clear()
    ensemble.predict_mean(inputs)
    assert seen in ([("ensemble", 7)], [("ensemble", 7)] * 3)
    seen.clear()
    ensemble.leave_one_out(Rows(inputs, torch.zeros(7, 2, dtype=torch.float64)))
    assert seen == [("member", 7)] * 3


@pytest.mark.parametrize("include_noise", [False, True])
@pytest.mark.parametrize("uncertain", [False, True])
def test_the_joint_covariance_has_the_mixtures_variances(
    ensemble: Ensemble, inputs: Measure, include_noise: bool, uncertain: bool
) -> None:
    if uncertain:
        inputs = Measure(inputs.mean, input_variance=torch.ones_like(inputs.mean))
    covariance = ensemble.covariance(inputs, include_noise=include_noise)
    diagonal = covariance.diagonal(dim1=-2, dim2=-1).mT
    mixture = ensemble.predict(inputs)
    if not include_noise:
        mixture = mixture.without_noise()
    assert torch.allclose(diagonal, mixture.observation_variance)
    assert torch.linalg.eigvalsh(covariance).min() > -1e-8


def _by_features(ensemble: Ensemble) -> list[FeatureMember]:
    return [member for member in ensemble.members if isinstance(member, FeatureMember)]


def test_each_function_comes_from_one_member_in_the_order_drawn(
    ensemble: Ensemble, inputs: Measure
) -> None:
    """Members without posterior variance, so that every draw shows its member."""
    certain = Ensemble(
        ensemble.scaling,
        tuple(
            replace(member, posterior=replace(member.posterior, noise=0 * member.posterior.noise))
            for member in _by_features(ensemble)
        ),
        ensemble.weights,
    )
    drawing = torch.Generator().manual_seed(3)
    chosen = torch.multinomial(ensemble.weights, 50, replacement=True, generator=drawing)
    medians = torch.stack([member.quantile(0.5) for member in members_of(ensemble.predict(inputs))])
    for include_noise in (False, True):
        draws = certain.sample(50, torch.Generator().manual_seed(3), include_noise=include_noise)(
            inputs
        )
        assert torch.allclose(draws, medians[chosen])


@pytest.mark.parametrize("include_noise", [False, True])
def test_drawn_functions_and_observations_are_those_of_the_mixture(
    ensemble: Ensemble, inputs: Measure, include_noise: bool, generator: torch.Generator
) -> None:
    n = 40_000
    draws = ensemble.sample(n, generator, include_noise=include_noise)(inputs)
    mixture = ensemble.predict(inputs)
    if not include_noise:
        mixture = mixture.without_noise()
    standard_error = (mixture.observation_variance / n).sqrt()
    assert ((draws.mean(0) - mixture.mean).abs() < 4.5 * standard_error).all()
    for probability in (0.05, 0.5, 0.95):
        below = (draws < mixture.quantile(probability)).double().mean(0)
        slack = 4.5 * (probability * (1 - probability) / n) ** 0.5
        assert (below - probability).abs().max() < slack


@pytest.mark.parametrize("include_noise", [False, True])
def test_the_joint_covariance_is_that_of_drawn_functions_or_observations(
    ensemble: Ensemble, inputs: Measure, include_noise: bool, generator: torch.Generator
) -> None:
    n = 100_000
    two = Measure(inputs.mean[:1] + torch.tensor([[0.0], [0.5]], dtype=torch.float64))
    draws = ensemble.sample(n, generator, include_noise=include_noise)(two)
    products = (draws - draws.mean(0)).prod(1)  # of the two inputs
    expected = ensemble.covariance(two, include_noise=include_noise)[:, 0, 1]
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
    for member in _by_features(ensemble):
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


def test_updating_equals_conditioning_on_all_rows(
    ensemble: Ensemble, models: list[SSWIM], rows: Rows, inputs: Measure
) -> None:
    first, second = rows.map(lambda t: t[:8]), rows.map(lambda t: t[8:])
    updated = conditioned(models, first, rows).update(second)
    ours, theirs = (e.predict(inputs) for e in (updated, ensemble))
    for mine, expected in zip(ours.tensors(), theirs.tensors(), strict=True):
        assert torch.allclose(mine, expected, rtol=1e-9)
    assert updated.log_evidence().item() == pytest.approx(ensemble.log_evidence().item(), rel=1e-10)


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
    rows: Rows, generator: torch.Generator
) -> None:
    standardised = learn_scaling(rows).rows(rows)
    for n_frequencies, is_kept in ((3, False), (20, True)):
        model = small_model(standardised, generator, n_frequencies=n_frequencies)
        members = [condition(model, standardised)]
        made = make_ensemble(learn_scaling(rows), members, equal_weights(1), standardised)
        assert (made.rows is not None) == is_kept
        assert make_ensemble(made.scaling, members, made.weights, None).rows is None
        others = standardised.map(lambda tensor: tensor[:-1])
        assert make_ensemble(made.scaling, members, made.weights, others).rows is None


def test_rows_are_kept_for_neighbours_and_shared(rows: Rows, generator: torch.Generator) -> None:
    ensemble = mixed(rows, generator, rows)
    by_neighbours = [each for each in ensemble.members if isinstance(each, NeighbourMember)]
    assert len(by_neighbours) == 2
    assert all(each.rows is ensemble.rows for each in by_neighbours)


def test_updating_keeps_the_rows_up_to_date(
    rows: Rows, inputs: Measure, generator: torch.Generator
) -> None:
    first, second = rows.map(lambda t: t[:8]), rows.map(lambda t: t[8:])
    state = generator.get_state()
    expected = mixed(rows, generator, rows)
    updated = mixed(first, generator.set_state(state), rows).update(second)
    for ours, theirs in zip(updated.tensors(), expected.tensors(), strict=True):
        assert torch.equal(ours, theirs)  # joined rows are conditioned on as if at once
    assert updated.rows is not None
    assert all(
        each.rows is updated.rows for each in updated.members if isinstance(each, NeighbourMember)
    )


def test_rows_are_no_longer_kept_when_there_are_many(
    rows: Rows, inputs: Measure, generator: torch.Generator
) -> None:
    scaling = learn_scaling(rows)
    standardised = scaling.rows(rows)
    model = small_model(standardised, generator, n_frequencies=10)
    members = [condition(model, standardised)]
    ensemble = make_ensemble(scaling, members, equal_weights(1), standardised)
    assert ensemble.rows is not None
    more = small_rows(generator, 40, n_targets=2)
    updated = ensemble.update(more)
    assert updated.rows is None
    unkept = Ensemble(scaling, tuple(members), equal_weights(1)).update(more)
    for ours, theirs in zip(
        updated.predict(inputs).tensors(), unkept.predict(inputs).tensors(), strict=True
    ):
        assert torch.allclose(ours, theirs, rtol=1e-8)
