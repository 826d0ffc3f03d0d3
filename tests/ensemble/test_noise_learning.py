from __future__ import annotations

import pytest
import torch
from builders.models import normal, small_model, small_rows

from sswim.ensemble import learn_noise, noise_learning
from sswim.members import MAP, SSWIM, Adam, Architecture, condition, start, train
from sswim.members.density import Density
from sswim.rows import Rows, as_rows, no_scaling
from sswim.warps.noise_field import log_noise_ratio


def noisy_rows(generator: torch.Generator, n: int, growth: float) -> Rows:
    """Draw a sine whose noise has the standard deviation 0.3·exp(growth·x)."""
    x = 4 * torch.rand(n, 1, generator=generator, dtype=torch.float64) - 2
    y = (2 * x).sin() + 0.3 * (growth * x).exp() * normal(generator, n, 1)
    return as_rows(x, y)


def trained(rows: Rows, generator: torch.Generator, steps: int = 60, n_targets: int = 1) -> SSWIM:
    architecture = Architecture(depth=0, n_frequencies=32)
    model = start(architecture, rows.inputs.mean, n_targets, generator)
    train(model, rows, MAP, Adam(steps, 0.1), device="cpu")
    return model


def test_the_true_noise_is_found(generator: torch.Generator) -> None:
    rows = noisy_rows(generator, 1500, growth=0.8)
    model = trained(rows, generator)
    (noisy,) = learn_noise([model], rows, rows.inputs.mean, generator)
    factors = noisy.factors()[0]
    assert factors.noise is not None
    inputs = as_rows(torch.linspace(-1.8, 1.8, 50)[:, None], torch.zeros(50)).inputs
    learnt = 0.5 * (noisy.log_noise + log_noise_ratio(factors.noise, inputs))[:, 0]
    true = (0.3 * (0.8 * inputs.mean).exp()).log()[:, 0]
    assert (learnt - true).abs().max() < 0.35
    assert (learnt - true).abs().mean() < 0.12


def test_constant_noise_stays_nearly_constant(generator: torch.Generator) -> None:
    rows = noisy_rows(generator, 1500, growth=0.0)
    (noisy,) = learn_noise([trained(rows, generator)], rows, rows.inputs.mean, generator)
    factors = noisy.factors()[0]
    assert factors.noise is not None
    assert log_noise_ratio(factors.noise, rows.inputs).std() < 0.15


def test_the_rest_of_the_model_is_left_as_it_is(generator: torch.Generator) -> None:
    rows = small_rows(generator, 60, n_targets=2, weighted=True, uncertain=True)
    model = small_model(rows, generator, output_warp="sinh-arcsinh")
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    (noisy,) = learn_noise([model], rows, rows.inputs.mean, generator)
    for name, tensor in before.items():
        assert torch.equal(model.state_dict()[name], tensor)
        assert torch.equal(noisy.state_dict()[name], tensor)
    assert noisy.architecture.noise == "input-dependent"
    assert all(parameter.grad is None for parameter in noisy.parameters())


@pytest.mark.parametrize("output_warp", ["none", "sinh-arcsinh"])
def test_leave_one_out_error_is_no_worse_than_under_constant_noise(
    generator: torch.Generator, output_warp: str
) -> None:
    rows = small_rows(generator, 80, n_targets=2)
    models = [small_model(rows, generator, perturb=0.1, output_warp=output_warp) for _ in range(3)]

    def error(members: list[SSWIM]) -> torch.Tensor:
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
    (noisy,) = learn_noise([model], rows, rows.inputs.mean, generator)
    before, after = condition(model, rows), condition(noisy, rows)
    old, new = (p.predict(rows.inputs).mean for p in (before, after))
    assert torch.allclose(old, new, rtol=1e-12)
    noise = [
        (p.predict(rows.inputs).observation_variance - p.predict(rows.inputs).latent_variance)
        for p in (before, after)
    ]
    assert noise[0].std() < 1e-12
    assert noise[1].std() > 1e-3


def test_a_row_of_weight_two_is_the_row_twice(generator: torch.Generator) -> None:
    rows = small_rows(generator, 40)
    model = small_model(rows, generator)
    times = torch.randint(0, 3, (40,), generator=generator)
    weighted = Rows(rows.inputs, rows.targets, times.double())
    repeated = rows.map(lambda t: t.repeat_interleave(times, dim=0))
    states = []
    for each in (weighted, repeated):
        # One observation is left out of either, so only the noise is compared: no weights.
        seeded = torch.Generator().manual_seed(0)
        (noisy,) = learn_noise([model], each, rows.inputs.mean, seeded)
        states.append(noisy.state_dict())
    for name in states[0]:
        assert torch.allclose(states[0][name], states[1][name], atol=1e-6), name


def test_chunks_do_not_matter(generator: torch.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = small_rows(generator, 50, n_targets=2, weighted=True)
    model = small_model(rows, generator)
    states = []
    for size in (20_000, 7):
        monkeypatch.setattr(noise_learning, "CHUNK_ROWS", size)
        seeded = torch.Generator().manual_seed(0)
        (noisy,) = learn_noise([model], rows, rows.inputs.mean, seeded)
        states.append(noisy.state_dict())
    for name in states[0]:
        assert torch.allclose(states[0][name], states[1][name], atol=1e-8), name


def test_features_may_be_in_single_precision(generator: torch.Generator) -> None:
    rows = small_rows(generator, 60)
    model = small_model(rows, generator)
    ratios = []
    for dtype in (torch.float64, torch.float32):
        each = Rows(rows.inputs.to(dtype=dtype), rows.targets)
        seeded = torch.Generator().manual_seed(0)
        (noisy,) = learn_noise([model], each, rows.inputs.mean, seeded)
        factors = noisy.factors()[0].noise
        assert factors is not None
        ratios.append(log_noise_ratio(factors, each.inputs).detach())
    assert torch.allclose(ratios[0], ratios[1], atol=1e-2)
