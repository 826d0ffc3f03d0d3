"""The posterior of an SSWIMModel."""

from __future__ import annotations

from unittest import TestCase

import pytest
import torch
from torch import Tensor

pytest.importorskip("botorch", reason="needs the extra botorch")

from botorch.posteriors.gpytorch import GPyTorchPosterior
from botorch.sampling.get_sampler import get_sampler
from botorch.utils.testing import BotorchTestCase
from builders.botorch_models import quick_hill, quick_model, quick_pair, rows, two_outputs
from builders.models import normal
from builders.surrogates import bent_map, uniform

from sswim.integrations.botorch_posterior import OutputMoments, SSWIMPosterior
from sswim.surrogate import LogarithmicMap


def random_posterior(
    generator: torch.Generator, *shape: int, n_outputs: int = 1, dtype: torch.dtype = torch.float64
) -> SSWIMPosterior:
    """Make a posterior of random moments and bent target maps."""
    outputs = []
    for _ in range(n_outputs):
        root = 0.3 * normal(generator, *shape, shape[-1])
        moments = 0.3 * normal(generator, *shape), root @ root.mT
        outputs.append(OutputMoments(*moments, bent_map(generator)))
    return SSWIMPosterior(outputs, dtype)


class TestBoTorchsShapes(BotorchTestCase, TestCase):  # type: ignore[misc]
    """Run as a test case of BoTorch, which shows all warnings."""

    def test_shapes_are_those_of_a_gpytorch_posterior(self) -> None:
        generator = torch.Generator().manual_seed(0)
        for shape in ((3,), (2, 3), (2, 1, 3)):
            for n_outputs in (1, 2):
                ours = random_posterior(generator, *shape, n_outputs=n_outputs)
                theirs = GPyTorchPosterior(ours.distribution)
                for name in ("base_sample_shape", "batch_range", "dtype", "device"):
                    assert getattr(ours, name) == getattr(theirs, name)
                assert ours.batch_shape == torch.Size(shape[:-1])
                for sample in (torch.Size(), torch.Size([2]), torch.Size([2, 5])):
                    assert ours._extended_shape(sample) == theirs._extended_shape(sample)
                for name in ("mean", "variance"):
                    self.assertAllClose(getattr(ours, name), getattr(theirs, name))
                level = torch.tensor(0.9, dtype=torch.float64)
                self.assertAllClose(ours.quantile(level), theirs.quantile(level))
                self.assertAllClose(ours.density(level), theirs.density(level))


@pytest.mark.parametrize("n_outputs", [1, 2])
@torch.no_grad()
def test_samples_have_the_moments(n_outputs: int, generator: torch.Generator) -> None:
    posterior = random_posterior(generator, 2, 3, n_outputs=n_outputs)
    n = 20_000
    base = normal(generator, n, *posterior.base_sample_shape)
    samples = posterior.rsample_from_base_samples(torch.Size([n]), base)
    assert samples.shape == (n, 2, 3, n_outputs)
    error = (samples.mean(0) - posterior.mean).abs()
    assert (error < 5 * samples.std(0) / n**0.5).all()
    for output in range(n_outputs):
        centred = samples[..., output] - posterior.mean[..., output]
        products = centred[..., :, None] * centred[..., None, :]
        covariance = posterior.distribution.covariance_matrix
        block = slice(3 * output, 3 * output + 3)  # one output after the other
        covariance = covariance[:, block, block]
        assert ((products.mean(0) - covariance).abs() < 5 * products.std(0) / n**0.5).all()


def test_samplers_are_repeatable(generator: torch.Generator) -> None:
    posterior = random_posterior(generator, 2, 3)
    sampler = get_sampler(posterior, torch.Size([8]), seed=1)
    assert torch.equal(sampler(posterior), sampler(posterior))
    with torch.random.fork_rng(devices=[]):
        assert posterior.rsample().shape == (1, 2, 3, 1)
        assert posterior.rsample(torch.Size([4, 5])).shape == (4, 5, 2, 3, 1)
        empty = quick_pair().posterior(uniform(generator, 2, 0, 2))
        assert empty.rsample(torch.Size([3])).shape == (3, 2, 0, 2)
    posterior = random_posterior(generator, 4, 3, n_outputs=2)
    base = normal(generator, 5, 1, 3, 2)  # base samples of one entry serve a batch
    shared = posterior.rsample_from_base_samples(torch.Size([5]), base)
    each = posterior.rsample_from_base_samples(torch.Size([5]), base.expand(5, 4, 3, 2))
    assert torch.equal(shared, each)
    with pytest.raises(RuntimeError, match="must be the first axes of base_samples"):
        posterior.rsample_from_base_samples(torch.Size([4]), base)


def test_equal_points_can_be_sampled() -> None:
    X = torch.full((3, 2), 0.4, dtype=torch.float64, requires_grad=True)
    posterior = quick_hill().posterior(X)
    base = torch.ones(2, 3, dtype=torch.float64)
    samples = posterior.rsample_from_base_samples(torch.Size([2]), base)
    assert torch.allclose(samples[:, :1], samples, atol=1e-3)
    samples.sum().backward()
    assert X.grad is not None
    assert X.grad.isfinite().all()


def test_samples_agree_where_the_function_is_known(generator: torch.Generator) -> None:
    """Else acquisition functions would look for the best of them at the same point for ever."""
    near = torch.tensor([[0.3, 0.6]]).double() + 1e-5 * uniform(generator, 20, 2)
    X = torch.cat((uniform(generator, 12, 2), near))
    model = quick_model(X, (3 * X).sin().sum(-1, keepdim=True))
    points = torch.cat((uniform(generator, 3, 2), near[:1]))  # others are uncertain
    samples = model.posterior(points).rsample_from_base_samples(
        torch.Size([64]), normal(generator, 64, 4)
    )
    assert samples[:, -1].std() < 1e-5


@pytest.mark.parametrize("heavy_tails", [False, True])
def test_gradients_are_exact(heavy_tails: bool, generator: torch.Generator) -> None:
    X = uniform(generator, 2, 2, 2).requires_grad_()
    base = normal(generator, 3, 2, 2, 2)
    model = quick_pair()
    if heavy_tails:
        model = quick_model(rows(40), (4 * two_outputs(rows(40))).exp())
        assert type(model._surrogates[0].target_map.warp) is LogarithmicMap

    def values(points: Tensor) -> tuple[Tensor, ...]:
        posterior = model.posterior(points, observation_noise=True)
        samples = posterior.rsample_from_base_samples(torch.Size([3]), base)
        covariance = posterior.distribution.covariance_matrix
        return posterior.mean, posterior.variance, samples, covariance

    assert torch.autograd.gradcheck(values, (X,), atol=1e-3, rtol=1e-3)
