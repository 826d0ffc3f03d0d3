"""Install the newest wheel of a folder into an empty environment, and use it there as a user would.

    python scripts/check_wheel.py dist

The environment has the wheel and its dependencies, but none of the development packages. The
Python lines of the README and ``sswim demo`` must run in it.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

PREPARATION = """
import numpy as np
random = np.random.default_rng(0)
X = random.uniform(-2, 2, (60, 2))
y = np.sin(np.exp(X[:, 0])) + 0.1 * random.normal(size=60)
X_new = X[:5]
"""
"""Defines the names that the README's lines use."""

CHECKS = """
assert mean.shape == std.shape == (5,) and (std > 0).all()
import sys
unwanted = {"pyarrow", "matplotlib", "pytest", "sswim_lab"} & set(sys.modules)
assert not unwanted, unwanted
"""


def main() -> int:
    """Check the newest wheel; 0 if all of it works."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("folder", type=Path, help="the folder with the wheel")
    folder = parser.parse_args().folder.resolve()
    wheels = sorted(folder.glob("sswim-*.whl"), key=os.path.getmtime)
    if not wheels:
        parser.error(f"there is no wheel in {folder}; build one with `python -m build --wheel`")
    wheel = wheels[-1]
    print(f"{wheel.name}: {wheel.stat().st_size / 1024:.0f} KiB")
    with tempfile.TemporaryDirectory() as place:
        began = time.perf_counter()
        python = _install(wheel, Path(place) / "environment")
        print(f"Installed in {time.perf_counter() - began:.0f} s")
        _run(python, "-c", PREPARATION + _readme_lines() + CHECKS, place=place)
        print("The README's lines run")
        _run(python, "-m", "sswim", "--version", place=place)
        _run(python, "-m", "sswim", "demo", "--out", "demo", place=place)
        written = sorted(path.name for path in (Path(place) / "demo").iterdir())
        print(f"`sswim demo` wrote {', '.join(written)}")
    return 0


def _install(wheel: Path, folder: Path) -> Path:
    """Install a wheel into a new environment, and return the environment's Python."""
    venv.create(folder, with_pip=True)
    python = folder / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    constraints = ["--constraint", str(ROOT / "constraints.txt")]
    _run(python, "-m", "pip", "install", "--quiet", *constraints, str(wheel), place=folder)
    return python


def _readme_lines() -> str:
    """Return the first block of Python in the README."""
    match = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)
    if match is None:
        raise ValueError("The README must have a block of Python. Got none.")
    return match.group(1)


def _run(python: Path, *arguments: str, place: str | Path) -> None:
    """Run Python away from the checkout, so that only the environment's sswim can be imported."""
    environment = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
    subprocess.run([str(python), *arguments], check=True, cwd=place, env=environment)


if __name__ == "__main__":
    sys.exit(main())
