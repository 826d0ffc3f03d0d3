"""Global state that other libraries change: it is restored after they have run."""

from __future__ import annotations

import io
import logging
import random
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout

import numpy as np
import torch


@contextmanager
def kept_random_state(seed: int) -> Iterator[None]:
    """Seed the global generators of Python, NumPy and PyTorch, and restore them at the end."""
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002 (the global one)
    try:
        with torch.random.fork_rng():
            random.seed(seed)
            np.random.seed(seed)  # noqa: NPY002
            torch.manual_seed(seed)
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002


@contextmanager
def silenced() -> Iterator[None]:
    """Discard what Python code prints, logs below errors, and warns of."""
    disabled = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with (
            warnings.catch_warnings(),
            redirect_stdout(io.StringIO()),
            redirect_stderr(io.StringIO()),
        ):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)
