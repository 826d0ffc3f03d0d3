"""Measure how much the number of processes and threads changes predictions, by rounding alone.

    python lab/benchmarks/process_rounding.py --out results/process-rounding.json

The same folder of rows is fitted by one process with one thread, by one process with all threads,
and by two processes; predictions are compared with those of the first. Sums are then added up in
another order, and training amplifies the difference.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
from launches import N_INPUTS, fit_arguments, python_command, torchrun_command, write_rows

from sswim import load
from sswim.base.version import __version__

N_ROWS, STEPS = 2000, 20

SETTINGS = {
    "the default": [],
    "the default, float64": ["--dtype", "float64"],
    "depth 1, float32": ["--depth", "1", "--dtype", "float32"],
    "depth 1": ["--depth", "1"],
}
"""Options of ``sswim fit``, by what is fitted."""

WAYS = {
    "one thread": (python_command(), "1"),
    "all threads": (python_command(), str(os.cpu_count())),
    "two processes": (torchrun_command(2, "--standalone"), "1"),
}
"""Command and number of threads of each way to fit; the first one is the reference."""


def predictions(folder: Path, options: list[str], command: list[str], threads: str) -> np.ndarray:
    """Fit the rows of a folder, and predict means at points within their range."""
    out = folder / "model.sswim"
    arguments = fit_arguments(
        folder / "rows", out, "--max-iter", str(STEPS), "--no-verbose", *options
    )
    environment = {**os.environ, "OMP_NUM_THREADS": threads}
    subprocess.run([*command, *arguments], check=True, env=environment, capture_output=True)
    points = np.random.default_rng(1).normal(size=(500, N_INPUTS))
    names = [f"x{number}" for number in range(N_INPUTS)]
    warnings.filterwarnings("ignore", message="X does not have valid feature names")
    model = load(out)
    assert list(model.feature_names_in_) == names
    return model.predict_distribution(points).mean.numpy()[:, 0]


def main() -> int:
    """Measure, print and store."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--out", type=Path, help="JSON file to write")
    asked = parser.parse_args()
    found: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as place:
        write_rows(Path(place) / "rows", N_ROWS)
        for name, options in SETTINGS.items():
            means = {way: predictions(Path(place), options, *WAYS[way]) for way in WAYS}
            reference = means.pop("one thread")
            found[name] = {
                way: float(f"{np.abs(values - reference).max() / reference.std():.2g}")
                for way, values in means.items()
            }
            print(f"{name}: {found[name]}", flush=True)
    if asked.out is not None:
        content = {
            "version": __version__,
            "rows": N_ROWS,
            "steps": STEPS,
            "largest_difference_in_standard_deviations": found,
        }
        asked.out.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
