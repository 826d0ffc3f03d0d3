"""Batches of members, trained side by side where there are several cores or processes."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, replace
from threading import Event, Lock

import torch

from sswim.base.cholesky import FactorisationError
from sswim.distributed.heartbeat import run_in_thread
from sswim.distributed.processes import ALONE, Processes
from sswim.model.sswim import SSWIM
from sswim.rows.rows import Rows
from sswim.rows.stream import Stream
from sswim.training.checkpoints import CheckpointFile, Checkpoints
from sswim.training.history import MemberCallback, Step, Training
from sswim.training.objective import Objective
from sswim.training.training import Adam, train_batch


@dataclass(frozen=True)
class Batch:
    """Members that are trained together, and on what."""

    first: int
    """The number of its first member among all."""
    model: SSWIM
    """A batch, or a single member, on the device where it is trained."""
    rows: Rows | Stream
    """On the same device."""
    objective: Objective


@dataclass(frozen=True)
class MemberTrainer:
    """The processes that train batches, and how they share the work."""

    processes: Processes = ALONE
    spread: bool = False
    """Each process trains batches of its own, whose rows all have; else all train each batch
    together, with rows of their own."""
    checkpoints: Checkpoints | None = None

    def train(
        self, batches: Sequence[Batch], optimiser: Adam, callback: MemberCallback
    ) -> list[list[Training]]:
        """Train all batches in place; empty for those not begun when a callback ended it."""
        if not self.spread:
            return self._train(batches, optimiser, callback, self.processes)
        order = deepest_first(batches)
        mine = [batches[number] for number in order[self.processes.rank :: self.processes.size]]

        def train() -> list[tuple[int, dict[str, torch.Tensor], list[Training]]]:
            device = batches[0].model.log_noise.device
            if device.type == "cuda":
                torch.cuda.set_device(device)  # a thread has its own
            results = self._train(mine, optimiser, callback, ALONE) if mine else []
            return [
                (batch.first, _on_cpu(batch.model), result)
                for batch, result in zip(mine, results, strict=True)
            ]

        everyone = self.processes.all_gather(run_in_thread(self.processes, train))
        found = {first: (state, result) for results in everyone for first, state, result in results}
        for batch in batches:
            batch.model.load_state_dict(found[batch.first][0])
        return [found[batch.first][1] for batch in batches]

    def _train(
        self,
        batches: Sequence[Batch],
        optimiser: Adam,
        callback: MemberCallback,
        processes: Processes,
    ) -> list[list[Training]]:
        """Train batches in this process, or all processes in step.

        On a CPU each core has a batch of its own, for small matrices are not worth sharing. Which
        of them is first makes no difference to the result. The callback is called by one at a time.
        """
        stop, lock = Event(), Lock()

        def train(batch: Batch) -> list[Training]:
            if stop.is_set():
                return []

            def after_step(number: int, step: Step) -> bool:
                with lock:
                    if callback(batch.first + number, step) is True:
                        stop.set()
                return stop.is_set()

            result = self._train_one(batch, optimiser, after_step, processes)
            if processes.any(stop.is_set()):
                stop.set()
            return result

        alone = batches[0].model.log_noise.device.type == "cpu" and processes.size == 1
        in_memory = all(isinstance(batch.rows, Rows) for batch in batches)
        workers = min(torch.get_num_threads(), len(batches)) if alone and in_memory else 1
        if workers == 1:
            return [train(batch) for batch in batches]
        order = deepest_first(batches)
        with ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            futures = {number: pool.submit(train, batches[number]) for number in order}
            try:
                done, _ = wait(futures.values(), return_when=FIRST_EXCEPTION)
                for future in done:
                    future.result()
            except BaseException:
                stop.set()  # or the others would be waited for to their end
                raise
        return [futures[number].result() for number in range(len(batches))]

    def _train_one(
        self, batch: Batch, optimiser: Adam, callback: MemberCallback, processes: Processes
    ) -> list[Training]:
        """Train a batch, in double precision if single turns out not to be enough."""

        def run(rows: Rows | Stream, keeper: CheckpointFile | None) -> list[Training]:
            return train_batch(
                batch.model,
                rows,
                batch.objective,
                optimiser,
                callback=callback,
                device=batch.model.log_noise.device,
                processes=processes,
                keeper=keeper,
            )

        double = self._keeper(f"member-{batch.first:03}", processes)
        if precision(batch.rows) == torch.float64:
            return run(batch.rows, double)
        if double is None or not double.exists():
            start = copy.deepcopy(batch.model.state_dict())
            with suppress(FactorisationError):  # the noise fell below what it resolves
                return run(batch.rows, self._keeper(f"member-{batch.first:03}-single", processes))
            batch.model.load_state_dict(start)
        return run(in_precision(batch.rows, torch.float64), double)

    def _keeper(self, name: str, processes: Processes) -> CheckpointFile | None:
        return None if self.checkpoints is None else self.checkpoints.keeper(name, processes)


def precision(rows: Rows | Stream) -> torch.dtype:
    """Of the features."""
    return rows.inputs.mean.dtype if isinstance(rows, Rows) else rows.dtype


def in_precision(rows: Rows | Stream, dtype: torch.dtype) -> Rows | Stream:
    """The same rows for features of another precision."""
    if isinstance(rows, Rows):
        return replace(rows, inputs=rows.inputs.to(dtype=dtype))
    return replace(rows, dtype=dtype)


def deepest_first(batches: Sequence[Batch]) -> list[int]:
    """The order in which to begin: those that take longest come first."""
    return sorted(range(len(batches)), key=lambda n: -batches[n].model.architecture.depth)


def _on_cpu(model: SSWIM) -> dict[str, torch.Tensor]:
    return {name: tensor.cpu() for name, tensor in model.state_dict().items()}
