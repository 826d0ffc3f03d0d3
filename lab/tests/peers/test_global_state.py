"""Global state is restored, also after an error."""

from __future__ import annotations

import logging
import random
import sys
import warnings

import numpy as np
import pytest
import torch
from sswim_lab.peers.protocol import kept_random_state, silenced


def draw() -> tuple[float, float, float]:
    """Draw from the generators of Python, NumPy and PyTorch."""
    return random.random(), np.random.rand(), torch.rand(()).item()  # noqa: NPY002 (the global one)


def test_random_states_are_seeded_and_restored() -> None:
    state = random.getstate()  # the other two are checked after every test
    drawn = []
    for seed in (1, 1, 2):
        with kept_random_state(seed):
            drawn.append(draw())
    assert drawn[0] == drawn[1]
    assert not set(drawn[0]) & set(drawn[2])
    with pytest.raises(ZeroDivisionError), kept_random_state(1):
        _ = draw()[0] / 0
    assert random.getstate() == state


def test_nothing_is_printed_logged_or_warned_of(
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with silenced():
        print("printed")
        print("an error", file=sys.stderr)
        logging.getLogger("library").warning("logged")
        warnings.warn("warned", stacklevel=1)
    assert capfd.readouterr() == ("", "")
    assert caplog.records == []
    logging.getLogger("library").warning("logged again")
    assert len(caplog.records) == 1
