"""Batches of members, trained side by side where there are several cores."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, replace
from threading import Event, Lock

import torch

from sswim.factorisation import FactorisationError
from sswim.model import SSWIM
from sswim.objective import Objective
from sswim.rows import Rows
from sswim.training import Adam, MemberCallback, Step, Training, train_batch


@dataclass(frozen=True)
class Batch:
    """Members that are trained together, and on what."""

    first: int
    """The number of its first member among all."""
    model: SSWIM
    """A batch, or a single member."""
    rows: Rows
    """On the device where it is trained."""
    objective: Objective


def train_batches(
    batches: Sequence[Batch], optimiser: Adam, callback: MemberCallback
) -> list[list[Training]]:
    """Train all batches in place; empty for those that had not begun when a callback ended it.

    On a CPU each core has a batch of its own, for small matrices are not worth sharing. Which of
    them is first makes no difference to the result. The callback is called by one at a time.
    """
    stop, lock = Event(), Lock()
    on_cpu = batches[0].rows.targets.device.type == "cpu"
    workers = min(torch.get_num_threads(), len(batches)) if on_cpu else 1

    def train(batch: Batch) -> list[Training]:
        if stop.is_set():
            return []

        def after_step(number: int, step: Step) -> bool:
            with lock:
                if callback(batch.first + number, step) is True:
                    stop.set()
            return stop.is_set()

        def run(rows: Rows) -> list[Training]:
            return train_batch(
                batch.model,
                rows,
                batch.objective,
                optimiser,
                callback=after_step,
                device=rows.targets.device,
            )

        if batch.rows.inputs.mean.dtype == torch.float64:
            return run(batch.rows)
        start = copy.deepcopy(batch.model.state_dict())
        with suppress(FactorisationError):  # the noise fell below what single precision resolves
            return run(batch.rows)
        batch.model.load_state_dict(start)
        return run(replace(batch.rows, inputs=batch.rows.inputs.to(dtype=torch.float64)))

    if workers == 1:
        return [train(batch) for batch in batches]
    # The deepest take longest, and so come first.
    order = sorted(range(len(batches)), key=lambda n: -batches[n].model.architecture.depth)
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
