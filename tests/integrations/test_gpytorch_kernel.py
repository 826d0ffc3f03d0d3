from __future__ import annotations

import math
import pickle
import unittest
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

gpytorch = pytest.importorskip("gpytorch", reason="needs the extra gpytorch")

from builders.gpytorch_models import ExactGP, bent_kernel, small_kernel  # noqa: E402
from builders.models import normal  # noqa: E402
from gpytorch.test.base_kernel_test_case import BaseKernelTestCase  # noqa: E402
from linear_operator import operators  # noqa: E402

from sswim.base.validation import UserError, draw_generator  # noqa: E402
from sswim.integrations.gpytorch import SSWIMKernel, WarpedSpectrum  # noqa: E402
from sswim.kernels.features import Kernel  # noqa: E402
from sswim.members.model import row_features  # noqa: E402
from sswim.members.start import start  # noqa: E402
from sswim.rows import Measure  # noqa: E402

KERNELS: dict[Kernel, Any] = {
    "rbf": gpytorch.kernels.RBFKernel(),
    "matern12": gpytorch.kernels.MaternKernel(0.5),
    "matern32": gpytorch.kernels.MaternKernel(1.5),
    "matern52": gpytorch.kernels.MaternKernel(2.5),
}


def spectrum(kernel: SSWIMKernel) -> WarpedSpectrum:
    assert kernel.spectrum is not None
    return kernel.spectrum


@pytest.mark.filterwarnings("ignore:The parameters of the warps")
class TestGPyTorchsOwnCases(BaseKernelTestCase, unittest.TestCase):  # type: ignore[misc]
    seed = 0

    def create_kernel_no_ard(self, **kwargs: Any) -> SSWIMKernel:
        return small_kernel(None, **kwargs)

    def create_kernel_ard(self, num_dims: int, **kwargs: Any) -> SSWIMKernel:
        return small_kernel(None, ard_num_dims=num_dims, **kwargs)


@pytest.mark.parametrize("depth", [0, 1, 2])
@torch.no_grad()
def test_features_are_those_of_the_model(depth: int, generator: torch.Generator) -> None:
    x = normal(generator, 30, 2)
    kernel = small_kernel(depth=depth, random_state=3).double()
    model = start(kernel.architecture, x, 1, draw_generator(3))
    kernel(x).to_dense()
    gps = [gp for layer in model.warp_layers() for gp in layer.gps()]
    for gp, other in zip(spectrum(kernel).gps(), gps, strict=True):
        gp.pseudo_targets.copy_(normal(generator, *gp.pseudo_targets.shape))
        other.pseudo_targets.copy_(gp.pseudo_targets)
    model.spectrum.log_length_scales.fill_(kernel.lengthscale.log().item())
    features = row_features(model.factors()[0], Measure(x))
    assert torch.allclose(kernel(x).to_dense(), features @ features.mT, atol=1e-12)


@pytest.mark.parametrize("name", KERNELS)
@torch.no_grad()
def test_without_warps_it_approximates_the_stationary_kernel(
    name: Kernel, generator: torch.Generator
) -> None:
    x = normal(generator, 20, 3)
    kernel = SSWIMKernel(3, depth=0, n_features=2**15, kernel=name).double()
    exact = KERNELS[name].double()
    assert kernel.is_stationary
    error = kernel(x).to_dense() - exact(x).to_dense()
    assert error.abs().max() < 4 / math.sqrt(2**14)


@pytest.mark.parametrize(
    ("batch", "shape"),
    [((), (4, 3)), ((2,), ()), ((2,), (2,)), ((2,), (3, 1)), ((1,), (2,)), ((3, 1), (4, 3, 2))],
)
@torch.no_grad()
def test_a_batch_equals_a_loop(
    batch: tuple[int, ...], shape: tuple[int, ...], generator: torch.Generator
) -> None:
    x, other = normal(generator, *shape, 7, 2), normal(generator, *shape, 5, 2)
    kernel = bent_kernel(x, batch_shape=torch.Size(batch), ard_num_dims=2)
    covariance, diagonal = kernel(x, other).to_dense(), kernel(x, diag=True)
    full = torch.broadcast_shapes(batch, shape)
    assert covariance.shape == (*full, 7, 5)
    members = kernel.expand_batch(torch.Size(full))
    for entry in np.ndindex(*full):
        rows, others = (value.expand(*full, -1, -1)[entry] for value in (x, other))
        single = members[entry]
        assert single.batch_shape == torch.Size([])
        assert torch.allclose(covariance[entry], single(rows, others).to_dense(), atol=1e-12)
        assert torch.allclose(diagonal[entry], single(rows, diag=True), atol=1e-12)
        measure = kernel.warp(x)
        assert torch.allclose(measure.mean[entry], single.warp(rows).mean, atol=1e-12)


