"""Work on a GPU recorded once and replayed: one launch where there were hundreds."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from sswim.base.cholesky import deferred_failures


class RecordedStep:
    """A function of parameters, and their gradients, recorded as a CUDA graph.

    It looks at nothing on the way: whether a factorisation failed is known after a replay, with
    the result, in the one moment in which the host waits for the device.
    """

    def __init__(self, function: Callable[[], Tensor], parameters: Sequence[Tensor]) -> None:
        """Record a function.

        Args:
            function: Returns a few numbers, and leaves gradients in the parameters that had none.
                It has been called before, so that nothing is compiled or set up on the way.
            parameters: Whose values may change between replays, in place.
        """
        self.parameters = parameters
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream), deferred_failures():
            function()  # libraries have their workspaces by stream
        torch.cuda.current_stream().wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph), deferred_failures() as failures:
            result = function().flatten()
            failed = torch.stack([each.any() for each in failures]).any()
            self.result = torch.cat((failed.to(result.dtype)[None], result))
        self.gradients = [parameter.grad for parameter in parameters]

    def replay(self) -> list[float] | None:
        """The numbers, with the gradients in the parameters; None if a factorisation failed."""
        self.graph.replay()
        for parameter, gradient in zip(self.parameters, self.gradients, strict=True):
            parameter.grad = gradient
        failed, *numbers = self.result.tolist()
        return None if failed else numbers
