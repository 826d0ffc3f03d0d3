"""SSWIMModel as a model of BoTorch."""

from __future__ import annotations

import io
import pickle
from copy import deepcopy

import pytest
import torch

pytest.importorskip("botorch", reason="needs the extra botorch")

from botorch.acquisition.objective import ScalarizedPosteriorTransform
from botorch.models.transforms.input import InputPerturbation, Normalize
from botorch.models.transforms.outcome import ChainedOutcomeTransform, Log, Standardize
from botorch.sampling.normal import SobolQMCNormalSampler
from botorch.sampling.pathwise.posterior_samplers import draw_matheron_paths
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


@pytest.mark.parametrize("shape", [(1,), (3,), (2, 4, 3)])
def test_shapes_of_batches(shape: tuple[int, ...], generator: torch.Generator) -> None:
    X = uniform(generator, *shape, 2)
    for model in (quick_hill(), quick_pair()):
        posterior = model.posterior(X)
        assert posterior.mean.shape == posterior.variance.shape == (*shape, model.num_outputs)
        n = shape[-1] * model.num_outputs
        assert posterior.distribution.covariance_matrix.shape == (*shape[:-1], n, n)
        flat = model.posterior(X.reshape(-1, 1, 2))
        assert torch.allclose(flat.mean.reshape(posterior.mean.shape), posterior.mean)
        assert torch.allclose(flat.variance.reshape(posterior.mean.shape), posterior.variance)


def test_outputs_can_be_chosen(generator: torch.Generator) -> None:
    X = uniform(generator, 3, 2)
    model = quick_pair()
    both = model.posterior(X)
    for output in range(2):
        subset = model.subset_output([output])
        assert subset.num_outputs == 1
        assert torch.equal(subset.train_targets, model.train_targets[:, [output]])
        for found in (model.posterior(X, output_indices=[output]), subset.posterior(X)):
            assert torch.equal(found.mean, both.mean[..., [output]])
            assert torch.equal(found.variance, both.variance[..., [output]])
    weights = torch.tensor([2.0, -0.5], dtype=torch.float64)
    transform = ScalarizedPosteriorTransform(weights, offset=1.0)
    scalar = model.posterior(X, posterior_transform=transform)
    assert torch.allclose(scalar.mean[..., 0], 1 + both.mean @ weights)
    assert torch.allclose(scalar.variance[..., 0], both.variance @ weights**2, atol=1e-8)
    swapped = model.posterior(X, output_indices=[1, 0])
    assert torch.equal(swapped.mean, both.mean.flip(-1))
    assert model.num_outputs == 2


def test_noise_of_observations(generator: torch.Generator) -> None:
    X = uniform(generator, 4, 3, 2)
    for model in (quick_hill(), quick_pair()):
        plain = model.posterior(X)
        given = 0.01 * uniform(generator, 4, 3, model.num_outputs)
        found = model.posterior(X, observation_noise=given)
        for output in range(model.num_outputs):
            surrogate = model._surrogates[output]
            mean, covariance = surrogate.predict_jointly(X, variance=given[..., output])
            _, moments = surrogate.target_map.moments(mean, covariance)
            expected = moments.diagonal(dim1=-2, dim2=-1)
            assert torch.allclose(found.variance[..., output], expected)
        shared = model.posterior(X, observation_noise=given[:1, :1, :1])
        assert shared.mean.shape == plain.mean.shape


def test_known_noise() -> None:
    X, Y = rows(), two_outputs(rows())
    variance = torch.tensor([0.01, 0.04], dtype=torch.float64).expand_as(Y)
    model = quick_model(X, Y, variance)
    plain, noisy = model.posterior(X), model.posterior(X, observation_noise=True)
    given = model.posterior(X, observation_noise=variance)
    assert torch.allclose(noisy.variance, given.variance, atol=1e-6)
    assert torch.allclose(noisy.variance - plain.variance, variance, rtol=0.6)
    subset = model.subset_output([1])
    assert torch.equal(
        subset.posterior(X, observation_noise=True).variance, noisy.variance[..., 1:]
    )
    updated = model.condition_on_observations(X[:3], Y[:3])  # with the mean of the noise
    same = model.condition_on_observations(X[:3], Y[:3], noise=variance[:3])
    assert_same(updated.posterior(X), same.posterior(X))