def test_gradients_are_exact(generator: torch.Generator) -> None:
    x = normal(generator, 2, 2, 2)
    kernel = bent_kernel(x, depth=2, n_features=4, n_pseudo=2)
    names, values = zip(*kernel.named_parameters(), strict=True)

    def covariance(x1: Tensor, x2: Tensor, *parameters: Tensor) -> Tensor:
        given = dict(zip(names, parameters, strict=True))
        operator = torch.func.functional_call(kernel, given, (x1, x2))
        return operator.to_dense()

    inputs = (x.clone().requires_grad_(), x.clone().requires_grad_(), *values)
    assert torch.autograd.gradcheck(covariance, inputs)
    assert torch.autograd.gradcheck(lambda rows: kernel(rows).to_dense(), inputs[:1])
    assert torch.autograd.gradcheck(lambda rows: kernel(rows, diag=True), inputs[:1])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gpytorchs_loop_trains_the_warps(dtype: torch.dtype, generator: torch.Generator) -> None:
    x = normal(generator, 60, 2).to(dtype)
    model = ExactGP(x, (x[:, 0] ** 3).sin(), gpytorch.kernels.ScaleKernel(small_kernel()))
    optimiser = torch.optim.Adam(model.parameters(), lr=0.03)  # before the first inputs
    before: dict[str, Tensor] = {}
    losses = []
    for step in range(30):
        optimiser.zero_grad()
        loss = -model.objective()
        if step == 0:
            before = {name: value.detach().clone() for name, value in model.named_parameters()}
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] - 0.1
    assert all(not torch.equal(value, before[name]) for name, value in model.named_parameters())
    assert not torch.equal(model.covar_module.base_kernel.warp(x).mean, x)


@torch.no_grad()
def test_the_objective_has_the_prior_of_the_warps(generator: torch.Generator) -> None:
    x = normal(generator, 20, 2)
    kernel = bent_kernel(x, depth=2)
    model = ExactGP(x, x[:, 0], kernel)
    targets = torch.cat([gp.pseudo_targets.flatten() for gp in spectrum(kernel).gps()])
    covariance = kernel(x).to_dense() + model.likelihood.noise * torch.eye(20)
    mean = torch.zeros(20, dtype=torch.float64)
    likelihood = torch.distributions.MultivariateNormal(mean, covariance).log_prob(x[:, 0])
    prior = torch.distributions.Normal(0.0, 1.0).log_prob(targets).sum()
    assert torch.allclose(model.objective(), (likelihood + prior) / 20)
    [[_, module, prior, values, set_values]] = kernel.named_priors()
    with torch.random.fork_rng(devices=[]):  # as BoTorch does it where a fit must be repeated
        torch.manual_seed(0)
        set_values(module, prior.sample(values(module).shape))
    drawn = values(module)
    assert drawn.shape == (2, 5, 4)
    assert 0.5 < drawn.std() < 1.5


@pytest.mark.parametrize("n_rows", [12, 40])  # fewer than features, and more
def test_predictions_are_those_of_a_dense_gp(n_rows: int, generator: torch.Generator) -> None:
    x, new = normal(generator, n_rows, 2), normal(generator, 6, 2)
    y = x.sum(-1).sin()
    kernel = gpytorch.kernels.ScaleKernel(bent_kernel(x))
    kernel.outputscale = 3.0
    model = ExactGP(x, y, kernel).eval()
    with torch.no_grad():
        prediction = model(new)
        matrix = kernel(x).to_dense() + model.likelihood.noise * torch.eye(n_rows)
        solved = torch.linalg.solve(matrix, kernel(x, new).to_dense())
        covariance = kernel(new).to_dense() - kernel(new, x).to_dense() @ solved
    assert torch.allclose(prediction.mean, solved.mT @ y, atol=1e-8)
    assert torch.allclose(prediction.covariance_matrix, covariance, atol=1e-8)

    def moments(rows: Tensor) -> tuple[Tensor, Tensor]:
        return model(rows).mean, model(rows).variance

    assert torch.autograd.gradcheck(moments, (new[:2].requires_grad_(),))


