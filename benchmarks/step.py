"""A training step of this package beside the bare product ΦᵀΦ and steps of other methods.

    python benchmarks/step.py --rows 10000 --depth 1 [--device cuda] [--no-peers] [--json]

Medians over rounds in which all of them run, and the most memory of each above what was in use
before. A step is an exact evaluation of the objective of all rows with its gradient, and a step of
the optimiser; for SVGP it is an epoch of mini-batches, and the exact process is only evaluated.
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
from peers import Case, DType, works
from timing import Rounds, Work, compare, machine

from sswim.base.devices import resolve_device
from sswim.model.architecture import WarpsName

NAMES = ("sswim", "gram", "sgpr", "svgp_epoch", "exact_gp")
LIBRARIES = ("gpytorch", "scikit-learn")
DEVICES = ("auto", "cpu", "cuda")


def measure_step(
    case: Case, device: torch.device, *, peers: bool, rounds: Rounds | None = None
) -> dict[str, Any]:
    """The seconds and peak bytes of every work; None and a reason if it is left out."""
    runnable: dict[str, Work] = {}
    left_out: dict[str, str] = {}
    for name, work in works(case, device, peers=peers):
        if isinstance(work, str):
            left_out[name] = work
        else:
            runnable[name] = work
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
    """Of sswim to the bare product, and of peers to sswim: these train its members in turn."""
    peers = NAMES[2:]
    parts = {"sswim/gram": (result["sswim_s"], result["gram_s"])}
    parts |= {f"{name}/sswim": (result[f"{name}_s"], result["sswim_s"]) for name in peers}
    factors = {f"{name}/sswim": result["members"] for name in peers}
    return {
        name: None if None in pair else factors.get(name, 1) * pair[0] / pair[1]
        for name, pair in parts.items()
    }


def in_own_process(case: Case, device: str, *, peers: bool) -> dict[str, Any]:
    """Measure in a fresh process, whose memory nothing else has used."""
    options = [f"--{name}={value}" for name, value in asdict(case).items()]
    options += [f"--device={device}", "--peers" if peers else "--no-peers", "--json"]
    command = [sys.executable, __file__, *options]
    result = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    return json.loads(result.stdout)


def main() -> None:
    """Measure one case and print it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    for field in fields(Case)[:-2]:
        required = field.name in ("rows", "depth")
        default = None if required else field.default
        parser.add_argument(f"--{field.name}", type=int, required=required, default=default)
    parser.add_argument("--dtype", choices=get_args(DType), default="float64")
    parser.add_argument("--warps", choices=get_args(WarpsName), default="joint")
    parser.add_argument("--device", choices=DEVICES, default="auto")
    parser.add_argument("--peers", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--repeats", type=int, default=Rounds.most, help="rounds at most")
    parser.add_argument("--json", action="store_true", help="one object, and nothing else")
    asked = vars(parser.parse_args())
    case = Case(**{field.name: asked[field.name] for field in fields(Case)})
    rounds = Rounds(most=asked["repeats"])
    device = resolve_device(asked["device"])
    result = measure_step(case, device, peers=asked["peers"], rounds=rounds)
    print(json.dumps(result) if asked["json"] else "\n".join(lines(result)))


def lines(result: dict[str, Any]) -> list[str]:
    """The result for a reader."""
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
