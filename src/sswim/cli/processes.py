"""The processes in which a command was started, and the device of each."""

from __future__ import annotations

from contextlib import AbstractContextManager
from datetime import timedelta
from typing import TYPE_CHECKING

from sswim.base.errors import UserError

if TYPE_CHECKING:
    from sswim.distributed.processes import Processes


def join_launched(timeout: float, device: str = "auto") -> AbstractContextManager[Processes]:
    """Join the processes that torchrun started together with this one.

    Args:
        timeout: Seconds to wait for another process before it counts as lost.
        device: Name of the device that computes.
    """
    import torch

    from sswim.base.devices import resolve_device
    from sswim.distributed.processes import join_processes, local_device

    try:
        resolved = resolve_device(device)
    except RuntimeError as error:
        raise UserError(
            f"The device must be auto, cpu, cuda or another device of PyTorch. Got {device!r}."
        ) from error
    if resolved.type == "cuda" and not torch.cuda.is_available():
        raise UserError(
            f"The device must be available. Got {device!r}, but PyTorch finds no GPU; use cpu."
        )
    return join_processes(local_device(resolved), timedelta(seconds=timeout))
