"""Train the kinds of the default once for each data set, and combine them with parts left out.

    python lab/benchmarks/ablation.py --sets airfoil,concrete --out results/ablation.jsonl
    python lab/benchmarks/ablation.py --table --out results/ablation.jsonl

All variants of a data set have the same trained members, so they differ in nothing but what is left
out: a kind, the weights, the corrections of variances, the pruning, the noise that varies. Scores
are those of the test rows of one repeat, for targets standardised by the training rows.
"""

from __future__ import annotations

import copy
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from scripting import (
    add_results,
    append_line,
    markdown_table,
    read_lines,
    script_parser,
    shows_stored,
)
from sklearn.utils import check_random_state
from sswim_lab.bench.accuracy import load_split
from sswim_lab.bench.runner import SETS
from sswim_lab.datasets import Split

from sswim import SSWIMRegressor
from sswim.ensemble.ensemble import make_ensemble
from sswim.ensemble.fit import combine_members, draw_members
from sswim.ensemble.member_training import TrainedMembers, train_members
from sswim.ensemble.mixture import Mixture
from sswim.ensemble.plan import KINDS, KindName
from sswim.members.kinds import Plan
from sswim.rows import Measure, MemorySource, as_rows, read_training_rows, summarise

COVERAGE = 0.9
WHOLE = "the default"


def variants(plan: Plan, trained: TrainedMembers) -> Iterator[tuple[str, Plan, TrainedMembers]]:
    """Yield the name of each variant, its plan and its members."""
    yield WHOLE, plan, trained
    yield "no pruning", replace(plan, pruning=False), trained
    yield "no weighing", replace(plan, stacking=False), trained
    yield "no corrections of variances", replace(plan, correction=False), trained
    constant = tuple(
        replace(kind, architecture=replace(kind.architecture, noise="constant"))
        for kind in plan.kinds
    )
    yield "constant noise", replace(plan, kinds=constant), trained
    left_out: dict[str, tuple[KindName, ...]] = {f"no {name}": (name,) for name in KINDS}
    left_out["no features"] = tuple(name for name in KINDS if name.startswith("features"))
    left_out["no neighbours"] = tuple(name for name in KINDS if name.startswith("neighbours"))
    for name, kinds in left_out.items():
        rest = [kind for kind in trained.kinds if plan.kinds[kind.number].name not in kinds]
        yield name, plan, replace(trained, kinds=rest)


def scores(mixture: Mixture, targets: torch.Tensor, spread: float) -> dict[str, float]:
    """Return the scores of predictions of test rows, for standardised targets."""
    error = (mixture.mean - targets) / spread
    tail = (1 - COVERAGE) / 2
    position = mixture.cdf(targets)
    return {
        "rmse": error.square().mean().sqrt().item(),
        "mnlp": -mixture.log_density(targets).mean().item() - math.log(spread),
        "coverage": ((position > tail) & (position < 1 - tail)).double().mean().item(),
    }


def ablate(rows: Split, seed: int) -> Iterator[dict[str, Any]]:
    """Train the kinds of the default on the training rows, and yield the scores of each variant."""
    source = MemorySource(as_rows(rows.train_x, rows.train_y))
    summary = summarise(source)
    plan = SSWIMRegressor()._plan(summary)
    training = read_training_rows(
        source,
        summary,
        dtype=torch.float64,
        device=torch.device("cpu"),
        memory=2**31,
        one_pass=True,
        keep_rows=True,
    )
    random = check_random_state(seed)
    drawn = draw_members(plan, training, random)
    trained = train_members(plan, training, drawn, lambda member, step: None)
    targets = torch.tensor(np.asarray(rows.test_y, dtype=float))[:, None]
    spread = float(np.std(rows.train_y))
    for name, changed, members in variants(plan, trained):
        combined = combine_members(
            changed, training, copy.deepcopy(members), check_random_state(seed)
        )
        sample = training.sample if training.complete else None
        ensemble = make_ensemble(summary.scaling, combined.members, combined.weights, sample)
        mixture = ensemble.predict(Measure(torch.tensor(np.asarray(rows.test_x, dtype=float))))
        yield {
            "variant": name,
            "members": len(combined.members),
            **scores(mixture, targets, spread),
        }


def table(found: Sequence[dict[str, Any]]) -> str:
    """Return the results as a Markdown table of differences from the default."""
    sets = list(dict.fromkeys(each["set"] for each in found))
    names = list(dict.fromkeys(each["variant"] for each in found))
    by_key = {(each["set"], each["variant"]): each for each in found}
    titles = ["", "RMSE, %", "MNLP", "members", "worst set in RMSE, %", "worst set in MNLP"]
    rows = []
    for name in names:
        errors, densities, members = [], [], []
        for each in sets:
            whole, other = by_key[each, WHOLE], by_key[each, name]
            errors.append((100 * math.log(other["rmse"] / whole["rmse"]), each))
            densities.append((other["mnlp"] - whole["mnlp"], each))
            members.append(other["members"])
        worst_error, worst_density = max(errors), max(densities)
        cells = [
            name,
            f"{np.mean([value for value, _ in errors]):+.1f}",
            f"{np.mean([value for value, _ in densities]):+.3f}",
            f"{np.mean(members):.1f}",
            f"{worst_error[0]:+.1f} ({worst_error[1]})",
            f"{worst_density[0]:+.3f} ({worst_density[1]})",
        ]
        rows.append(cells)
    return markdown_table(titles, rows)


def main() -> None:
    """Measure the data sets that the results lack, or print the table."""
    parser = script_parser(__doc__)
    parser.add_argument("--sets", default=",".join(SETS), help="comma-separated data sets")
    parser.add_argument("--repeat", type=int, default=0, help="repeat of the split, and seed")
    parser.add_argument("--data", help="folder of the data sets")
    add_results(parser, "results/ablation.jsonl")
    arguments = parser.parse_args()
    if shows_stored(arguments, table):
        return
    for name in arguments.sets.split(","):
        done = {(each["set"], each["repeat"]) for each in read_lines(arguments.out)}
        if (name, arguments.repeat) in done:
            continue
        rows = load_split(name, arguments.repeat, arguments.data)
        found = list(ablate(rows, arguments.repeat))  # all variants or none
        for each in found:
            append_line(arguments.out, {"set": name, "repeat": arguments.repeat, **each})
        print(name, found[0], file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
