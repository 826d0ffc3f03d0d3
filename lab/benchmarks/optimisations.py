"""Time training steps without each optimisation, to measure what it gains.

    python lab/benchmarks/optimisations.py --rows 20000 --depth 1 [--dtype float32] [--device cuda]

All steps are timed in rounds in one process. Each line is appended to the result file.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import asdict, replace
from functools import partial
from typing import Any
from unittest.mock import patch

import torch
from arguments import DTYPES, add_device, add_dtype, add_out, result_path, script_parser
from csv_rows import append_row
from peers import Case, Data, sswim_steps, synthetic
from step import SIZES
from timing import Workload, compare, machine
from torch import Tensor

from sswim.base.devices import resolve_device

Switch = Callable[[], AbstractContextManager[Any]]
"""A function whose context switches an optimisation off."""


def _solve_and_invert(factor: Tensor, vector: Tensor) -> tuple[Tensor, Tensor]:
    """Return A⁻¹b and A⁻¹ by PyTorch's own functions, from the Cholesky factor of A."""
    solution = torch.cholesky_solve(vector[..., None], factor)[..., 0]
    return solution, torch.cholesky_inverse(factor)


ON_ANY_DEVICE: dict[str, Switch] = {
    "symmetric products in panels": partial(patch, "sswim.members.statistics._PANELS", 1),
}
ON_CPU: dict[str, Switch] = {
    "graphs kept between the passes": partial(
        patch, "sswim.members.objective.kept_rows", lambda *arguments: 0
    ),
    "chunks that stay in cache": partial(
        patch, "sswim.members.objective.chunk_size", lambda architecture, rows, members: len(rows)
    ),
}
ON_GPU: dict[str, Switch] = {
    "kernels for the features": partial(
        patch, "sswim.kernels.features.triton_kernels", lambda tensor: None
    ),
    "recorded steps": partial(patch, "sswim.members.training.TrainingRun.can_record", False),
}


PYTORCH_INVERSES: Switch = partial(
    patch, "sswim.members.linear_regression.solve_and_invert", _solve_and_invert
)


def workloads(case: Case, data: Data) -> dict[str, Workload]:
    """Return steps with everything, and steps without each optimisation by its name."""
    switches = ON_ANY_DEVICE | (ON_GPU if data.x.is_cuda else ON_CPU)
    found = {"everything": sswim_steps(case, data)}
    found |= {name: _without(switch, sswim_steps(case, data)) for name, switch in switches.items()}
    # A CUDA graph cannot capture PyTorch's inverse of a batch.
    if data.x.is_cuda and case.members == 1:
        found["inverses by halves"] = _without(PYTORCH_INVERSES, sswim_steps(case, data))
    if case.depth:
        found["joint warps"] = sswim_steps(replace(case, warps="separate"), data)
    return found


def _without(switch: Switch, workload: Workload) -> Workload:
    """Return a workload that runs with an optimisation switched off."""

    def run() -> Any:
        with switch():
            return workload()

    return run


def main() -> None:
    """Measure one case, print and store the results."""
    parser = script_parser(__doc__)
    for name, default in (("rows", 20_000), ("depth", 1), ("members", 1)):
        parser.add_argument(f"--{name}", type=int, default=default, help=SIZES[name])
    add_dtype(parser)
    add_device(parser)
    add_out(parser, "results/optimisations-<device>.csv")
    asked = parser.parse_args()
    device = resolve_device(asked.device)
    case = Case(asked.rows, asked.depth, members=asked.members, dtype=asked.dtype)
    data = synthetic(case.rows, case.inputs, DTYPES[case.dtype], device)
    comparison = compare(workloads(case, data), device)
    after = comparison.timings.pop("everything").seconds
    path = result_path(asked.out, device.type)
    for name, timing in comparison.timings.items():
        gain = timing.seconds / after
        print(f"{name}: {timing.seconds:.4g} s without, {after:.4g} s with it, ratio {gain:.2f}")
        line = {"optimisation": name, "before_s": timing.seconds, "after_s": after, "gain": gain}
        append_row(path, {**line, **asdict(case), **machine(device)})


if __name__ == "__main__":
    main()
