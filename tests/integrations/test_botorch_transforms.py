"""SSWIMModel with BoTorch's transforms of inputs and targets."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("botorch", reason="needs the extra botorch")

from botorch.models.transforms.input import InputPerturbation, Normalize
from botorch.models.transforms.outcome import ChainedOutcomeTransform, Log, Standardize
from botorch.sampling.normal import SobolQMCNormalSampler
from builders.botorch_models import (
    assert_same,
    hill,
    quick_hill,
    quick_model,
    quick_pair,
    rows,
    two_outputs,
)
from builders.models import normal
from builders.surrogates import uniform


def test_inputs_are_transformed(generator: torch.Generator) -> None:
    X, new = uniform(generator, 6, 2), uniform(generator, 2, 2)
    bounds = torch.tensor([[-7.0, 3.0], [93.0, 5.0]], dtype=torch.float64)
    inputs, points, others = (bounds[0] + each * bounds.diff(dim=0) for each in (rows(), X, new))
    model = quick_model(inputs, hill(rows()), input_transform=Normalize(2, bounds=bounds))
    assert torch.equal(model.train_inputs[0], inputs)
    assert_same(model.posterior(points), quick_hill().posterior(X))
    assert_same(
        model.condition_on_observations(others, hill(new)).posterior(points),
        quick_hill().condition_on_observations(new, hill(new)).posterior(X),
    )
    paths = [each.draw_paths(3, torch.Generator().manual_seed(0)) for each in (model, quick_hill())]
    assert torch.allclose(paths[0](points), paths[1](X), atol=1e-8)


def test_transforms_learn_from_the_rows(generator: torch.Generator) -> None:
    transform = Normalize(2).eval()
    model = quick_model(100 * rows(), hill(rows()), input_transform=transform)
    assert not transform.training
    low, high = rows().amin(0), rows().amax(0)
    assert torch.allclose(transform.bounds, 100 * torch.stack((low, high)))
    expected = quick_model((rows() - low) / (high - low), hill(rows()))
    X = uniform(generator, 5, 2)
    assert_same(model.posterior(100 * X), expected.posterior((X - low) / (high - low)))


def test_perturbations_are_for_predictions_only(generator: torch.Generator) -> None:
    perturbation = InputPerturbation(0.01 * normal(generator, 3, 2))
    model = quick_model(rows(), hill(rows()), input_transform=perturbation)
    X = uniform(generator, 4, 2)
    assert model.posterior(X).mean.shape == (12, 1)
    expected = quick_hill().posterior(perturbation.transform(X))
    assert_same(model.posterior(X), expected)
    sampler = SobolQMCNormalSampler(torch.Size([2]), seed=0)
    assert model.fantasize(X[:1], sampler).posterior(X).mean.shape == (2, 12, 1)


@pytest.mark.parametrize("name", ["standardize", "log", "both"])
def test_targets_are_transformed(name: str, generator: torch.Generator) -> None:
    transform = {
        "standardize": Standardize(2),
        "log": Log(),
        "both": ChainedOutcomeTransform(log=Log(), standardize=Standardize(2)),
    }[name]
    Y = two_outputs(rows()) + 0.1
    model = quick_model(rows(), Y, outcome_transform=transform)
    assert torch.equal(model.train_targets, Y)
    X = uniform(generator, 5, 2)
    transformed = transform(Y)[0]
    plain = quick_model(rows(), transformed)
    base = normal(generator, 50, 5, 2)
    posterior = model.posterior(X)
    samples = posterior.rsample_from_base_samples(torch.Size([50]), base)
    own = plain.posterior(X).rsample_from_base_samples(torch.Size([50]), base)
    assert torch.allclose(samples, transform.untransform(own)[0], atol=1e-8)
    seeds = (torch.Generator().manual_seed(5) for _ in range(2))
    paths = [each.draw_paths(3, seed)(X) for each, seed in zip((model, plain), seeds, strict=True)]
    assert torch.allclose(paths[0], transform.untransform(paths[1])[0], atol=1e-8)
    for subset in (model.posterior(X, output_indices=[1]), model.subset_output([1]).posterior(X)):
        chosen = subset.rsample_from_base_samples(torch.Size([50]), base[..., 1])
        assert torch.allclose(chosen, samples[..., 1:], atol=1e-8)
    new = uniform(generator, 2, 2)
    updated = model.condition_on_observations(new, two_outputs(new) + 0.1)
    expected = plain.condition_on_observations(new, transform(two_outputs(new) + 0.1)[0])
    samples = updated.posterior(X).rsample_from_base_samples(torch.Size([50]), base)
    own = expected.posterior(X).rsample_from_base_samples(torch.Size([50]), base)
    assert torch.allclose(samples, transform.untransform(own)[0], atol=1e-8)


def test_standardised_targets_change_nothing(generator: torch.Generator) -> None:
    """Targets are standardised anyway, and the posterior stays one with a distribution."""
    X, Y = uniform(generator, 5, 2), two_outputs(rows())
    model = quick_model(rows(), 50 * Y - 3, outcome_transform=Standardize(2))
    found, expected = model.posterior(X), quick_pair().posterior(X)
    assert torch.allclose(found.mean, 50 * expected.mean - 3, atol=1e-4)
    assert torch.allclose(found.variance, 2500 * expected.variance, rtol=1e-3, atol=1e-6)
    covariance = 2500 * expected.distribution.covariance_matrix
    assert torch.allclose(found.distribution.covariance_matrix, covariance, rtol=1e-3, atol=1e-5)
    subset = model.posterior(X, output_indices=[1])
    assert torch.allclose(subset.mean, found.mean[:, 1:])
