"""The processes in which a command was started, and the device of each."""

from __future__ import annotations

from contextlib import AbstractContextManager
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sswim.distributed.processes import Processes


def join_launched(timeout: float, device: str = "auto") -> AbstractContextManager[Processes]:
    """Join the processes that torchrun started together with this one.

    Args:
        timeout: Seconds to wait for another process before it counts as lost.
        device: Name of the device that computes.
    """
    from sswim.base.devices import resolve_device
    from sswim.distributed.processes import join_processes, local_device

    return join_processes(local_device(resolve_device(device)), timedelta(seconds=timeout))
