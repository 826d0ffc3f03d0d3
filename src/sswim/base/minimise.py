"""L-BFGS for a few parameters of a deterministic loss, by SciPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from scipy import optimize
from torch import Tensor


@torch.enable_grad()
def minimise(
    parameters: Sequence[Tensor], add_gradients: Callable[[], Tensor], max_steps: int
) -> None:
    """Minimise a loss in place; the parameters have no gradients afterwards.

    Args:
        parameters: Tensors in float64 that require gradients.
        add_gradients: Returns the loss, and adds its gradient to those of the parameters.
        max_steps: Largest number of steps, each with one evaluation or a little more.
    """
    sizes = [parameter.numel() for parameter in parameters]
    seen: list[float] = []  # finite losses

    def move(position: np.ndarray) -> None:
        parts = torch.as_tensor(position).to(parameters[0].device).split(sizes)
        with torch.no_grad():
            for parameter, part in zip(parameters, parts, strict=True):
                parameter.copy_(part.view(parameter.shape))

    def evaluate(position: np.ndarray) -> tuple[float, np.ndarray]:
        move(position)
        for parameter in parameters:
            parameter.grad = None
        value = add_gradients().item()
        gradients = [
            torch.zeros(size) if parameter.grad is None else parameter.grad.flatten().cpu()
            for parameter, size in zip(parameters, sizes, strict=True)
        ]
        gradient = torch.cat(gradients).double().numpy()
        if np.isfinite(value) and np.isfinite(gradient).all():
            seen.append(value)
            return value, gradient
        # The line search turns back from a loss that is the worst so far. It would do so to where
        # it began, and end there, if the loss were many orders of magnitude worse.
        worst = 1 + 2 * max(seen) - min(seen) if seen else 1.0
        return worst, np.zeros_like(gradient)

    start = torch.cat([parameter.detach().flatten().cpu() for parameter in parameters]).numpy()
    options: Any = {"maxiter": max_steps, "maxfun": 2 * max_steps, "ftol": 1e-10, "gtol": 1e-7}
    found = optimize.minimize(evaluate, start, jac=True, method="L-BFGS-B", options=options)
    move(found.x)
    for parameter in parameters:
        parameter.grad = None
