"""Rows against seconds and memory, for one and several processes on one machine.

    python benchmarks/scale.py run --out results/scale.csv
    python benchmarks/scale.py table --out results/scale.csv

Rows come from a folder of Parquet files, made where they are missing. Every process has as many
threads as is said. Runs that are compared take turns; a run that is in the results already is left
out, so that a run that was cut off can be started again.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from itertools import pairwise, product
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from csv_rows import append_row, read_rows
from timing import machine

from sswim import SSWIMRegressor, Step
from sswim.base.devices import resolve_device
from sswim.distributed.processes import join_processes, local_device
from sswim.estimator.settings import DType

FILE_ROWS = 500_000
GROUP_ROWS = 100_000


@dataclass(frozen=True)
class Case:
    """What is run."""

    rows: int
    processes: int
    threads: int
    """Of each process."""
    streamed: bool
    """Rows are read again for every pass; else each process holds its share."""
    columns: int = 10
    features: int = 128
    pseudo: int = 64
    dtype: DType = "float64"


def write_rows(folder: Path, n_rows: int, n_columns: int) -> None:
    """A folder of Parquet files of a function with noise; the same rows every time."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, first in enumerate(range(0, n_rows, FILE_ROWS)):
        path = folder / f"part-{number:04}.parquet"
        if path.exists():
            continue
        random = np.random.default_rng(number)
        n = min(FILE_ROWS, n_rows - first)
        x = random.normal(size=(n, n_columns))
        y = np.sin(3 * x[:, 0]) * np.exp(x[:, 1] / 2) + 0.1 * random.normal(size=n)
        columns = {f"x{column}": x[:, column] for column in range(n_columns)} | {"y": y}
        pq.write_table(pa.table(columns), path, row_group_size=GROUP_ROWS)


def measure(folder: Path, case: Case, steps: int, device: str) -> dict[str, Any] | None:
    """What a step takes in this process and those beside it; told by the first."""
    torch.set_num_threads(case.threads)
    base = peak_bytes()
    marks: list[Step] = []
    regressor = SSWIMRegressor(
        depth=1,
        n_components=case.features,
        n_pseudo=case.pseudo,
        max_iter=steps,
        dtype=case.dtype,
        random_state=0,
        device=device,
        callback=lambda member, step: marks.append(step),
    )
    with join_processes(local_device(resolve_device(device))) as processes:
        memory = 0 if case.streamed else "1TiB"
        regressor.fit(folder, "y", memory=memory, processes=processes)
        peak = max(processes.all_gather(peak_bytes() - base))
        return summary(marks, peak, base) if processes.is_first else None


def summary(marks: list[Step], peak: int, base: int) -> dict[str, Any]:
    """The median of the steps; the first may have to compile and is left out if there are more."""
    seconds = [marks[0].seconds, *(b.seconds - a.seconds for a, b in pairwise(marks))]
    counted = seconds[1:] or seconds
    return {
        "seconds_per_step": round(median(counted), 4),
        "steps": len(counted),
        "peak_mib": round(peak / 2**20),
        "interpreter_mib": round(base / 2**20),
    }


def peak_bytes() -> int:
    """The most memory that this process has had."""
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("This system does not tell how much memory a process has had.")


def launch(folder: Path, case: Case, steps: int, device: str) -> dict[str, Any]:
    """Run a case in processes of its own."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", str(case.processes), __file__, "worker", "--steps", str(steps)]
    command += ["--device", device, "--data", str(folder), "--case", json.dumps(asdict(case))]
    environment = {**os.environ, "OMP_NUM_THREADS": str(case.threads)}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return dict(json.loads(done.stdout.strip().splitlines()[-1]))


def run(arguments: argparse.Namespace) -> None:
    """Measure and append to the results."""
    with tempfile.TemporaryDirectory() as temporary:
        for n_rows in arguments.rows:
            folder = (arguments.data or Path(temporary)) / f"rows-{n_rows}"
            write_rows(folder, n_rows, Case.columns)
            for number, n_processes in product(range(arguments.rounds), arguments.processes):
                case = Case(
                    n_rows,
                    n_processes,
                    arguments.threads,
                    not arguments.held,
                    features=arguments.features,
                    dtype=arguments.dtype,
                )
                if is_done(arguments.out, case, number):
                    continue
                result = launch(folder, case, arguments.steps, arguments.device)
                facts = {**asdict(case), "round": number, **result}
                append_row(arguments.out, {**machine(torch.device(arguments.device)), **facts})
                print(facts, flush=True)


def is_done(out: Path, case: Case, number: int) -> bool:
    """Whether a run is in the results."""
    wanted = {name: str(value) for name, value in {**asdict(case), "round": number}.items()}
    return any(wanted.items() <= row.items() for row in read_rows(out))


def markdown(found: list[dict[str, str]]) -> str:
    """A line for each number of rows, with the ratio of two processes to one."""
    groups: dict[tuple[str, str, str, str, str], dict[int, list[dict[str, str]]]] = {}
    for row in found:
        key = (row["rows"], row["features"], row["dtype"], row["threads"], row["streamed"])
        groups.setdefault(key, {}).setdefault(int(row["processes"]), []).append(row)
    lines = [
        "| rows | features | precision | threads each | rows are | processes | s per step | "
        "µs per row | faster than one | peak memory each, MiB |",
        "| ---: | ---: | --- | ---: | --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for key in sorted(groups, key=lambda each: (each[1:], int(each[0]))):
        n_rows, features, dtype, threads, streamed = key
        alone = groups[key].get(1)
        for n_processes, runs in sorted(groups[key].items()):
            seconds = _median(runs, "seconds_per_step")
            ratio = f"{_median(alone, 'seconds_per_step') / seconds:.2f} ×" if alone else ""
            cells = [
                f"{int(n_rows):,}",
                features,
                dtype,
                threads,
                "streamed" if streamed == "True" else "held",
                str(n_processes),
                f"{seconds:.3g}",
                f"{1e6 * seconds / int(n_rows):.3g}",
                ratio if n_processes > 1 else "",
                f"{_median(runs, 'peak_mib'):.0f}",
            ]
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _median(runs: list[dict[str, str]], name: str) -> float:
    return median(float(run[name]) for run in runs)


def main() -> None:
    """Measure, or tell what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", choices=["run", "table", "worker"])
    parser.add_argument("--out", type=Path, default=Path("results/scale.csv"))
    parser.add_argument("--data", type=Path, help="where rows are kept from run to run")
    parser.add_argument("--rows", type=int, nargs="+", default=[200_000, 1_000_000])
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--held", action="store_true", help="rows stay in memory")
    parser.add_argument("--features", type=int, default=Case.features)
    parser.add_argument("--dtype", default=Case.dtype)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--case", help="of a worker")
    arguments = parser.parse_args()
    if arguments.command == "run":
        run(arguments)
    elif arguments.command == "table":
        print(markdown(read_rows(arguments.out)))
    else:
        case = Case(**json.loads(arguments.case))
        result = measure(arguments.data, case, arguments.steps, arguments.device)
        if result is not None:
            print(json.dumps(result))


if __name__ == "__main__":
    main()