def test_batches_of_further_observations_equal_a_loop(generator: torch.Generator) -> None:
    model, X, new = quick_hill(), uniform(generator, 4, 5, 2), uniform(generator, 4, 2, 2)
    Y, noise = uniform(generator, 2, 3, 4, 2, 1)
    batched = model.condition_on_observations(new, Y, noise=0.1 * noise)
    assert batched.batch_shape == (3, 4)
    mean = batched.posterior(X).mean
    assert mean.shape == (3, 4, 5, 1)
    for i, j in ((0, 0), (1, 3), (2, 1)):
        single = model.condition_on_observations(new[j], Y[i, j], noise=0.1 * noise[i, j])
        assert torch.allclose(single.posterior(X[j]).mean, mean[i, j], atol=1e-8)


def test_fantasies_are_observations_of_samples(generator: torch.Generator) -> None:
    model, X = quick_pair(), uniform(generator, 4, 2, 2)
    sampler = SobolQMCNormalSampler(torch.Size([3]), seed=0)
    fantasies = model.fantasize(X, sampler)
    assert fantasies.batch_shape == (3, 4)
    drawn = sampler(model.posterior(X, observation_noise=True))
    expected = model.condition_on_observations(X, drawn)
    points = uniform(generator, 3, 4, 6, 2)
    assert_same(fantasies.posterior(points), expected.posterior(points))
    noise = torch.tensor([[0.01, 0.02]], dtype=torch.float64)
    noisy = model.fantasize(X, sampler, observation_noise=noise)
    drawn = sampler(model.posterior(X, observation_noise=noise))
    expected = model.condition_on_observations(X, drawn, noise=noise.expand(4, 2, 2))
    assert_same(noisy.posterior(points), expected.posterior(points))
    empty = model.fantasize(X[:, :0], sampler)
    assert_same(empty.posterior(points), model.posterior(points))


def test_botorchs_paths(generator: torch.Generator) -> None:
    X = uniform(generator, 5, 2)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        single, pair = (
            draw_matheron_paths(model, torch.Size([3])) for model in (quick_hill(), quick_pair())
        )
        torch.manual_seed(0)
        again = draw_matheron_paths(quick_hill(), torch.Size([3]))
        grid = draw_matheron_paths(quick_hill(), torch.Size([2, 3]))
    assert single(X).shape == (3, 5)
    assert torch.equal(single(X), again(X))
    assert torch.allclose(single(X.expand(7, 3, 5, 2))[4], single(X), atol=1e-10)
    assert pair(X).shape == (3, 2, 5)
    assert torch.allclose(pair(X.expand(3, 1, 5, 2)), pair(X), atol=1e-10)
    assert grid(X).shape == (2, 3, 5)


def test_single_precision() -> None:
    X = rows().float().requires_grad_()
    model = quick_model(rows().float(), two_outputs(rows()).float())
    posterior = model.posterior(X)
    base = torch.ones(4, len(X), 2)
    samples = posterior.rsample_from_base_samples(torch.Size([4]), base)
    paths = model.draw_paths(3, torch.Generator().manual_seed(0))(X)
    values = (posterior.mean, posterior.variance, samples, paths)
    assert {value.dtype for value in values} == {torch.float32}
    torch.stack([value.sum() for value in values]).sum().backward()
    assert X.grad is not None
    assert X.grad.dtype == torch.float32
    assert X.grad.isfinite().all()
    expected = quick_pair().posterior(rows())
    assert torch.allclose(posterior.mean.double(), expected.mean, atol=0.01)


def test_copies_are_the_same(generator: torch.Generator) -> None:
    X = uniform(generator, 4, 2)
    model = quick_model(
        rows(), hill(rows()), input_transform=Normalize(2), outcome_transform=Standardize(1)
    )
    buffer = io.BytesIO()
    torch.save(model, buffer)
    buffer.seek(0)
    posterior, inputs = model.posterior(X), model.train_inputs[0].clone()
    assert model.train().eval() is model  # training mode changes nothing
    assert torch.equal(model.train_inputs[0], inputs)
    copies = (
        torch.load(buffer, weights_only=False),
        pickle.loads(pickle.dumps(model)),
        deepcopy(model),
    )
    for copy in (model, *copies):
        assert torch.equal(copy.posterior(X).mean, posterior.mean)
        assert torch.equal(copy.posterior(X).variance, posterior.variance)


def test_seeds_repeat_a_fit_and_the_global_random_state_is_left_alone(
    generator: torch.Generator,
) -> None:
    X, state = uniform(generator, 4, 2), torch.get_rng_state()
    models = [quick_model(rows(), hill(rows()), random_state=seed) for seed in (1, 1, 2)]
    one, same, other = (model.posterior(X).mean for model in models)
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    models[0].draw_paths(2, generator)
    assert torch.equal(torch.get_rng_state(), state)


# Transforms of inputs and targets.


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
