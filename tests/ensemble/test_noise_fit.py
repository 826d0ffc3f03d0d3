from __future__ import annotations

import pytest
import torch
from builders.models import SMALL, normal, small_model, small_rows

from sswim.members.model import with_noise_field
from sswim.members.start import start_noise_field
from sswim.rows import Measure
from sswim.warps.noise_field import NoiseField, fit_noise_field, log_noise_ratio


@pytest.fixture
def sample(generator: torch.Generator) -> torch.Tensor:
    return normal(generator, 200, 2)


@pytest.fixture
def field(sample: torch.Tensor, generator: torch.Generator) -> NoiseField:
    return start_noise_field(SMALL, 1, sample, generator)


def test_noise_starts_constant_and_all_rows_weigh_the_same(
    field: NoiseField, sample: torch.Tensor
) -> None:
    factors, _ = field.factors()
    assert torch.equal(log_noise_ratio(factors, Measure(sample)), torch.zeros(200, 1).double())
    assert torch.equal(factors.temper, torch.zeros(1).double())
    assert factors.frequencies.shape == (SMALL.n_noise_frequencies, 2)
    assert factors.frequencies.abs().min() > 0


def test_a_fit_finds_the_minimum_of_its_loss(field: NoiseField, sample: torch.Tensor) -> None:
    truth = 0.8 * sample[:, :1] - 0.5

    def loss() -> torch.Tensor:
        return (log_noise_ratio(field.factors()[0], Measure(sample)) - truth).square().mean()

    before = loss().item()
    fit_noise_field(field, lambda: loss().backward())
    assert loss().item() < 0.02 * before
    assert all(parameter.grad is None for parameter in field.parameters())
    assert not field.temper.any()


def test_a_model_with_a_noise_field_is_a_copy_with_that_field(
    generator: torch.Generator,
) -> None:
    rows = small_rows(generator)
    model = small_model(rows, generator)
    field = start_noise_field(model.architecture, 1, rows.inputs.mean, generator)
    with torch.no_grad():
        field.level.fill_(0.7)
    noisy = with_noise_field(model, field)
    assert noisy.architecture.noise == "input-dependent"
    assert model.architecture.noise == "constant"
    for name, tensor in model.state_dict().items():
        assert torch.equal(noisy.state_dict()[name], tensor), name
    assert noisy.noise_field is not None
    for name, tensor in field.state_dict().items():
        assert torch.equal(noisy.noise_field.state_dict()[name], tensor), name
