"""Training steps on a GPU, recorded once as a CUDA graph and replayed with one launch."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from sswim.base.cholesky import deferred_failures


class RecordedStep:
    """A function of parameters together with their gradients, recorded as a CUDA graph.

    The host waits for the device only once, at the end of a replay; the result then also says
    whether a factorisation failed.
    """

    def __init__(self, function: Callable[[], Tensor], parameters: Sequence[Tensor]) -> None:
        """Record a function.

        Args:
            function: Returns a few numbers and leaves gradients in the parameters. It has been
                called before, so that nothing is compiled while recording.
            parameters: Parameters whose values change in place between replays.
        """
        self.parameters = parameters
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream), deferred_failures():
            function()  # libraries set up one workspace per stream
        torch.cuda.current_stream().wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph), deferred_failures() as failures:
            result = function().flatten()
            failed = torch.stack([each.any() for each in failures]).any()
            self.result = torch.cat((failed.to(result.dtype)[None], result))
        self.gradients = [parameter.grad for parameter in parameters]

    def replay(self) -> list[float] | None:
        """Return the numbers and set the gradients; None if a factorisation failed."""
        self.graph.replay()
        for parameter, gradient in zip(self.parameters, self.gradients, strict=True):
            parameter.grad = gradient
        failed, *numbers = self.result.tolist()
        return None if failed else numbers
