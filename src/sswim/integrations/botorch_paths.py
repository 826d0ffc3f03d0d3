"""Functions drawn from an SSWIMModel, as BoTorch's pathwise sampling wants them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from botorch.sampling.pathwise.paths import SamplePath
from jaxtyping import Float
from torch import Tensor


class SSWIMPath(SamplePath):  # type: ignore[misc]
    """Functions drawn from the posterior of a model.

    Args:
        functions: The functions, as :meth:`SSWIMModel.draw_paths` returns them.
        sample_shape: The axes that the functions are laid out in.
        n_outputs: Number of outputs.
    """

    def __init__(
        self, functions: Callable[[Tensor], Tensor], sample_shape: torch.Size, n_outputs: int
    ) -> None:
        super().__init__()
        self.functions, self.sample_shape, self.n_outputs = functions, sample_shape, n_outputs

    def forward(self, x: Float[Tensor, "*S q d"], **_: Any) -> Float[Tensor, "*F q"]:
        """Return values of the functions; those of several outputs along the last batch axis.

        Args:
            x: Points. The axes of the functions are the last of the batch, or missing.
        """
        n_axes = len(self.sample_shape)
        if self.n_outputs > 1 and x.ndim > 2:
            x = x.squeeze(-3)  # the axis of outputs
        shape = torch.broadcast_shapes(x.shape[:-2], self.sample_shape)
        x = x.expand(*shape, *x.shape[-2:])
        rest = shape[: len(shape) - n_axes]
        values = self.functions(x.reshape(*rest, self.sample_shape.numel(), *x.shape[-2:]))
        values = values.reshape(*shape, *values.shape[-2:])
        return values[..., 0] if self.n_outputs == 1 else values.mT

    def set_ensemble_as_batch(self, ensemble_as_batch: bool) -> None:
        """Do nothing: each function already is one of a member."""
