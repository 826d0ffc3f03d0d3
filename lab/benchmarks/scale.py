"""Measure seconds and memory against rows, for one and several processes on one machine.

    python lab/benchmarks/scale.py run --out results/scale.csv
    python lab/benchmarks/scale.py table --out results/scale.csv

Rows come from a folder of Parquet files, which are written if they are missing. Every process has
the given number of threads. Runs that are compared alternate. A run that is in the results already
is skipped, so the same command continues after an interruption.
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
import torch
from scripting import append_row, read_rows, script_parser, stored, table_line, write_file
from timing import machine, process_bytes

from sswim import WarpedGPRegressor
from sswim.distributed.processes import join_processes, local_device, resolve_device
from sswim.estimator.settings import DType
from sswim.members import Step

FILE_ROWS = 500_000
GROUP_ROWS = 100_000


@dataclass(frozen=True)
class Case:
    """Settings of a run."""

    rows: int
    processes: int
    threads: int
    """Number of threads of each process."""
    streamed: bool
    """Whether rows are read again in every pass; if not, each process holds its share."""
    columns: int = 10
    features: int = 128
    pseudo: int = 64
    dtype: DType = "float64"


def write_rows(folder: Path, n_rows: int, n_columns: int) -> None:
    """Write the missing Parquet files of a folder, with the same rows every time."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, first in enumerate(range(0, n_rows, FILE_ROWS)):
        path = folder / f"part-{number:04}.parquet"
        if path.exists():
            continue
        random = np.random.default_rng(number)
        write_file(path, random, min(FILE_ROWS, n_rows - first), n_columns, GROUP_ROWS)


def measure(folder: Path, case: Case, steps: int, device: str) -> dict[str, Any] | None:
    """Return the time and memory of a step over all processes; None except in the first."""
    torch.set_num_threads(case.threads)
    base = process_bytes("VmHWM")
    taken: list[Step] = []
    regressor = WarpedGPRegressor(
        depth=1,
        n_components=case.features,
        n_pseudo=case.pseudo,
        max_iter=steps,
        dtype=case.dtype,
        random_state=0,
        device=device,
        callback=lambda member, step: taken.append(step),
    )
    with join_processes(local_device(resolve_device(device))) as processes:
        memory = 0 if case.streamed else "1TiB"
        regressor.fit(folder, "y", memory=memory, processes=processes)
        peak = max(processes.all_gather(process_bytes("VmHWM") - base))
        return summarise(taken, peak, base) if processes.is_first else None


def summarise(taken: list[Step], peak: int, base: int) -> dict[str, Any]:
    """Return the median time of the steps, without the first if there are others, and memory.

    The first step may compile code.
    """
    seconds = [taken[0].seconds, *(b.seconds - a.seconds for a, b in pairwise(taken))]
    counted = seconds[1:] or seconds
    return {
        "seconds_per_step": round(median(counted), 4),
        "steps": len(counted),
        "peak_mib": round(peak / 2**20),
        "interpreter_mib": round(base / 2**20),
    }


def launch(folder: Path, case: Case, steps: int, device: str) -> dict[str, Any]:
    """Run a case in new processes and return its results."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", str(case.processes), __file__, "worker", "--steps", str(steps)]
    command += ["--device", device, "--data", str(folder), "--case", json.dumps(asdict(case))]
    environment = {**os.environ, "OMP_NUM_THREADS": str(case.threads)}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return dict(json.loads(done.stdout.strip().splitlines()[-1]))


def run(arguments: argparse.Namespace) -> None:
    """Measure the missing runs and append them to the results."""
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
    """Return whether a run is in the results."""
    wanted = {name: str(value) for name, value in {**asdict(case), "round": number}.items()}
    return any(wanted.items() <= row.items() for row in read_rows(out))


def markdown(found: list[dict[str, str]]) -> str:
    """Return a Markdown table with the ratio of one process to several."""
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
        single = groups[key].get(1)
        for n_processes, runs in sorted(groups[key].items()):
            seconds = _median(runs, "seconds_per_step")
            ratio = f"{_median(single, 'seconds_per_step') / seconds:.2f} ×" if single else ""
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
            lines.append(table_line(cells))
    return "\n".join(lines)


def _median(runs: list[dict[str, str]], name: str) -> float:
    return median(float(run[name]) for run in runs)


def main() -> None:
    """Measure, or print the table of stored results."""
    parser = script_parser(__doc__)
    parser.add_argument(
        "command",
        choices=["run", "table", "worker"],
        help="run: measure; table: print the results; worker: one process of a run",
    )
    parser.add_argument("--out", type=Path, default=Path("results/scale.csv"), help="result file")
    parser.add_argument(
        "--data", type=Path, help="folder that keeps the rows between runs; by default temporary"
    )
    parser.add_argument(
        "--rows", type=int, nargs="+", default=[200_000, 1_000_000], help="numbers of rows"
    )
    parser.add_argument(
        "--processes", type=int, nargs="+", default=[1, 2], help="numbers of processes"
    )
    parser.add_argument("--threads", type=int, default=1, help="threads of each process")
    parser.add_argument(
        "--held", action="store_true", help="hold rows in memory instead of streaming them"
    )
    parser.add_argument("--features", type=int, default=Case.features, help="number of features")
    parser.add_argument("--dtype", default=Case.dtype, help="precision of the features")
    parser.add_argument("--steps", type=int, default=3, help="number of training steps")
    parser.add_argument("--rounds", type=int, default=3, help="number of times to repeat each run")
    parser.add_argument("--device", default="cpu", help="device to measure on")
    parser.add_argument("--case", help="settings of a worker, in JSON")
    arguments = parser.parse_args()
    if arguments.command == "run":
        run(arguments)
    elif arguments.command == "table":
        print(markdown(read_rows(stored(arguments.out))))
    else:
        case = Case(**json.loads(arguments.case))
        result = measure(arguments.data, case, arguments.steps, arguments.device)
        if result is not None:
            print(json.dumps(result))


if __name__ == "__main__":
    main()
