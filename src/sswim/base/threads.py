"""Work on chunks by several threads, each with one core."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")


def map_in_threads(function: Callable[[ItemT], ResultT], items: Sequence[ItemT]) -> list[ResultT]:
    """Apply a function to each item, on as many threads as PyTorch would use.

    Batches of small factorisations run on one core however many there are, so each core gets
    batches of its own. Gradients are recorded in none of the threads.
    """
    n_threads = torch.get_num_threads()
    workers = min(n_threads, len(items))
    if workers <= 1:
        return [function(item) for item in items]
    try:
        with ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            return list(pool.map(torch.no_grad()(function), items))
    finally:
        torch.set_num_threads(n_threads)  # else threads that start later would have one core
