"""Any number of threads, however many cores there are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch

from sswim.base import threads


@contextmanager
def use_threads(n: int) -> Iterator[None]:
    """Let PyTorch and the library use so many threads, in this thread and those that it starts."""
    before = torch.get_num_threads()
    torch.set_num_threads(n)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(threads, "_usable_cores", lambda: n)
            yield
    finally:
        torch.set_num_threads(before)
