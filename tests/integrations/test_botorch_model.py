"""SSWIMModel as a model of BoTorch."""

from __future__ import annotations

import io
import pickle
from copy import deepcopy

import pytest
import torch

pytest.importorskip("botorch", reason="needs the extra botorch")

from botorch.acquisition.objective import ScalarizedPosteriorTransform
from botorch.models.transforms.input import Normalize
from botorch.models.transforms.outcome import Standardize
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
