"""How long work takes and how much memory, measured so that a shared machine disturbs it little.

Works that are compared run in rounds, one after the other in each: what slows the machine down for
a while slows all of them down, and hardly moves the ratio of their medians.
"""

from __future__ import annotations

import ctypes
import gc
import math
import platform
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sswim.base.version import __version__

Work = Callable[[], Sequence[float] | None]
"""The whole call is timed, unless it returns the seconds of its parts, which then count instead."""

SLOW = 1.0
"""Seconds from which the first call of a work is heavy enough to show the memory that it takes."""
QUICK = 0.02
"""Seconds that a work is called again and again for in a round, if one call is quicker: else what
the works before it left in the caches would count."""


@dataclass(frozen=True)
class Rounds:
    """How often works run: often if they are quick, seldom if they are slow."""

    most: int = 20
    least: int = 5
    """Of quick works, which also run for ``seconds`` at least."""
    seconds: float = 1.0
    fewest: int = 2
    """Of slow works, which end once ``patience`` seconds are over."""
    patience: float = 30.0

    def enough(self, done: int, seconds: float) -> bool:
        """Whether no further round is needed after some, which took so long together."""
        quick = done >= self.least and seconds >= self.seconds
        slow = done >= self.fewest and seconds >= self.patience
        return quick or slow or done >= self.most


@dataclass(frozen=True)
class Timing:
    """What a work takes."""

    seconds: float
    """The median."""
    lower: float
    """The quartiles."""
    upper: float
    repeats: int
    peak_bytes: int | None
    """The most memory in use during a call, above what was in use before it.

    On a GPU that of PyTorch; on a CPU the resident set, which only Linux tells: None elsewhere.
    """


@dataclass(frozen=True)
class Comparison:
    """What several works take; those that the GPU is too small for are left out."""

    timings: dict[str, Timing]
    left_out: dict[str, str]
    """Why, by name."""


def compare(
    works: Mapping[str, Work], device: torch.device, rounds: Rounds | None = None
) -> Comparison:
    """Time works in rounds, after calls of each that do not count but show its memory."""
    rounds = rounds or Rounds()
    peaks: dict[str, int | None] = {}
    calls, left_out = {}, {}
    for name, work in works.items():
        try:
            seconds, peaks[name] = _warm_up(work, device)
            calls[name] = math.ceil(QUICK / seconds)
        except torch.OutOfMemoryError as error:
            left_out[name] = f"does not fit into the memory of the GPU: {_first_line(error)}"
        _release(device)
    samples: dict[str, list[float]] = {name: [] for name in peaks}
    began, done = time.perf_counter(), 0
    while samples and not rounds.enough(done, time.perf_counter() - began):
        for name, sample in samples.items():
            sample.extend(_timed(works[name], device, calls[name]))
        done += 1
    timings = {name: _summary(sample, peaks[name]) for name, sample in samples.items()}
    return Comparison(timings, left_out)


def machine(device: torch.device, libraries: Iterable[str] = ()) -> dict[str, Any]:
    """What measurements depend on, to be stored beside them."""
    cuda = device.type == "cuda"
    versions = [f"sswim {__version__}", f"torch {torch.__version__}"]
    for library in libraries:
        try:
            versions.append(f"{library} {version(library)}")
        except PackageNotFoundError:  # then it did not take part
            continue
    return {
        "device": device.type,
        "device_name": torch.cuda.get_device_name(device) if cuda else platform.machine(),
        "threads": torch.get_num_threads(),
        "versions": ", ".join(versions),
    }


def _warm_up(work: Work, device: torch.device) -> tuple[float, int | None]:
    """Call a work without counting it: about how long a call is, and the memory that it takes.

    The first call of anything also loads code and fills caches. That is not its memory, so a quick
    work is called again for it; beside a slow one it is nothing.
    """
    seconds, peak = _observed(work, device)
    return (seconds, peak) if seconds > SLOW else _observed(work, device)


def _timed(work: Work, device: torch.device, calls: int) -> Sequence[float]:
    """The seconds of the parts of a work that times these itself; of others those of a call."""
    _synchronise(device)
    began = time.perf_counter()
    for _ in range(calls):
        parts = work()
        if parts is not None:
            return parts
    _synchronise(device)
    return [(time.perf_counter() - began) / calls]


def _summary(seconds: Sequence[float], peak: int | None) -> Timing:
    lower, median, upper = np.quantile(seconds, [0.25, 0.5, 0.75]).tolist()
    return Timing(median, lower, upper, len(seconds), peak)


def _observed(work: Work, device: torch.device) -> tuple[float, int | None]:
    """The seconds and peak bytes of a call."""
    _release(device)
    before = _reset_peak(device)
    _synchronise(device)
    began = time.perf_counter()
    work()
    _synchronise(device)
    seconds = time.perf_counter() - began
    if before is None:
        return seconds, None
    cuda = device.type == "cuda"
    peak = torch.cuda.max_memory_allocated(device) if cuda else _resident("VmHWM")
    return seconds, max(0, peak - before)


def _reset_peak(device: torch.device) -> int | None:
    """Forget the peak so far; the bytes in use now, or None where the system does not say."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        return torch.cuda.memory_allocated(device)
    try:
        # What was freed earlier goes back to the system, or the work would use it again unseen.
        ctypes.CDLL(None).malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")
    except (OSError, AttributeError, TypeError):
        return None
    return _resident("VmRSS")


def _resident(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    [line] = [line for line in lines if line.startswith(f"{field}:")]
    return 1024 * int(line.split()[1])


def _release(device: torch.device) -> None:
    """Give back what no work uses any more."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()


def _synchronise(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _first_line(error: Exception) -> str:
    return str(error).split("\n", maxsplit=1)[0]
