"""Adam with a one-cycle schedule on the flattened parameters of members."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import pytest
import torch
from builders.models import normal, small_model, small_rows
from torch import Tensor

from sswim.members.descent import Descent, OneCycle
from sswim.members.model import SSWIM, stack_models, unstack_models

RATE, NOISE_RATE = 0.1, 0.3
SCHEDULES = {
    "of features": OneCycle(41),
    "of neighbours": OneCycle(41, warm_up=0.2, begin=1 / 5, end=1 / 100),
    "short": OneCycle(2),
}


@pytest.fixture
def batch(generator: torch.Generator) -> SSWIM:
    rows = small_rows(generator)
    return stack_models([small_model(rows, generator) for _ in range(3)])


def descent_of(model: SSWIM, schedule: OneCycle = SCHEDULES["of features"]) -> Descent:
    return Descent(model, lambda name: NOISE_RATE if name == "log_noise" else 1.0, schedule, RATE)


def take_steps(
    descent: Descent,
    gradients: Sequence[Tensor],
    scale: Tensor | float = 1.0,
    first: int = 0,
) -> None:
    """Take steps by given gradients, which accumulate in those of the parameters."""
    for number, gradient in enumerate(gradients, first):
        descent.clear()
        for parameter, part in zip(
            descent.model.parameters(), gradient.split(descent.sizes, dim=1), strict=True
        ):
            assert parameter.grad is not None
            parameter.grad += part.reshape(parameter.shape)
        assert torch.equal(descent.collect(), gradient)
        descent.move(number, scale)


def random_gradients(descent: Descent, n: int, generator: torch.Generator) -> list[Tensor]:
    """Draw gradients of very different sizes."""
    return [normal(generator, *descent.position.shape).pow(9) for _ in range(n)]


def position_of(model: SSWIM, n_members: int = 1) -> Tensor:
    return torch.cat([p.detach().reshape(n_members, -1) for p in model.parameters()], dim=1)


def steps_of_pytorch(
    model: SSWIM, gradients: Sequence[Tensor], schedule: OneCycle, scale: float
) -> Tensor:
    """Return where the optimiser of PyTorch ends with the gradients of one member."""
    groups = [
        {"params": [p for name, p in model.named_parameters() if (name == "log_noise") is noise]}
        for noise in (False, True)
    ]
    optimiser = torch.optim.Adam(groups)
    steps = torch.optim.lr_scheduler.OneCycleLR(
        optimiser,
        max_lr=[scale * RATE, scale * NOISE_RATE * RATE],
        total_steps=schedule.n_steps,
        pct_start=schedule.warm_up,
        div_factor=1 / schedule.begin,
        final_div_factor=schedule.begin / schedule.end,
    )
    sizes = [parameter.numel() for parameter in model.parameters()]
    for number, gradient in enumerate(gradients):
        for parameter, part in zip(model.parameters(), gradient.split(sizes), strict=True):
            parameter.grad = part.reshape(parameter.shape)
        optimiser.step()
        if number + 1 < schedule.n_steps:
            steps.step()
    return position_of(model)[0]


@pytest.mark.parametrize("schedule", SCHEDULES.values(), ids=SCHEDULES.keys())
def test_steps_are_those_of_pytorch(
    schedule: OneCycle, batch: SSWIM, generator: torch.Generator
) -> None:
    alone = unstack_models(batch)
    before = position_of(batch, 3)
    descent = descent_of(batch, schedule)
    gradients = random_gradients(descent, schedule.n_steps, generator)
    scales = torch.tensor([1.0, 0.3, 0.09], dtype=torch.float64)
    take_steps(descent, gradients, scales[:, None])
    for number, model in enumerate(alone):
        parts = [gradient[number] for gradient in gradients]
        expected = steps_of_pytorch(model, parts, schedule, scales[number].item())
        assert (expected - before[number]).abs().min() > 0
        assert torch.allclose(descent.position[number], expected, rtol=1e-12, atol=1e-13)
    assert torch.equal(position_of(batch, 3), descent.position)


def test_a_member_that_starts_again_has_forgotten_its_steps(
    batch: SSWIM, generator: torch.Generator
) -> None:
    models = [batch, copy.deepcopy(batch), copy.deepcopy(batch)]
    ours, others, fresh = (descent_of(model) for model in models)
    gradients = random_gradients(ours, 9, generator)
    there = normal(generator, *ours.position.shape)
    take_steps(others, gradients)
    take_steps(ours, gradients[:5])
    ours.restart(there, [1])
    assert torch.equal(ours.position[1], there[1])
    assert not ours.gradient[1].any()
    fresh.position.copy_(there)
    for descent in (ours, fresh):
        take_steps(descent, gradients[5:], first=5)
    assert torch.equal(ours.position[1], fresh.position[1])
    assert torch.equal(ours.position[::2], others.position[::2])


def test_what_is_saved_continues_exactly(batch: SSWIM, generator: torch.Generator) -> None:
    whole = descent_of(batch)
    gradients = random_gradients(whole, 9, generator)
    take_steps(whole, gradients[:4])
    saved = {name: tensor.clone() for name, tensor in whole.saved().items()}
    again = descent_of(copy.deepcopy(batch))
    wrong = [
        {**saved, "descent.first": saved["descent.first"][:1]},
        {**saved, "descent.second": -saved["descent.second"]},
        {**saved, "descent.count": saved["descent.count"] - 5},
        {**saved, "more": torch.zeros(())},
        {name: tensor for name, tensor in saved.items() if name != "descent.first"},
    ]
    for tensors in wrong:
        with pytest.raises(ValueError, match=r"descent\.|more"):
            again.load(tensors)
        assert not any(tensor.any() for tensor in again.saved().values())
    again.load(saved)
    for descent in (whole, again):
        take_steps(descent, gradients[4:], first=4)
    assert torch.equal(again.position, whole.position)


def test_a_model_is_left_at_a_position_with_parameters_of_its_own(
    batch: SSWIM, generator: torch.Generator
) -> None:
    descent = descent_of(batch)
    there = normal(generator, *descent.position.shape)
    expected = descent.state_at(there)
    descent.finish(there)
    descent.position.zero_()
    assert torch.equal(position_of(batch, 3), there)
    assert all(parameter.grad is None for parameter in batch.parameters())
    assert batch.state_dict().keys() == expected.keys()
    for name, tensor in batch.state_dict().items():
        assert torch.equal(tensor, expected[name]), name
        assert tensor.untyped_storage().nbytes() == tensor.nbytes, name


def test_columns_are_those_of_the_parameters_that_are_chosen(batch: SSWIM) -> None:
    descent = descent_of(batch)
    columns = descent.columns(lambda name: name in ("log_noise", "spectrum.log_length_scales"))
    expected = torch.cat((batch.log_noise, batch.spectrum.log_length_scales), dim=1)
    assert torch.equal(descent.position[:, columns], expected)
