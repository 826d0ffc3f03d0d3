"""What each optimisation of the training step gains: steps with all of them, and without one.

    python benchmarks/optimisations.py --rows 20000 --depth 1 [--dtype float32] [--device cuda]

Everything is timed in rounds of one process. Each line is added to the file of results.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, get_args
from unittest.mock import patch

import torch
from csv_rows import append_row
from peers import DTYPES, Case, Data, DType, sswim_steps, synthetic
from step import DEVICES
from timing import Work, compare, machine
from torch import Tensor

from sswim.base.devices import resolve_device

Off = Callable[[], AbstractContextManager[Any]]


def _solve_and_invert(factor: Tensor, vector: Tensor) -> tuple[Tensor, Tensor]:
    solution = torch.cholesky_solve(vector[..., None], factor)[..., 0]
    return solution, torch.cholesky_inverse(factor)


ANYWHERE: dict[str, Off] = {
    "symmetric products in panels": partial(patch, "sswim.posterior.evidence._PANELS", 1),
}
ON_CPU: dict[str, Off] = {
    "graphs kept between the passes": partial(
        patch, "sswim.training.objective.kept_rows", lambda *arguments: 0
    ),
    "chunks that stay in cache": partial(
        patch, "sswim.training.objective.chunk_size", lambda architecture, rows, members: len(rows)
    ),
}
ON_GPU: dict[str, Off] = {
    "kernels for the features": partial(
        patch, "sswim.model.features.kernels_for", lambda tensor: None
    ),
    "recorded steps": partial(patch, "sswim.training.training._Run.can_record", False),
}


def works(case: Case, data: Data) -> dict[str, Work]:
    """Steps with everything, and without one optimisation each, by its name."""
    off = ANYWHERE | (ON_GPU if data.x.is_cuda else ON_CPU)
    found = {"everything": sswim_steps(case, data)}
    found |= {name: _without(switch, sswim_steps(case, data)) for name, switch in off.items()}
    if data.x.is_cuda and case.members == 1:  # the library's for batches cannot be recorded
        library = partial(patch, "sswim.posterior.evidence.solve_and_invert", _solve_and_invert)
        found["inverses by halves"] = _without(library, sswim_steps(case, data))
    if case.depth:
        found["joint warps"] = sswim_steps(replace(case, warps="separate"), data)
    return found


def _without(switch: Off, work: Work) -> Work:
    def run() -> Any:
        with switch():
            return work()

    return run


def main() -> None:
    """Measure one case, print and store it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    for name, default in (("rows", 20_000), ("depth", 1), ("members", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--dtype", choices=get_args(DType), default="float64")
    parser.add_argument("--device", choices=DEVICES, default="auto")
    parser.add_argument("--out", type=Path, help="results/optimisations-<device>.csv by default")
    asked = parser.parse_args()
    device = resolve_device(asked.device)
    case = Case(asked.rows, asked.depth, members=asked.members, dtype=asked.dtype)
    data = synthetic(case.rows, case.inputs, DTYPES[case.dtype], device)
    comparison = compare(works(case, data), device)
    after = comparison.timings.pop("everything").seconds
    path = asked.out or Path(f"results/optimisations-{device.type}.csv")
    for name, timing in comparison.timings.items():
        gain = timing.seconds / after
        print(f"{name}: {timing.seconds:.4g} s without, {after:.4g} s with it: {gain:.2f}")
        line = {"optimisation": name, "before_s": timing.seconds, "after_s": after, "gain": gain}
        append_row(path, {**line, **asdict(case), **machine(device)})


if __name__ == "__main__":
    main()
