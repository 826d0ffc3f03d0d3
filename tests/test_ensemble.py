from __future__ import annotations

import pytest
import torch
from helpers import normal, small_model, small_rows

from sswim.ensemble import Ensemble
from sswim.measure import Measure
from sswim.predictor import condition
from sswim.rows import Rows, as_rows
from sswim.scaling import learn_scaling


@pytest.fixture
def rows(generator: torch.Generator) -> Rows:
    """Far from standardised."""
    rows = small_rows(generator, n_targets=2)
    return as_rows(100 + 10 * rows.inputs.mean, 5 - 3 * rows.targets)


@pytest.fixture
def ensemble(rows: Rows, generator: torch.Generator) -> Ensemble:
    scaling = learn_scaling(rows)
    standardised = scaling.rows(rows)
    members = [condition(small_model(standardised, generator), standardised) for _ in range(3)]
    return Ensemble(scaling, tuple(members))


@pytest.fixture
def inputs(generator: torch.Generator) -> Measure:
    return Measure(100 + 10 * normal(generator, 7, 3))


def test_predictions_are_those_of_the_members_in_the_units_of_the_data(
    ensemble: Ensemble, inputs: Measure
) -> None:
    mixture = ensemble.predict(inputs)
    scaling = ensemble.scaling
    for member, ours in zip(ensemble.members, mixture.members, strict=True):
        standardised = member.predict(scaling.inputs(inputs))
        expected = standardised.mean * scaling.target_spread + scaling.target_mean
        assert torch.allclose(ours.mean, expected)
    assert torch.allclose(mixture.mean, sum(m.mean for m in mixture.members) / 3)  # type: ignore[arg-type]


def test_the_joint_covariance_has_the_mixtures_variances(
    ensemble: Ensemble, inputs: Measure
) -> None:
    covariance = ensemble.covariance(inputs)
    diagonal = covariance.diagonal(dim1=-2, dim2=-1).mT
    assert torch.allclose(diagonal, ensemble.predict(inputs).latent_variance)
    assert torch.linalg.eigvalsh(covariance).min() > -1e-8


def test_each_function_comes_from_one_member_in_the_order_drawn(
    ensemble: Ensemble, inputs: Measure
) -> None:
    """Members made certain, so that every draw shows whose it is."""
    certain = Ensemble(
        ensemble.scaling,
        tuple(
            type(member)(
                member.factors,
                member.signal,
                member.statistics,
                type(member.posterior)(
                    member.posterior.mean, member.posterior.factor, 0 * member.posterior.noise
                ),
            )
            for member in ensemble.members
        ),
    )
    draws = certain.sample(50, torch.Generator().manual_seed(3))(inputs)
    chosen = torch.randint(3, (50,), generator=torch.Generator().manual_seed(3))
    means = torch.stack([member.mean for member in ensemble.predict(inputs).members])
    assert torch.allclose(draws, means[chosen])


def test_the_evidence_of_one_member_is_its_own(ensemble: Ensemble) -> None:
    alone = [Ensemble(ensemble.scaling, (member,)).log_evidence() for member in ensemble.members]
    together = ensemble.log_evidence()
    assert min(alone) <= together <= max(alone)
    assert torch.allclose(together, torch.stack(alone).exp().mean().log())
