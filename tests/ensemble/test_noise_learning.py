"""Input-dependent noise: of single members, and of all members of an ensemble together."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from builders.estimators import few_noise_steps  # noqa: F401 (for every test here)
from builders.models import SMALL, normal, small_model, small_rows
from torch import Tensor

from sswim.ensemble import learn_noise, noise_learning
from sswim.ensemble.stacking import equal_stacking, learn_shared_noise, mixture_log_density
from sswim.members import MAP, SSWIM, Adam, Architecture, OutOfFold, condition, start, train
from sswim.members.density import Density
from sswim.rows import Measure, Rows, as_rows, no_scaling
from sswim.warps import NoiseField, log_noise_ratio
from sswim.warps.noise_field import STEPS


@pytest.fixture
def _usual_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fit noise fields as well as users do."""
    monkeypatch.setattr("sswim.warps.noise_field.STEPS", STEPS)


def learn_one(model: SSWIM, rows: Rows, sample: Tensor | None = None) -> SSWIM:
    """Learn the noise of one model, with the same draws every time."""
    seeded = torch.Generator().manual_seed(0)
    sample = rows.inputs.mean if sample is None else sample
    (noisy,) = learn_noise([model], rows, sample, seeded)
    return noisy


def field_ratio(model: SSWIM, inputs: Measure) -> Tensor:
    """Return η of a model with input-dependent noise."""
    factors = model.factors()[0].noise
    assert factors is not None
    return log_noise_ratio(factors, inputs).detach()


def assert_same_state(
    ours: SSWIM | NoiseField, theirs: SSWIM | NoiseField, tolerance: float
) -> None:
    states = ours.state_dict(), theirs.state_dict()
    for name in states[1]:
        assert torch.allclose(states[0][name], states[1][name], atol=tolerance), name


@pytest.mark.usefixtures("_usual_steps")
@pytest.mark.parametrize("growth", [0.8, 0.0])
def test_the_true_noise_is_found(growth: float, generator: torch.Generator) -> None:
    """The targets are a sine whose noise has the standard deviation 0.3·exp(growth·x)."""
    x = 4 * torch.rand(1500, 1, generator=generator, dtype=torch.float64) - 2
    y = (2 * x).sin() + 0.3 * (growth * x).exp() * normal(generator, 1500, 1)
    rows = as_rows(x, y)
    model = start(Architecture(depth=0, n_frequencies=32), x, 1, generator)
    train(model, rows, MAP, Adam(60, 0.1), device="cpu")
    noisy = learn_one(model, rows)
    inputs = Measure(torch.linspace(-1.8, 1.8, 50, dtype=torch.float64)[:, None])
    ratio = field_ratio(noisy, inputs)
    learnt = 0.5 * (noisy.log_noise.detach() + ratio)
    true = (0.3 * (growth * inputs.mean).exp()).log()
    assert (learnt - true).abs().max() < 0.35
    assert (learnt - true).abs().mean() < 0.12
    if growth == 0:
        assert field_ratio(noisy, rows.inputs).std() < 0.15


def test_the_rest_of_the_model_is_left_as_it_is(generator: torch.Generator) -> None:
    rows = small_rows(generator, 60, n_targets=2, weighted=True, uncertain=True)
    model = small_model(rows, generator, output_warp="sinh-arcsinh")
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    noisy = learn_one(model, rows)
    for name, tensor in before.items():
        assert torch.equal(model.state_dict()[name], tensor)
        assert torch.equal(noisy.state_dict()[name], tensor)
    assert model.architecture.noise == "constant"
    assert noisy.architecture.noise == "input-dependent"
    assert all(parameter.grad is None for parameter in noisy.parameters())


