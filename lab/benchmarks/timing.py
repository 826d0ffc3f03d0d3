"""Shared by the scripts: time and memory of workloads, measured on a machine that may be shared.

Workloads that are compared run in rounds, one after the other in each round. Whatever slows the
machine down for a while slows all of them down, and hardly moves the ratio of their medians.
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

Workload = Callable[[], Sequence[float] | None]
"""A function to time. If it returns the seconds of its parts, these are used instead of the time of
the whole call."""

SLOW = 1.0
"""Seconds of a first call after which no second call is needed to measure the memory."""
QUICK = 0.02
"""Seconds that a workload runs for in a round at least. A quicker one is called several times, so
that cold caches after the previous workload hardly count."""


@dataclass(frozen=True)
class Rounds:
    """Rule for the number of rounds: many for quick workloads, few for slow ones."""

    max_rounds: int = 20
    min_rounds: int = 5
    """Fewest rounds of quick workloads, which also run for ``min_seconds``."""
    min_seconds: float = 1.0
    min_slow_rounds: int = 2
    """Fewest rounds of slow workloads, which stop after ``max_seconds``."""
    max_seconds: float = 30.0

    def is_enough(self, done: int, seconds: float) -> bool:
        """Return whether to stop after a number of rounds that took this long together."""
        quick = done >= self.min_rounds and seconds >= self.min_seconds
        slow = done >= self.min_slow_rounds and seconds >= self.max_seconds
        return quick or slow or done >= self.max_rounds


@dataclass(frozen=True)
class Timing:
    """Time and memory of a workload."""

    seconds: float
    """Median time."""
    lower: float
    """Lower quartile of the times."""
    upper: float
    """Upper quartile of the times."""
    repeats: int
    peak_bytes: int | None
    """Peak memory of a call, minus the memory in use before it.

    On a GPU this is the memory of PyTorch; on a CPU the resident set, which is known on Linux only
    (elsewhere None).
    """


@dataclass(frozen=True)
class Comparison:
    """Time and memory of several workloads."""

    timings: dict[str, Timing]
    left_out: dict[str, str]
    """Reasons, by name, of workloads that do not fit into the memory of the GPU."""


def compare(
    workloads: Mapping[str, Workload], device: torch.device, rounds: Rounds | None = None
) -> Comparison:
    """Time workloads in rounds, after calls that only measure the memory of each."""
    rounds = rounds or Rounds()
    peaks: dict[str, int | None] = {}
    calls, left_out = {}, {}
    for name, workload in workloads.items():
        try:
            seconds, peaks[name] = _warm_up(workload, device)
            calls[name] = math.ceil(QUICK / seconds)
        except torch.OutOfMemoryError as error:
            reason, _, _ = str(error).partition("\n")
            left_out[name] = f"does not fit into the memory of the GPU: {reason}"
        _release(device)
    samples: dict[str, list[float]] = {name: [] for name in peaks}
    began, done = time.perf_counter(), 0
    while samples and not rounds.is_enough(done, time.perf_counter() - began):
        for name, sample in samples.items():
            sample.extend(_time_calls(workloads[name], device, calls[name]))
        done += 1
    timings = {name: _summarise(sample, peaks[name]) for name, sample in samples.items()}
    return Comparison(timings, left_out)


def machine(device: torch.device, libraries: Iterable[str] = ()) -> dict[str, Any]:
    """Return the device, threads and versions of a measurement, to be stored beside it."""
    cuda = device.type == "cuda"
    versions = [f"sswim {__version__}", f"torch {torch.__version__}"]
    for library in libraries:
        try:
            versions.append(f"{library} {version(library)}")
        except PackageNotFoundError:  # not installed, so not used
            continue
    return {
        "device": device.type,
        "device_name": torch.cuda.get_device_name(device) if cuda else platform.machine(),
        "threads": torch.get_num_threads(),
        "versions": ", ".join(versions),
    }


def process_bytes(field: str) -> int:
    """Return a number of bytes that Linux reports of this process, such as its peak VmHWM."""
    return read_bytes(Path("/proc/self/status"), field)


def read_bytes(path: Path, field: str) -> int:
    """Return the bytes in the line ``field: … kB`` of a file of Linux."""
    lines = path.read_text(encoding="utf-8").splitlines()
    [line] = [line for line in lines if line.startswith(f"{field}:")]
    return 1024 * int(line.split()[1])


def _warm_up(workload: Workload, device: torch.device) -> tuple[float, int | None]:
    """Return the approximate seconds and the peak bytes of a call.

    The first call also loads code and fills caches, whose memory should not count. So a quick
    workload is called a second time; for a slow one that memory is negligible.
    """
    seconds, peak = _observe_call(workload, device)
    return (seconds, peak) if seconds > SLOW else _observe_call(workload, device)


def _time_calls(workload: Workload, device: torch.device, calls: int) -> Sequence[float]:
    """Return the seconds of a call, or of its parts if the workload times these itself."""
    _synchronise(device)
    began = time.perf_counter()
    for _ in range(calls):
        parts = workload()
        if parts is not None:
            return parts
    _synchronise(device)
    return [(time.perf_counter() - began) / calls]


def _summarise(seconds: Sequence[float], peak: int | None) -> Timing:
    lower, median, upper = np.quantile(seconds, [0.25, 0.5, 0.75]).tolist()
    return Timing(median, lower, upper, len(seconds), peak)


def _observe_call(workload: Workload, device: torch.device) -> tuple[float, int | None]:
    """Return the seconds and peak bytes of a call."""
    _release(device)
    before = _reset_peak(device)
    _synchronise(device)
    began = time.perf_counter()
    workload()
    _synchronise(device)
    seconds = time.perf_counter() - began
    if before is None:
        return seconds, None
    cuda = device.type == "cuda"
    peak = torch.cuda.max_memory_allocated(device) if cuda else process_bytes("VmHWM")
    return seconds, max(0, peak - before)


def _reset_peak(device: torch.device) -> int | None:
    """Reset the peak; return the bytes in use now, or None if the system does not report them."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        return torch.cuda.memory_allocated(device)
    try:
        # Return freed memory to the system: its reuse by the workload would not be measured.
        ctypes.CDLL(None).malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")
    except (OSError, AttributeError, TypeError):
        return None
    return process_bytes("VmRSS")


def _release(device: torch.device) -> None:
    """Free memory that is no longer used."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()


def _synchronise(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
