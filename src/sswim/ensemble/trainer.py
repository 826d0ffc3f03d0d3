"""Training of batches of members in parallel, on several cores or in several processes."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass
from threading import Event, Lock

import torch

from sswim.base.record import begin_worker, flushed_denormals
from sswim.distributed.processes import ALONE, Processes, run_in_thread
from sswim.members.checkpoints import Checkpoints
from sswim.members.history import MemberCallback, Step, Training
from sswim.members.kinds import Batch
from sswim.members.member import NewStore
from sswim.members.model import SSWIM, require_converged
from sswim.rows.rows import Rows


@dataclass(frozen=True)
class MemberTrainer:
    """Trains batches of members in one or several processes."""

    processes: Processes = ALONE
    deal_members: bool = False
    """Whether each process trains some of the batches on all rows; else all processes train every
    batch together, each with its own rows."""
    checkpoints: Checkpoints | None = None
    shortest_first: bool = False
    """Whether the batches that take least time come first, so that an end is possible early."""

    def train(self, batches: Sequence[Batch], callback: MemberCallback) -> list[list[Training]]:
        """Train all batches in place, and return the trainings of each batch's members.

        The list of a batch that had not begun when a callback ended the training is empty.
        """
        if not self.deal_members:
            return self._train_all(batches, callback, self.processes)
        order = self._order(batches)
        mine = [batches[number] for number in order[self.processes.rank :: self.processes.size]]

        def train() -> list[tuple[int, dict[str, torch.Tensor], list[Training]]]:
            device = batches[0].model.log_noise.device
            if device.type == "cuda":
                torch.cuda.set_device(device)  # every thread has its own current device
            results = self._train_all(mine, callback, ALONE) if mine else []
            return [
                (batch.first, _cpu_state(batch.model), result)
                for batch, result in zip(mine, results, strict=True)
            ]

        gathered = self.processes.all_gather(run_in_thread(self.processes, train))
        trained = {
            first: (state, result) for results in gathered for first, state, result in results
        }
        for batch in batches:
            batch.model.load_state_dict(trained[batch.first][0])
        return [trained[batch.first][1] for batch in batches]

    def _train_all(
        self,
        batches: Sequence[Batch],
        callback: MemberCallback,
        processes: Processes,
    ) -> list[list[Training]]:
        """Train batches in this process alone, or in step with all processes.

        On a CPU each core trains a batch of its own, because small matrices are not worth sharing.
        Their order makes no difference to the result. One thread at a time calls the callback.
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

            with flushed_denormals():
                store = self._store(batch, processes)
                result = batch.member.train(batch, after_step, processes, store)
            require_converged(batch.model)
            if processes.any(stop.is_set()):
                stop.set()
            return result

        alone = batches[0].model.log_noise.device.type == "cpu" and processes.size == 1
        in_memory = all(isinstance(batch.rows, Rows) for batch in batches)
        workers = min(torch.get_num_threads(), len(batches)) if alone and in_memory else 1
        order = self._order(batches)
        if workers == 1:
            results = {number: train(batches[number]) for number in order}
            return [results[number] for number in range(len(batches))]
        with ThreadPoolExecutor(workers, initializer=begin_worker) as pool:
            futures = {number: pool.submit(train, batches[number]) for number in order}
            try:
                done, _ = wait(futures.values(), return_when=FIRST_EXCEPTION)
                for future in done:
                    future.result()
            except BaseException:
                stop.set()  # else the pool would wait for the other batches
                raise
        return [futures[number].result() for number in range(len(batches))]

    def _order(self, batches: Sequence[Batch]) -> list[int]:
        """Return the indices of the batches in the order in which they are trained."""
        order = deepest_first(batches)
        return order[::-1] if self.shortest_first else order

    def _store(self, batch: Batch, processes: Processes) -> NewStore:
        """Return what makes the checkpoint files of a batch."""
        checkpoints = self.checkpoints
        if checkpoints is None:
            return lambda _: None
        return lambda end: checkpoints.file(f"member-{batch.first:03}{end}", processes)


def deepest_first(batches: Sequence[Batch]) -> list[int]:
    """Return the indices of the batches, those that take longest first."""
    return sorted(range(len(batches)), key=lambda n: _cost(batches[n].model), reverse=True)


def _cost(model: SSWIM) -> tuple[int, int]:
    """Return what orders members by the time that they take."""
    return model.architecture.depth, model.architecture.n_neighbors


def _cpu_state(model: SSWIM) -> dict[str, torch.Tensor]:
    return {name: tensor.cpu() for name, tensor in model.state_dict().items()}
