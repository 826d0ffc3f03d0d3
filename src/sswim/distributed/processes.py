"""Several processes that train one model: each has some of the rows, all have all parameters.

Statistics and gradients are sums over rows, so their sums over all processes are the sums of one
process with all rows. Every process computes for itself what follows from these sums. Then all use
the numbers of the first process, because the same computation may round differently on two
machines. Each process has a device of its own, a CPU or a GPU.

Long work, which needs no messages, is interrupted regularly to check that all are still running.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from importlib import import_module
from threading import Thread
from time import perf_counter
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from sswim.base.record import Record
from sswim.base.validation import UserError
from sswim.files.sealed_files import differences


def resolve_device(device: str | torch.device) -> torch.device:
    """Return the named device; ``"auto"`` is a CUDA device if there is one, and else the CPU.

    A device that PyTorch does not know, or that this machine does not have, raises an error that
    lists those that there are.
    """
    if isinstance(device, str) and device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        named = torch.device(device)
        if named.type == "meta":
            raise RuntimeError("tensors on it have no values")
        torch.empty(0, device=named)
    # An AssertionError comes from a PyTorch without CUDA, an ImportError from a missing backend.
    except (RuntimeError, TypeError, AssertionError, ImportError, NotImplementedError) as error:
        gpus = [f"cuda:{number}" for number in range(torch.cuda.device_count())]
        names = ["cpu", *gpus, *(["mps"] if torch.backends.mps.is_available() else [])]
        known = ", ".join(f'"{name}"' for name in names)
        raise UserError(
            'device must be "auto" or a device that this machine has and PyTorch can use. '
            f"Got {str(device)!r}; there {'are' if names[1:] else 'is only'} {known}."
        ) from error
    return named


def available_device(device: str | torch.device) -> torch.device:
    """Return the named device, or the one of ``"auto"`` if this machine does not have it."""
    try:
        return resolve_device(device)
    except UserError:
        return resolve_device("auto")


@dataclass(frozen=True)
class Share:
    """One of ``size`` equal shares of the rows, numbered from 0."""

    rank: int = 0
    size: int = 1

    def span(self, n_rows: int) -> tuple[int, int]:
        """Return the first row of the share among ``n_rows``, and the first row after it."""
        return self.rank * n_rows // self.size, (self.rank + 1) * n_rows // self.size


ALL_ROWS = Share()
"""The share of a process that reads all rows."""

T = TypeVar("T")
RecordT = TypeVar("RecordT", bound=Record)

TIMEOUT = timedelta(minutes=30)
"""Time after which a process that does not answer counts as lost: longer than any pass over its
rows."""


SHARED_ERROR_NOTE = "All processes end with this error."
"""Note on an error that was raised in every process, so that only one of them prints it."""


class ProcessError(RuntimeError):
    """Raised where another process does not answer, or was started with other settings."""


@dataclass(frozen=True)
class Processes:
    """All processes, as one of them sees them; by default one process, which sends nothing."""

    rank: int = 0
    """Number of this process, from 0."""
    size: int = 1
    """Number of processes."""

    @property
    def share(self) -> Share:
        """The share of the rows that this process reads."""
        return Share(self.rank, self.size)

    @property
    def is_first(self) -> bool:
        """Whether this is the first process, the one that writes files and prints."""
        return self.rank == 0

    def all_sum(self, record: RecordT) -> RecordT:
        """Add up the processes' records of float64 tensors, in one message."""
        if self.size == 1:
            return record
        summed = iter(self.all_sum_tensors(record.tensors()))
        return record.map(lambda _: next(summed))

    def all_sum_tensors(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Add up the processes' tensors; their shapes must be the same in every process."""
        if self.size == 1 or not tensors:
            return list(tensors)
        buffer = torch.cat([tensor.detach().to(torch.float64).reshape(-1) for tensor in tensors])
        with self._process_errors():
            dist.all_reduce(buffer)
        parts = buffer.split([tensor.numel() for tensor in tensors])
        return [part.reshape(tensor.shape) for part, tensor in zip(parts, tensors, strict=True)]

    def broadcast_tensor(self, tensor: Tensor) -> Tensor:
        """Overwrite a tensor with the numbers of the first process, and return it."""
        if self.size > 1:
            with self._process_errors():
                dist.broadcast(tensor, src=0)
        return tensor

    def any(self, flag: bool) -> bool:
        """Return whether a flag is set in any process."""
        return any(self.all_gather(flag))

    def all_gather(self, value: T) -> list[T]:
        """Return the values of all processes, in the order of the processes."""
        if self.size == 1:
            return [value]
        values: list[Any] = [None] * self.size
        with self._process_errors():
            dist.all_gather_object(values, value)
        return values

    def broadcast(self, value: T) -> T:
        """Return the value of the first process."""
        if self.size == 1:
            return value
        values: list[Any] = [value]
        with self._process_errors():
            dist.broadcast_object_list(values, src=0)
        return values[0]

    def run_everywhere(self, function: Callable[[], T]) -> list[T]:
        """Call a function in every process, and return all results.

        An error in one process is raised in all of them.
        """
        with self.shared_errors():
            result = function()
        return self.all_gather(result)

    @contextmanager
    def shared_errors(self) -> Iterator[None]:
        """Raise an error of one process in all of them, at the end of the context."""
        if self.size == 1:
            yield
            return
        failure = None
        try:
            yield
        except Exception as error:  # of any type, because the others must learn of it
            failure = _picklable(error)
        for shared in self.all_gather(failure):
            if shared is not None:
                shared.add_note(SHARED_ERROR_NOTE)
                raise shared

    def require_same(self, what: str, facts: Mapping[str, Any]) -> None:
        """Raise unless all processes have the same settings.

        Args:
            what: Name of the settings in the error message.
            facts: Settings of this process.
        """
        for rank, other_facts in enumerate(self.all_gather(dict(facts))):
            if found := differences(other_facts, facts):
                raise ProcessError(
                    f"All processes must have the same {what}. Process {rank} differs from process "
                    f"{self.rank}: {'; '.join(found)}. Start all with the same command."
                )

    @contextmanager
    def _process_errors(self) -> Iterator[None]:
        """Raise a ``ProcessError`` where communication fails."""
        try:
            yield
        except RuntimeError as error:
            raise ProcessError(
                f"Another of the {self.size} processes no longer answers (this is process "
                f"{self.rank}). Either it has ended, and its own message says why, or it took "
                f"longer than the timeout; a run with checkpoints can be resumed. {error}"
            ) from error


ALONE = Processes()
"""A single process."""


@contextmanager
def join_processes(device: torch.device, timeout: timedelta = TIMEOUT) -> Iterator[Processes]:
    """Join the processes that torchrun, or another launcher with its variables, has started.

    Without these variables this is a single process. A process group that already exists is used
    and left as it is.

    Args:
        device: Device of the tensors: NCCL sends them between GPUs, gloo between CPUs.
        timeout: Time after which a process that does not answer counts as lost.
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
    # Imported before there is a group: the default arguments in this module would otherwise keep
    # the group alive, with threads that abort Python when it exits.
    import_module("torch.distributed.nn.functional")
    try:
        dist.init_process_group(backend, timeout=timeout)
    except RuntimeError as error:
        raise ProcessError(
            f"All {os.environ['WORLD_SIZE']} processes must find each other within the timeout. "
            f"Process {rank()} did not: {error} Check that the others were started, and that "
            "MASTER_ADDR and MASTER_PORT are those of the first."
        ) from error
    try:
        yield Processes(dist.get_rank(), dist.get_world_size())
    finally:
        dist.destroy_process_group()


def is_launched() -> bool:
    """Return whether torchrun, or another launcher with its variables, started this process."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1


def rank() -> int:
    """Return the number of this process among those that were started together, from 0."""
    return int(os.environ.get("RANK", "0"))


def local_device(device: torch.device) -> torch.device:
    """Return the GPU of this process on its machine, if ``device`` is CUDA without a number."""
    if device.type != "cuda" or device.index is not None:
        return device
    return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))


