"""Training that is killed at any moment, and resumed: does it end as if nothing had happened?

    python benchmarks/kills.py [--out results/kills.jsonl]

Two processes under torchrun train a model whose rows are dealt to them, and an ensemble whose
members are. One of them, or both and torchrun too, get SIGKILL at a random moment; in some runs it
is aimed at the writing of a checkpoint, and a half-written file shows that it hit. What was kept
must be readable, and the training that is resumed from it must write the same model file as one
that was left alone, byte by byte. One line of JSON is added to the file of results for every kill.
The machine must have /proc.
"""

from __future__ import annotations

import argparse
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
    fit,
    is_launched,
    is_running,
    kill,
    largest_difference,
    run,
    torchrun,
    wait_until,
    workers,
    write_rows,
)
from timing import machine

from sswim.training.checkpoints import CHECKPOINT, RUN

N_PROCESSES = 2

EVERY = 3
"""Steps from one checkpoint to the next."""


@dataclass(frozen=True)
class Work:
    """What is trained."""

    n_rows: int
    n_steps: int
    """Of all members."""
    options: tuple[str, ...]


WORKS = {
    # More rows than a sample has, so that they are read again for every pass.
    "rows dealt": Work(
        61_000,
        24,
        ("--depth=1", "--n-components=32", "--n-pseudo=8", "--max-iter=24", "--memory=1MiB"),
    ),
    "members dealt": Work(
        20_000, 72, ("--n-components=16", "--n-pseudo=4", "--n-members=1", "--max-iter=12")
    ),
}


@dataclass(frozen=True)
class Kill:
    """Who is killed, and when."""

    work: str
    victim: int | None
    """A rank; None for all, and torchrun with them."""
    step: int
    """Of all members together."""
    moment: str
    """Any; or writing, as soon as the first checkpoint after the step is seen to be written."""
    share: float
    """Of the time from one checkpoint to the next that goes by at any moment."""


@dataclass(frozen=True)
class Undisturbed:
    """A training that nobody killed."""

    table: Path
    model: Path
    step_s: float
    """What a step of a member takes, with its part of all that comes after the last step."""


def draw_kills(seed: int = 0) -> list[Kill]:
    """Kills of all kinds, at moments drawn from a seed."""
    random = np.random.default_rng(seed)
    kinds = product(["any", "any", "writing"], [0, None, 1, None], WORKS)
    return [
        Kill(
            work,
            victim,
            int(random.integers(WORKS[work].n_steps)),
            moment,
            round(random.uniform(), 3),
        )
        for moment, victim, work in kinds
    ]


def train_undisturbed(name: str, folder: Path) -> Undisturbed:
    """Make the rows, and the model that others are compared with."""
    folder.mkdir()
    table = write_rows(folder / "rows", WORKS[name].n_rows)
    model, kept, log = folder / "model.sswim", folder / "kept", folder / "log.txt"
    with is_launched(command(name, table, model, kept), log) as process:
        wait_until(lambda: bool(kept_steps(kept)))
        began = time.perf_counter()
        if process.wait() != 0:
            raise RuntimeError(f"The undisturbed training must succeed: {log.read_text()}")
        step_s = (time.perf_counter() - began) / WORKS[name].n_steps
        return Undisturbed(table, model, step_s)


def command(name: str, table: Path, model: Path, kept: Path) -> list[str]:
    """What trains, whether there is anything to resume or not."""
    keeping = (f"--checkpoint={kept}", f"--every={EVERY}", "--resume")
    launcher = torchrun(N_PROCESSES, "--standalone")
    return [*launcher, *fit(table, model, *WORKS[name].options, *keeping)]


def kept_steps(kept: Path) -> dict[str, int]:
    """The steps in each checkpoint, which must be readable at any time."""
    return {
        path.stem: CHECKPOINT.read(path)[1]["steps"] for path in sorted(kept.glob("*.safetensors"))
    }


def measure(planned: Kill, undisturbed: Undisturbed, folder: Path) -> dict[str, Any] | None:
    """Kill a training and resume it; None if it had ended before."""
    model, kept, log = folder / "model.sswim", folder / "kept", folder / "log.txt"
    training = command(planned.work, undisturbed.table, model, kept)
    with is_launched(training, log) as process:

        def at_step() -> bool:
            return (kept / RUN).exists() and sum(kept_steps(kept).values()) > planned.step - EVERY

        wait_until(lambda: at_step() or not is_running(process.pid))
        if planned.moment == "any":
            time.sleep(planned.share * EVERY * undisturbed.step_s)
        else:
            wait_until(lambda: any(kept.glob(".*.part")) or not is_running(process.pid), pause=0)
        ends = killed(planned, process)
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


def killed(planned: Kill, process: subprocess.Popen[bytes]) -> dict[str, Any] | None:
    """Kill, and wait for the end of those that were not; None if all had ended before."""
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


def line(planned: Kill, undisturbed: Undisturbed, folder: Path) -> dict[str, Any]:
    """What is stored of a kill; if it came too late, of one at half the step."""
    result = measure(planned, undisturbed, Path(tempfile.mkdtemp(dir=folder)))
    if result is None:
        return line(replace(planned, step=planned.step // 2), undisturbed, folder)
    date = datetime.now(UTC).isoformat(timespec="seconds")
    return {"date": date, **asdict(planned), **result, **machine(torch.device("cpu"))}


def main() -> None:
    """Kill, print and store."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("results/kills.jsonl"))
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        undisturbed = {name: train_undisturbed(name, folder / name) for name in WORKS}
        for planned in draw_kills():
            text = json.dumps(line(planned, undisturbed[planned.work], folder))
            with asked.out.open("a", encoding="utf-8") as file:
                file.write(text + "\n")
            print(text, flush=True)


if __name__ == "__main__":
    main()
