"""Several processes that train one model: each has some of the rows, all have all parameters.

Statistics and gradients are sums over rows, so that the sums of all processes are those of one
process with all rows. What follows from the sums, every process computes for itself, and the first
one's numbers stand for all, because the same computation may round differently on two machines.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from importlib import import_module
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from sswim.base.mapping_diff import differences
from sswim.base.record import Record
from sswim.distributed.share import Share

T = TypeVar("T")
RecordT = TypeVar("RecordT", bound=Record)

TIMEOUT = timedelta(minutes=30)
"""After which a process that does not answer is given up: longer than any pass over its rows."""


SHARED = "All processes end with this error."


class ProcessError(RuntimeError):
    """Other processes that do not answer, or that do something else than this one."""


@dataclass(frozen=True)
class Processes:
    """This process among all. By default it is alone, and nothing is sent anywhere."""

    rank: int = 0
    size: int = 1

    @property
    def share(self) -> Share:
        """The share of the rows that this process reads."""
        return Share(self.rank, self.size)

    @property
    def is_first(self) -> bool:
        """Whether this is the one that writes and speaks."""
        return self.rank == 0

    def all_sum(self, record: RecordT) -> RecordT:
        """The sum of every process's record of float64 tensors, in one message."""
        if self.size == 1:
            return record
        summed = iter(self.all_sum_tensors(record.tensors()))
        return record.map(lambda _: next(summed))

    def all_sum_tensors(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """The same of tensors whose shapes are the same in every process."""
        if self.size == 1 or not tensors:
            return list(tensors)
        buffer = torch.cat([tensor.detach().to(torch.float64).reshape(-1) for tensor in tensors])
        with self._answered():
            dist.all_reduce(buffer)
        parts = buffer.split([tensor.numel() for tensor in tensors])
        return [part.reshape(tensor.shape) for part, tensor in zip(parts, tensors, strict=True)]

    def broadcast_tensor(self, tensor: Tensor) -> Tensor:
        """The first process's numbers, in place of those that every process computed."""
        if self.size > 1:
            with self._answered():
                dist.broadcast(tensor, src=0)
        return tensor

    def any(self, flag: bool) -> bool:
        """Whether any process says so."""
        return flag if self.size == 1 else any(self.all_gather(flag))

    def all_gather(self, value: T) -> list[T]:
        """What every process has, in the order of the processes."""
        if self.size == 1:
            return [value]
        values: list[Any] = [None] * self.size
        with self._answered():
            dist.all_gather_object(values, value)
        return values

    def broadcast(self, value: T) -> T:
        """What the first process has."""
        if self.size == 1:
            return value
        values: list[Any] = [value]
        with self._answered():
            dist.broadcast_object_list(values, src=0)
        return values[0]

    def run_everywhere(self, function: Callable[[], T]) -> list[T]:
        """What a function gives in every process; if it fails in one, its error in all."""
        with self.shared_errors():
            mine = function()
        return self.all_gather(mine)

    @contextmanager
    def shared_errors(self) -> Iterator[None]:
        """An error in one process is an error in all, at the end of what they do."""
        if self.size == 1:
            yield
            return
        failure = None
        try:
            yield
        except Exception as error:  # of whatever kind, the others are to hear of it
            failure = _portable(error)
        for each in self.all_gather(failure):
            if each is not None:
                each.add_note(SHARED)
                raise each

    def require_same(self, what: str, facts: Mapping[str, Any]) -> None:
        """Refuse to go on with processes that were told something else."""
        for rank, others in enumerate(self.all_gather(dict(facts))):
            if unlike := differences(others, facts):
                raise ProcessError(
                    f"All processes must have the same {what}. Process {rank} differs from process "
                    f"{self.rank}: {'; '.join(unlike)}. Start all with the same command."
                )

    @contextmanager
    def _answered(self) -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:
            raise ProcessError(
                f"Another of the {self.size} processes no longer answers (this is process "
                f"{self.rank}). Either it has ended, and its own message says why, or it took "
                f"longer than the timeout; a run with checkpoints can be resumed. {error}"
            ) from error


ALONE = Processes()


@contextmanager
def join_processes(device: torch.device, timeout: timedelta = TIMEOUT) -> Iterator[Processes]:
    """Join the processes that torchrun, or anything else that sets its variables, has started.

    Without these variables the process is alone. A process group that exists already is used and
    left as it is.

    Args:
        device: Where tensors are: NCCL carries them between GPUs, gloo between CPUs.
        timeout: After which a process that does not answer is given up.
    """
    if dist.is_available() and dist.is_initialized():
        yield Processes(dist.get_rank(), dist.get_world_size())
        return
    if not is_launched():
        yield ALONE
        return
    backend = "nccl" if device.type == "cuda" else "gloo"
    if device.type == "cuda":
        torch.cuda.set_device(device)
    # Its default arguments would keep the group, and threads that abort Python as it ends, if
    # something like the first optimiser imported it later.
    import_module("torch.distributed.nn.functional")
    try:
        dist.init_process_group(backend, timeout=timeout)
    except RuntimeError as error:
        raise ProcessError(
            f"All {os.environ['WORLD_SIZE']} processes must find each other within the timeout. "
            f"Process {rank()} did not: {error} Look whether the others were started, and whether "
            "MASTER_ADDR and MASTER_PORT are those of the first."
        ) from error
    try:
        yield Processes(dist.get_rank(), dist.get_world_size())
    finally:
        dist.destroy_process_group()


def is_launched() -> bool:
    """Whether torchrun, or anything else that sets its variables, has started this process."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1


def rank() -> int:
    """The number of this process among all that were started with it."""
    return int(os.environ.get("RANK", "0"))


def local_device(device: torch.device) -> torch.device:
    """The GPU of this process among those of its machine, if GPUs are meant and none is named."""
    if device.type != "cuda" or device.index is not None:
        return device
    return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))


def _portable(error: Exception) -> Exception:
    """The error, or its words if it cannot be sent."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # pickling fails in many ways
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