def test_many_rows_are_trained_by_low_rank_algebra(generator: torch.Generator) -> None:
    x = normal(generator, 10_000, 2)
    model = ExactGP(x, x[:, 0], gpytorch.kernels.ScaleKernel(small_kernel()))
    covariance = model.likelihood(model(x)).lazy_covariance_matrix.evaluate_kernel()
    assert isinstance(covariance, operators.LowRankRootAddedDiagLinearOperator)
    with gpytorch.settings.fast_computations():  # importing BoTorch turns them off
        model.objective().backward()  # a dense matrix of these rows would take 800 MB
    with torch.no_grad():
        assert isinstance(small_kernel()(x[:10]).evaluate_kernel(), operators.RootLinearOperator)


@torch.no_grad()
def test_seeds_repeat_a_kernel_and_stored_ones_are_the_same(generator: torch.Generator) -> None:
    x, other = normal(generator, 20, 2), normal(generator, 9, 2)
    measure = small_kernel(depth=2).warp(x)  # warps start as the identity
    assert torch.equal(measure.mean, x)
    assert measure.variance is not None
    assert (measure.variance > 0).all()
    one, same, another = (small_kernel(random_state=seed)(x).to_dense() for seed in (1, 1, 2))
    assert torch.equal(one, same)
    assert not torch.equal(one, another)
    kernel = bent_kernel(x)
    loaded = small_kernel(random_state=7).double()
    loaded.load_state_dict(kernel.state_dict())
    for copy in (loaded, pickle.loads(pickle.dumps(kernel))):
        assert torch.equal(copy(other).to_dense(), kernel(other).to_dense())


@torch.no_grad()
def test_other_precisions_are_those_of_the_inputs_only(generator: torch.Generator) -> None:
    x = normal(generator, 10, 2)
    kernel = bent_kernel(x)
    exact = kernel(x).to_dense()
    assert kernel(x.float()).to_dense().dtype == torch.float32
    assert torch.allclose(kernel(x.float()).to_dense().double(), exact, atol=1e-5)
    some = small_kernel(None, active_dims=[0, 2], batch_shape=torch.Size([2])).double()
    assert some.warp(normal(generator, 6, 3)).mean.shape == (2, 6, 2)
    parameters = [value.clone() for value in spectrum(kernel).parameters()]
    kernel.float()
    assert kernel.dtype == torch.float32
    assert all(map(torch.equal, parameters, spectrum(kernel).parameters()))


def test_parameters_that_come_too_late_are_told(generator: torch.Generator) -> None:
    x = normal(generator, 10, 2)
    with pytest.warns(UserWarning, match=r"Give SSWIMKernel\(num_dims=2\)"):
        small_kernel(None)(x).to_dense()
    with torch.no_grad():
        small_kernel(None)(x).to_dense()
    small_kernel(None, depth=0)(x).to_dense()  # has nothing but length-scales to train


@pytest.mark.filterwarnings("ignore:The last_dim_is_batch argument")
def test_bad_inputs_are_refused(generator: torch.Generator) -> None:
    x = normal(generator, 10, 2)
    with pytest.raises(UserError, match=r"active_dims=\[0\]"):
        small_kernel()(x, last_dim_is_batch=True).to_dense()
    with pytest.raises(UserError, match=r"shape \(0, 2\)\.$"):
        small_kernel()(x[:0]).to_dense()
    with pytest.raises(UserError, match="with NaN or infinity"):
        small_kernel()(x / 0).to_dense()
    with pytest.raises(ValueError, match=r"the model's 2 inputs\. Got 1"):
        bent_kernel(x)(x[:, :1]).to_dense()
    for settings in ({"n_features": 0}, {"depth": -1}, {"num_dims": 0}):
        with pytest.raises(UserError):
            SSWIMKernel(**settings)  # type: ignore[arg-type]
