"""Check that a training that is killed and resumed ends with the same model.

    python lab/benchmarks/kills.py [--out results/kills.jsonl]

Two processes under torchrun train a single model, whose rows they share, and an ensemble, whose
members they share. One of them, or both and torchrun, get SIGKILL at a random moment. In some runs
the signal is sent while a checkpoint is written; a half-written file shows that it came in time.
The checkpoints must be readable, and the resumed training must write the same model file, byte by
byte, as an undisturbed one. One line of JSON for every kill is appended to the result file. The
machine must have /proc.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from launches import (
    fit_arguments,
    is_running,
    kill,
    largest_difference,
    launch,
    run,
    torchrun_command,
    wait_until,
    workers,
    write_rows,
)
from scripting import append_line, script_parser
from timing import machine

from sswim.members.checkpoints import CHECKPOINT, RUN

N_PROCESSES = 2

EVERY = 3
"""Number of steps between checkpoints."""


@dataclass(frozen=True)
class Workload:
    """A training."""

    n_rows: int
    n_steps: int
    """Number of steps of all members together."""
    options: tuple[str, ...]
    """Options of ``sswim fit``."""


WORKLOADS = {
    # More rows than the largest sample, so that they are read again in every pass.
    "rows dealt": Workload(
        61_000,
        24,
        ("--depth=1", "--n-components=32", "--n-pseudo=8", "--max-iter=24", "--memory=1MiB"),
    ),
    "members dealt": Workload(
        20_000, 72, ("--n-components=16", "--n-pseudo=4", "--n-members=1", "--max-iter=12")
    ),
}


@dataclass(frozen=True)
class Kill:
    """A plan of which process to kill, and when."""

    work: str
    """Name of the workload."""
    victim: int | None
    """Rank of the process to kill; None for all of them and torchrun."""
    step: int
    """Number of steps, of all members together, before the kill."""
    moment: str
    """"writing": while the first checkpoint after the step is written; "any": at any time."""
    share: float
    """Fraction of the time between checkpoints to wait if the moment is "any"."""


@dataclass(frozen=True)
class Undisturbed:
    """A training that was not killed."""

    table: Path
    model: Path
    step_s: float
    """Seconds of a step of a member, including its share of the time after the last step."""


def draw_kills(seed: int = 0) -> list[Kill]:
    """Return kills of every combination, at random moments."""
    random = np.random.default_rng(seed)
    kinds = product(["any", "any", "writing"], [0, None, 1, None], WORKLOADS)
    return [
        Kill(
            work,
            victim,
            int(random.integers(WORKLOADS[work].n_steps)),
            moment,
            round(random.uniform(), 3),
        )
        for moment, victim, work in kinds
    ]


def train_undisturbed(name: str, folder: Path) -> Undisturbed:
    """Write the rows and train the model that resumed trainings are compared with."""
    folder.mkdir()
    table = write_rows(folder / "rows", WORKLOADS[name].n_rows)
    model, kept, log = folder / "model.sswim", folder / "kept", folder / "log.txt"
    with launch(command(name, table, model, kept), log) as process:
        wait_until(lambda: bool(kept_steps(kept)))
        began = time.perf_counter()
        if process.wait() != 0:
            raise RuntimeError(f"The undisturbed training must succeed: {log.read_text()}")
        step_s = (time.perf_counter() - began) / WORKLOADS[name].n_steps
        return Undisturbed(table, model, step_s)


def command(name: str, table: Path, model: Path, kept: Path) -> list[str]:
    """Return the command that trains, and resumes if there are checkpoints."""
    checkpoints = (f"--checkpoints={kept}", f"--every={EVERY}", "--resume")
    launcher = torchrun_command(N_PROCESSES, "--standalone")
    return [*launcher, *fit_arguments(table, model, *WORKLOADS[name].options, *checkpoints)]


def kept_steps(kept: Path) -> dict[str, int]:
    """Return the number of steps in each checkpoint, all of which must be readable."""
    return {
        path.stem: CHECKPOINT.read(path)[1]["steps"] for path in sorted(kept.glob("*.safetensors"))
    }


def measure(planned: Kill, undisturbed: Undisturbed, folder: Path) -> dict[str, Any] | None:
    """Kill a training, resume it and return the results; None if it ended before the kill."""
    model, kept, log = folder / "model.sswim", folder / "kept", folder / "log.txt"
    training = command(planned.work, undisturbed.table, model, kept)
    with launch(training, log) as process:

        def has_reached_step() -> bool:
            return (kept / RUN).exists() and sum(kept_steps(kept).values()) > planned.step - EVERY

        wait_until(lambda: has_reached_step() or not is_running(process.pid))
        if planned.moment == "any":
            time.sleep(planned.share * EVERY * undisturbed.step_s)
        else:
            wait_until(lambda: any(kept.glob(".*.part")) or not is_running(process.pid), pause=0)
        ends = kill_workers(planned, process)
    if ends is None:
        return None
    said = [line for line in log.read_text().splitlines() if line.startswith("Error")]
    found = kept_steps(kept)
    half_written = [path.stat().st_size for path in kept.glob(".*.part")]
    began = time.perf_counter()
    run(training, log)
    return ends | {
        "said": said,
        "kept_steps": found,
        "half_written_bytes": half_written,
        "resumed_s": round(time.perf_counter() - began, 2),
        "left_in_folder": [path.name for path in kept.glob("*")],
        "equal": model.read_bytes() == undisturbed.model.read_bytes(),
        "largest_difference": largest_difference(model, undisturbed.model),
    }


def kill_workers(planned: Kill, process: subprocess.Popen[bytes]) -> dict[str, Any] | None:
    """Kill processes and wait for the others to exit; return None if all ended before."""
    pids = workers(process.pid)
    if len(pids) < N_PROCESSES:
        return None
    victims = [*pids.values(), process.pid] if planned.victim is None else [pids[planned.victim]]
    kill(victims)
    survivors = [pid for pid in pids.values() if pid not in victims]
    seconds = wait_until(lambda: not any(map(is_running, survivors)))
    if process.wait() == 0:
        return None
    return {"survivor_s": round(seconds, 3) if survivors else None, "code": process.returncode}


def measure_in_time(planned: Kill, undisturbed: Undisturbed, folder: Path) -> dict[str, Any]:
    """Return the line of results of a kill; if it came too late, kill at half the step."""
    result = measure(planned, undisturbed, Path(tempfile.mkdtemp(dir=folder)))
    if result is None:
        return measure_in_time(replace(planned, step=planned.step // 2), undisturbed, folder)
    date = datetime.now(UTC).isoformat(timespec="seconds")
    return {"date": date, **asdict(planned), **result, **machine(torch.device("cpu"))}


def main() -> None:
    """Measure every kill, print and store the results."""
    parser = script_parser(__doc__)
    parser.add_argument("--out", type=Path, default=Path("results/kills.jsonl"), help="result file")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        undisturbed = {name: train_undisturbed(name, folder / name) for name in WORKLOADS}
        for planned in draw_kills():
            result = measure_in_time(planned, undisturbed[planned.work], folder)
            append_line(asked.out, result)
            print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
