"""What steps that see few of the rows cost in accuracy, on real data: schedules of growing rows.

    SSWIM_DATA=folder python benchmarks/growing.py [--sets protein] [--steps 150] [--device cuda]

One model with joint warps for each schedule, trained by it and conditioned on all rows. The cost is
the number of steps over all rows that the same work would be. One line of JSON for each is added
to the file of results: set, repeat, depth, steps, schedule, cost, seconds, RMSE of the median and
MNLP, both of the standardised target.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import mean
from typing import Any
from unittest.mock import patch

import torch
from step import DEVICES

from sswim import MAP, Adam, Architecture, as_rows, start, train
from sswim.base.devices import resolve_device
from sswim.lab.datasets.named import FOLDER_VARIABLE, split
from sswim.posterior.predictor import condition
from sswim.rows.scaling import learn_scaling

Schedule = tuple[tuple[float, int], ...]
"""Shares of the steps, and of how many rows they see one."""

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


def name_of(schedule: Schedule) -> str:
    """Shares and parts, as in .5@8,.5@1; all for all rows at every step."""
    parts = [f"{share:g}".removeprefix("0") + f"@{divisor}" for share, divisor in schedule]
    return "all" if schedule == ((1.0, 1),) else ",".join(parts)


def measure(
    name: str, repeat: int, depth: int, steps: int, schedule: Schedule, device: torch.device
) -> list[object]:
    """Train by a schedule and look at the test rows."""
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
        patch("sswim.training.row_schedule.STAGES", schedule),
        patch("sswim.training.row_schedule.FEWEST", 1000),
    ):
        train(model, single, MAP, Adam(steps, 0.06, 4.0, growing=True), device=device)
    seconds = time.perf_counter() - began
    predictor = condition(model, rows)
    prediction, output = predictor.predict(test.inputs), predictor.factors.output
    warped, log_slope = output.forward(test.targets)
    mnlp = -(prediction.log_density(warped) + log_slope).mean().item()
    rmse = (output.inverse(prediction.mean) - test.targets).square().mean().sqrt().item()
    cost = steps * sum(share / divisor for share, divisor in schedule)
    return [name, repeat, depth, steps, name_of(schedule), cost, seconds, rmse, mnlp]


def table(lines: Iterable[Sequence[Any]], depth: int, steps: int) -> str:
    """Means over the repeats of a depth and a number of steps, as GitHub reads it."""
    chosen = [line for line in lines if tuple(line[2:4]) == (depth, steps)]
    sets = list(dict.fromkeys(line[0] for line in chosen))
    costs = {line[4]: line[5] for line in chosen}
    rows = [f"| schedule | cost | {' | '.join(sets)} |", f"|---|---|{'---|' * len(sets)}"]
    for schedule in sorted(costs, key=lambda name: -costs[name]):
        cells = []
        for name in sets:
            some = [line for line in chosen if (line[0], line[4]) == (name, schedule)]
            scores = mean(line[7] for line in some), mean(line[8] for line in some)
            cells.append("{:.3f} / {:.3f}".format(*scores).replace("-", "−"))
        rows.append(f"| {schedule} | {costs[schedule]:.0f} | {' | '.join(cells)} |")
    return "\n".join(rows)


def main() -> None:
    """Measure, print and store; or show what is stored."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawTextHelpFormatter,
        epilog=f"The variable {FOLDER_VARIABLE} says where the data sets are.",
    )
    parser.add_argument("--sets", nargs="+", default=["protein", "supercond", "elevators"])
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--depth", type=int, default=1)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--device", choices=DEVICES, default="auto")
    parser.add_argument("--out", type=Path, default=Path("results/growing.jsonl"))
    parser.add_argument("--table", action="store_true", help="show what is stored already")
    asked = parser.parse_args()
    if asked.table:
        stored = asked.out.read_text(encoding="utf-8").splitlines()
        print(table(map(json.loads, stored), asked.depth, asked.steps))
        return
    device = resolve_device(asked.device)
    for repeat in range(asked.repeats):
        for name in asked.sets:
            for schedule in SCHEDULES:
                line = measure(name, repeat, asked.depth, asked.steps, schedule, device)
                with asked.out.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(line) + "\n")
                print(*line, flush=True)


if __name__ == "__main__":
    main()
