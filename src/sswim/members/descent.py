"""Adam with a one-cycle schedule, on the flattened parameters of a batch of members.

All parameters of the members are views of one matrix with a row for each member, and their
gradients are collected in another. A step is therefore a few operations, however many parameters
there are, and each member moves as it would alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float64
from torch import Tensor

from sswim.files.sealed_files import require_tensors, require_that
from sswim.members.model import SSWIM

DECAY, TINY = 0.999, 1e-8
"""β₂ and ε of Adam."""

MOMENTUM = (0.95, 0.85)
"""β₁ where steps are shortest, and where they are longest."""

STATE = ("first", "second", "count")
"""Names of the tensors that later steps depend on, besides the position."""


@dataclass(frozen=True)
class OneCycle:
    """Step sizes and momenta that rise and fall once, along cosines."""

    n_steps: int
    warm_up: float = 0.3
    """Fraction of the steps after which steps are longest."""
    begin: float = 1 / 25
    """Size of the first step, over that of the longest."""
    end: float = 1 / 250_000
    """Size of the last step, over that of the longest."""

    def at(self, number: int) -> tuple[float, float]:
        """Return the size of a step over that of the longest, and β₁."""
        last = max(self.n_steps - 1, 1)
        top = self.warm_up * self.n_steps - 1
        if number < top:
            place, (start, stop), (slow, fast) = number / top, (self.begin, 1.0), MOMENTUM
        else:
            place, (start, stop) = (number - top) / (last - top), (1.0, self.end)
            fast, slow = MOMENTUM
        share = 0.5 * (1 + math.cos(math.pi * min(place, 1.0)))
        return stop + (start - stop) * share, fast + (slow - fast) * share


class Descent:
    """Adam on a model or on a batch of members."""

    def __init__(
        self, model: SSWIM, rate_of: Callable[[str], float], schedule: OneCycle, rate: float
    ) -> None:
        """Make the parameters views of one matrix.

        Args:
            model: The model, on its device.
            rate_of: Returns the learning rate of a parameter over that of the others, by its name.
            schedule: The sizes of the steps.
            rate: The largest learning rate.
        """
        self.model, self.schedule = model, schedule
        self.n_members = math.prod(model.batch)
        named = list(model.named_parameters())
        self.sizes = [parameter.numel() // self.n_members for _, parameter in named]
        self.position = torch.cat([p.detach().reshape(self.n_members, -1) for _, p in named], 1)
        self.gradient = torch.zeros_like(self.position)
        begin = 0
        for (_, parameter), size in zip(named, self.sizes, strict=True):
            columns = slice(begin, begin + size)
            parameter.grad = torch.zeros_like(parameter)
            parameter.data = self.position[:, columns].view(parameter.shape)
            begin += size
        rates = [rate * rate_of(name) for name, _ in named]
        self.rates = self.position.new_tensor(rates).repeat_interleave(
            torch.tensor(self.sizes, device=self.position.device)
        )
        self.first, self.second = torch.zeros_like(self.position), torch.zeros_like(self.position)
        self.count = self.position.new_zeros(self.n_members, 1)

    def clear(self) -> None:
        """Set the gradients of the parameters to zero."""
        torch._foreach_zero_(self._gradients())

    def collect(self) -> Float64[Tensor, "members parameters"]:
        """Return the gradients of the parameters, collected in one matrix."""
        parts = [part.reshape(self.n_members, -1) for part in self._gradients()]
        return torch.cat(parts, dim=1, out=self.gradient)

    def _gradients(self) -> list[Tensor]:
        gradients = [parameter.grad for parameter in self.model.parameters()]
        return [gradient for gradient in gradients if gradient is not None]

    @torch.no_grad()
    def move(self, number: int, scale: Float64[Tensor, "members 1"] | float = 1.0) -> None:
        """Take a step along the gradient.

        Args:
            number: Number of the step, for its size.
            scale: Factor of the sizes, of all members or of each.
        """
        size, momentum = self.schedule.at(number)
        self.count += 1
        self.first.lerp_(self.gradient, 1 - momentum)
        self.second.mul_(DECAY).addcmul_(self.gradient, self.gradient, value=1 - DECAY)
        root = (self.second / (1 - DECAY**self.count)).sqrt_().add_(TINY)
        step = self.first / root * (scale * size / (1 - momentum**self.count))
        self.position -= step * self.rates

    @torch.no_grad()
    def restart(self, position: Float64[Tensor, "members parameters"], members: list[int]) -> None:
        """Put some members to a position, and forget their gradients."""
        self.position[members] = position[members]
        for tensor in (self.gradient, self.first, self.second, self.count):
            tensor[members] = 0.0

    def columns(self, chooses: Callable[[str], bool]) -> Bool[Tensor, " parameters"]:
        """Return which columns belong to parameters that are chosen by their names."""
        chosen = [chooses(name) for name, _ in self.model.named_parameters()]
        return torch.tensor(chosen).repeat_interleave(torch.tensor(self.sizes))

    def state_at(self, position: Float64[Tensor, "members parameters"]) -> dict[str, Tensor]:
        """Return the state of the model that a position stands for, by the names of its tensors."""
        names = (name for name, _ in self.model.named_parameters())
        state = dict(self.model.state_dict())
        for name, part in zip(names, position.split(self.sizes, dim=1), strict=True):
            state[name] = part.reshape(state[name].shape)
        return state

    def saved(self) -> dict[str, Tensor]:
        """Return what later steps depend on, besides the position."""
        return {f"descent.{name}": getattr(self, name) for name in STATE}

    def load(self, saved: Mapping[str, Tensor]) -> None:
        """Continue from what :meth:`saved` returned; nothing changes if it is of another form.

        Raises:
            ValueError: It is.
        """
        require_tensors(saved, self.saved())
        for name in ("descent.second", "descent.count"):
            require_that(f"{name} must not be negative", holds=(saved[name] >= 0).all())
        for name in STATE:
            getattr(self, name).copy_(saved[f"descent.{name}"])

    def finish(self, position: Float64[Tensor, "members parameters"]) -> None:
        """Leave the model with a position, and with parameters of their own without gradients."""
        self.position.copy_(position)
        for parameter in self.model.parameters():
            parameter.data = parameter.data.clone()
            parameter.grad = None