@pytest.mark.parametrize("output_warp", ["none", "sinh-arcsinh"])
def test_leave_one_out_error_is_no_worse_than_under_constant_noise(
    generator: torch.Generator, output_warp: str
) -> None:
    rows = small_rows(generator, 80, n_targets=2)
    models = [small_model(rows, generator, perturb=0.1, output_warp=output_warp) for _ in range(3)]

    def error(members: list[SSWIM]) -> Tensor:
        predictors = [condition(member, rows) for member in members]
        means = [
            Density(p.leave_one_out(rows), p.factors.output, no_scaling(rows)).mean
            for p in predictors
        ]
        return (torch.stack(means).mean(0) - rows.targets).square().mean(0)

    noisy = learn_noise(models, rows, rows.inputs.mean, generator)
    tempers = noisy[0].noise_field.temper  # type: ignore[union-attr]
    # Without weights the mean of z is as it was; that of y also depends on the noise, under a warp.
    tolerance = 1e-12 if output_warp == "none" else 1e-3
    good = error(noisy) <= error(models) * (1 + tolerance)
    assert (good | (tempers == 0)).all()
    assert (tempers > 0).any()
    for member in noisy[1:]:
        assert torch.equal(member.noise_field.temper, tempers)  # type: ignore[union-attr]


def test_without_a_better_temper_the_mean_is_that_of_constant_noise(
    generator: torch.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(noise_learning, "TEMPERS", ())
    rows = small_rows(generator, 60)
    model = small_model(rows, generator)
    old, new = (condition(m, rows).predict(rows.inputs) for m in (model, learn_one(model, rows)))
    assert torch.allclose(old.mean, new.mean, rtol=1e-12)
    assert (old.observation_variance - old.latent_variance).std() < 1e-12
    assert (new.observation_variance - new.latent_variance).std() > 1e-3


def test_a_row_of_weight_two_is_the_row_twice(generator: torch.Generator) -> None:
    """One observation is left out of either, so only the noise is compared: no weights."""
    rows = small_rows(generator, 40)
    model = small_model(rows, generator)
    times = torch.randint(0, 3, (40,), generator=generator)
    weighted = Rows(rows.inputs, rows.targets, times.double())
    repeated = rows.map(lambda tensor: tensor.repeat_interleave(times, dim=0))
    ours, theirs = (learn_one(model, each, rows.inputs.mean) for each in (weighted, repeated))
    assert_same_state(ours, theirs, tolerance=1e-6)


def test_chunks_and_single_precision_do_not_matter(
    generator: torch.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = small_rows(generator, 60, n_targets=2, weighted=True)
    model = small_model(rows, generator)
    whole = learn_one(model, rows)
    single = replace(rows, inputs=rows.inputs.to(dtype=torch.float32))
    ratio = field_ratio(learn_one(model, single, rows.inputs.mean), single.inputs)
    assert torch.allclose(ratio, field_ratio(whole, rows.inputs), atol=1e-2)
    monkeypatch.setattr(noise_learning, "CHUNK_ROWS", 7)
    assert_same_state(learn_one(model, rows), whole, tolerance=1e-8)


def growing_noise(
    generator: torch.Generator, growth: float, n: int
) -> tuple[Measure, list[OutOfFold]]:
    """Make residuals that two kinds share, with noise of the log variance ``growth``·x."""
    x = normal(generator, n, 1)
    residual = (0.5 * growth * x).exp() * normal(generator, n, 1)
    nothing = torch.zeros_like(residual)
    kind = OutOfFold(residual, nothing + 1e-6, nothing + 1.0, nothing, -residual)
    return Measure(x), [kind, kind]


def share_noise(inputs: Measure, rows: list[OutOfFold], sample: Tensor) -> NoiseField:
    seeded = torch.Generator().manual_seed(0)
    architecture = replace(SMALL, n_noise_frequencies=16)
    stacking = equal_stacking(rows)
    return learn_shared_noise(inputs, rows, None, stacking, architecture, sample, seeded)


@pytest.mark.usefixtures("_usual_steps")
@pytest.mark.parametrize("growth", [1.2, 0.0])
@torch.no_grad()
def test_the_noise_that_members_share_is_found(growth: float, generator: torch.Generator) -> None:
    inputs, rows = growing_noise(generator, growth, n=1500)
    field = share_noise(inputs, rows, inputs.mean)
    assert not field.temper.any()  # the means do not change
    ratio = log_noise_ratio(field.factors()[0], inputs)
    inner = inputs.mean.abs() < 2
    assert (ratio - growth * inputs.mean)[inner].abs().mean() < 0.15
    stacking = equal_stacking(rows)
    gain = mixture_log_density(rows, stacking, ratio) - mixture_log_density(rows, stacking)
    assert gain.mean() > (0.2 if growth else -0.01)
