"""Compare schedules of training in which the first steps use only some of the rows.

    SSWIM_DATA=… python lab/benchmarks/growing.py [--sets protein] [--steps 150] [--device cuda]

For each schedule, one model with joint warps is trained by it and conditioned on all rows. The cost
is the equivalent number of steps over all rows. One line of JSON for each is appended to the result
file: data set, repeat, depth, steps, schedule, cost, seconds, RMSE of the median and MNLP, both of
the standardised target.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import mean
from typing import Any
from unittest.mock import patch

import torch
from arguments import add_device, script_parser
from json_lines import append_line, read_lines
from markdown_tables import scores_cell, table_line
from sswim_lab.datasets import FOLDER_VARIABLE, split

from sswim.base.devices import resolve_device
from sswim.members import MAP, Adam, Architecture, condition, start, train
from sswim.rows import as_rows
from sswim.rows.scaling import learn_scaling

Schedule = tuple[tuple[float, int], ...]
"""Stages of training: (fraction of the steps, use one row in n)."""

SCHEDULES: tuple[Schedule, ...] = (
    ((1.0, 1),),
    ((0.5, 8), (0.3, 3), (0.2, 1)),
    ((0.3, 8), (0.3, 3), (0.4, 1)),
    ((0.5, 4), (0.5, 1)),
    ((0.3, 4), (0.7, 1)),
    ((0.3, 8), (0.7, 1)),
    ((0.5, 2), (0.5, 1)),
    ((0.7, 2), (0.3, 1)),
    ((0.4, 4), (0.3, 2), (0.3, 1)),
    ((0.3, 4), (0.5, 2), (0.2, 1)),
    ((1.0, 2),),
    ((1.0, 4),),
    ((0.2, 16), (0.3, 4), (0.5, 1)),
)


def schedule_name(schedule: Schedule) -> str:
    """Return a name such as .5@8,.5@1; "all" if every step uses all rows."""
    parts = [f"{share:g}".removeprefix("0") + f"@{divisor}" for share, divisor in schedule]
    return "all" if schedule == ((1.0, 1),) else ",".join(parts)


def measure(
    name: str, repeat: int, depth: int, steps: int, schedule: Schedule, device: torch.device
) -> list[object]:
    """Train by a schedule and return the line of results."""
    data = split(name, repeat, None)
    rows = as_rows(data.train_x, data.train_y)
    scaling = learn_scaling(rows)
    rows = scaling.rows(rows).to(device=device)
    test = scaling.rows(as_rows(data.test_x, data.test_y)).to(device=device)
    single = as_rows(rows.inputs.mean, rows.targets, dtype=torch.float32)
    architecture = Architecture(
        depth=depth, n_warp_frequencies=128, warps="joint", output_warp="sinh-arcsinh"
    )
    generator = torch.Generator().manual_seed(repeat)
    model = start(architecture, single.inputs.mean[:2000], 1, generator)
    began = time.perf_counter()
    with (
        patch("sswim.members.training.STAGES", schedule),
        patch("sswim.members.training.FEWEST", 1000),
    ):
        train(model, single, MAP, Adam(steps, 0.06, 4.0, growing=True), device=device)
    seconds = time.perf_counter() - began
    predictor = condition(model, rows)
    prediction, output = predictor.predict(test.inputs), predictor.factors.output
    warped, log_slope = output.forward(test.targets)
    mnlp = -(prediction.log_density(warped) + log_slope).mean().item()
    rmse = (output.inverse(prediction.mean) - test.targets).square().mean().sqrt().item()
    cost = steps * sum(share / divisor for share, divisor in schedule)
    return [name, repeat, depth, steps, schedule_name(schedule), cost, seconds, rmse, mnlp]


def table(lines: Iterable[Sequence[Any]], depth: int, steps: int) -> str:
    """Return a Markdown table of one depth and number of steps, with means over the repeats."""
    chosen = [line for line in lines if tuple(line[2:4]) == (depth, steps)]
    sets = list(dict.fromkeys(line[0] for line in chosen))
    costs = {line[4]: line[5] for line in chosen}
    rows = [table_line(["schedule", "cost", *sets]), f"|---|---|{'---|' * len(sets)}"]
    for schedule in sorted(costs, key=lambda name: -costs[name]):
        cells = []
        for name in sets:
            repeats = [line for line in chosen if (line[0], line[4]) == (name, schedule)]
            rmse, mnlp = (mean(line[column] for line in repeats) for column in (7, 8))
            cells.append(scores_cell(rmse, mnlp))
        rows.append(table_line([schedule, f"{costs[schedule]:.0f}", *cells]))
    return "\n".join(rows)


def main() -> None:
    """Measure, print and store the results; or print the table of stored results."""
    parser = script_parser(
        __doc__,
        epilog=f"The environment variable {FOLDER_VARIABLE} is the folder of data sets.",
    )
    parser.add_argument(
        "--sets", nargs="+", default=["protein", "supercond", "elevators"], help="data sets"
    )
    parser.add_argument("--repeats", type=int, default=2, help="number of splits of each data set")
    parser.add_argument("--depth", type=int, default=1, help="number of warps")
    parser.add_argument("--steps", type=int, default=150, help="number of training steps")
    add_device(parser)
    parser.add_argument(
        "--out", type=Path, default=Path("results/growing.jsonl"), help="result file"
    )
    parser.add_argument("--table", action="store_true", help="only print the stored results")
    asked = parser.parse_args()
    if asked.table:
        print(table(read_lines(asked.out), asked.depth, asked.steps))
        return
    device = resolve_device(asked.device)
    for repeat in range(asked.repeats):
        for name in asked.sets:
            for schedule in SCHEDULES:
                line = measure(name, repeat, asked.depth, asked.steps, schedule, device)
                append_line(asked.out, line)
                print(*line, flush=True)


if __name__ == "__main__":
    main()