def _picklable(error: Exception) -> Exception:
    """Return an error that can be sent to other processes: the same one, or one with its text."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # pickling fails in many ways
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


HEARTBEAT_SECONDS = 60.0
"""Seconds between two checks: far fewer than the timeout of a process that does not answer."""


def run_with_heartbeat(processes: Processes, steps: Generator[None, None, None]) -> None:
    """Run the steps of this process while the other processes run theirs.

    An error in one process is raised in all of them, soon after it happens. A process that has
    finished its steps waits for the others, however long they take.

    Args:
        processes: The processes that call this function together.
        steps: Steps of this process, each shorter than a heartbeat.
    """

    def run_until_heartbeat() -> bool:
        """Run steps for one heartbeat; return whether there may be more of them."""
        end = perf_counter() + HEARTBEAT_SECONDS
        return any(perf_counter() >= end for _ in steps)

    with closing(steps):
        while any(processes.run_everywhere(run_until_heartbeat)):
            pass


def run_in_thread(processes: Processes, work: Callable[[], T]) -> T:
    """Run a function in a thread of this process while the other processes run theirs.

    The function may take any time. An error in one process, or its death, is raised in all of
    them, soon after it happens.

    Returns:
        The result of the function in this process.
    """
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    def steps() -> Generator[None, None, None]:
        while not wait([future], timeout=1.0).done:
            yield
        future.result()

    # Not a thread of a pool: Python would wait for its end when another process has failed.
    Thread(target=run, daemon=True).start()
    run_with_heartbeat(processes, steps())
    return future.result()
