"""Time a training step of sswim, the bare product ΦᵀΦ and steps of peers.

    python lab/benchmarks/step.py --rows 10000 --depth 1 [--device cuda] [--no-peers] [--json]

Times are medians over rounds in which each runs once; memory is the peak above the memory in use
before. A step is an exact evaluation of the objective of all rows with its gradient, and a step of
the optimiser. For SVGP it is an epoch of mini-batches; for the exact GP only the evaluation.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any, get_args

import torch
from peers import Case, workloads
from scripting import add_device, add_dtype, script_parser
from timing import Rounds, Workload, compare, machine

from sswim.distributed.processes import resolve_device
from sswim.members.model import WarpsName

NAMES = ("sswim", "gram", "sgpr", "svgp_epoch", "exact_gp")
LIBRARIES = ("gpytorch", "scikit-learn")
SIZES = {
    "rows": "number of rows",
    "depth": "number of warps",
    "features": "number of features, and of inducing points of SGPR",
    "pseudo": "number of pseudo-points of a warp",
    "inputs": "number of inputs",
    "members": "number of members that sswim trains together",
}
"""Options that are numbers, with their help."""


def measure_step(
    case: Case, device: torch.device, *, peers: bool, rounds: Rounds | None = None
) -> dict[str, Any]:
    """Return the seconds and peak bytes of every workload; None with a reason if it is left out."""
    runnable: dict[str, Workload] = {}
    left_out: dict[str, str] = {}
    for name, workload in workloads(case, device, peers=peers):
        if isinstance(workload, str):
            left_out[name] = workload
        else:
            runnable[name] = workload
    comparison = compare(runnable, device, rounds)
    left_out |= comparison.left_out | dict.fromkeys(
        [name for name in NAMES if name not in runnable | left_out], "not asked for"
    )
    timings = comparison.timings
    seconds = {f"{name}_s": timing.seconds for name, timing in timings.items()}
    peaks = {f"{name}_peak_bytes": timing.peak_bytes for name, timing in timings.items()}
    unknown = dict.fromkeys(f"{name}_{what}" for what in ("s", "peak_bytes") for name in NAMES)
    return {
        **machine(device, LIBRARIES),
        **asdict(case),
        **unknown,
        **seconds,
        **peaks,
        **ratios({**asdict(case), **unknown, **seconds}),
        "quartiles": {name: (timing.lower, timing.upper) for name, timing in timings.items()},
        "repeats": {name: timing.repeats for name, timing in timings.items()},
        "left_out": left_out,
    }


def ratios(result: Mapping[str, Any]) -> dict[str, float | None]:
    """Return the ratios of sswim to the bare product and of peers to sswim.

    Peers train members one after the other, so their seconds count once for each member.
    """
    peers = NAMES[2:]
    parts = {"sswim/gram": (result["sswim_s"], result["gram_s"])}
    parts |= {f"{name}/sswim": (result[f"{name}_s"], result["sswim_s"]) for name in peers}
    factors = {f"{name}/sswim": result["members"] for name in peers}
    return {
        name: None if None in pair else factors.get(name, 1) * pair[0] / pair[1]
        for name, pair in parts.items()
    }


def in_own_process(case: Case, device: str, *, peers: bool) -> dict[str, Any]:
    """Measure a case in a new process, whose memory nothing else has used."""
    options = [f"--{name}={value}" for name, value in asdict(case).items()]
    options += [f"--device={device}", "--peers" if peers else "--no-peers", "--json"]
    command = [sys.executable, __file__, *options]
    result = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    return json.loads(result.stdout)


def main() -> None:
    """Measure one case and print the result."""
    parser = script_parser(__doc__)
    for name, description in SIZES.items():
        default = getattr(Case, name, None)
        parser.add_argument(
            f"--{name}", type=int, required=default is None, default=default, help=description
        )
    add_dtype(parser)
    parser.add_argument(
        "--warps", choices=get_args(WarpsName), default="joint", help="kind of warps"
    )
    add_device(parser)
    parser.add_argument(
        "--peers",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="whether to time other methods too",
    )
    parser.add_argument(
        "--repeats", type=int, default=Rounds.max_rounds, help="largest number of rounds"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object only")
    asked = vars(parser.parse_args())
    case = Case(**{field.name: asked[field.name] for field in fields(Case)})
    rounds = Rounds(max_rounds=asked["repeats"])
    device = resolve_device(asked["device"])
    result = measure_step(case, device, peers=asked["peers"], rounds=rounds)
    print(json.dumps(result) if asked["json"] else "\n".join(lines(result)))


def lines(result: dict[str, Any]) -> list[str]:
    """Return the result as lines of text."""
    unknown = "not known on this system"
    text = [f"{result['device_name']}, {result['threads']} threads; {result['versions']}"]
    for name in NAMES:
        if result[f"{name}_s"] is None:
            text.append(f"{name}_s: left out, {result['left_out'][name]}")
            continue
        lower, upper = result["quartiles"][name]
        peak = result[f"{name}_peak_bytes"]
        text.append(
            f"{name}_s: {result[f'{name}_s']:.4g} (quartiles {lower:.4g} to {upper:.4g}, "
            f"{result['repeats'][name]} times), peak "
            f"{unknown if peak is None else f'{peak / 2**20:.1f} MiB'}"
        )
    for name, ratio in result.items():
        if "/" in name and ratio is not None:
            text.append(f"{name}: {ratio:.2f}")
    return text


if __name__ == "__main__":
    main()
