"""Measure how long importing sswim and starting its command line take.

    python lab/benchmarks/startup.py --out results/startup.json

Every line of Python runs in new processes, in turn, for some rounds; the medians are compared as
differences within the same rounds. The first round, which fills the caches, is left out.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

from sswim.base.version import __version__

PROGRAMS = {
    "nothing": ["-c", ""],
    "typer": ["-c", "import typer"],
    "typer app": [
        "-c",
        "import sys, typer; sys.argv = ['app', '--help']; app = typer.Typer()\n"
        "@app.command()\ndef main() -> None: ...\napp()",
    ],
    "sswim": ["-c", "import sswim"],
    "sswim --version": ["-m", "sswim", "--version"],
    "sswim --help": ["-m", "sswim", "--help"],
    "sswim fit --help": ["-m", "sswim", "fit", "--help"],
    "torch and sklearn": ["-c", "import torch, sklearn.base, sklearn.utils.validation"],
    "SSWIMRegressor": ["-c", "from sswim import SSWIMRegressor"],
}
"""Arguments of Python, by what is measured."""


def measure(n_rounds: int) -> dict[str, float]:
    """Return the median seconds of every program."""
    seconds: dict[str, list[float]] = {name: [] for name in PROGRAMS}
    for _ in range(n_rounds + 1):
        for name, arguments in PROGRAMS.items():
            began = time.perf_counter()
            subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
            seconds[name].append(time.perf_counter() - began)
    return {name: round(median(values[1:]), 3) for name, values in seconds.items()}


def main() -> int:
    """Measure, print and store."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--rounds", type=int, default=7, help="rounds after the first one")
    parser.add_argument("--out", type=Path, help="JSON file to write")
    asked = parser.parse_args()
    seconds = measure(asked.rounds)
    for name, value in seconds.items():
        print(f"{name}: {value:.3f} s")
    ratio = seconds["SSWIMRegressor"] / seconds["torch and sklearn"]
    print(f"SSWIMRegressor over torch and sklearn: {ratio:.2f}")
    if asked.out is not None:
        content = {
            "version": __version__,
            "python": platform.python_version(),
            "rounds": asked.rounds,
            "median_seconds": seconds,
        }
        asked.out.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
