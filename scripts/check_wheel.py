"""Install the newest wheels of a folder into an empty environment, and use them as a user would.

    python scripts/check_wheel.py dist

The environment first has the library's wheel and its dependencies alone: the Python lines of the
README and ``sswim demo`` must run in it. Then the lab's wheel adds ``sswim datasets``.
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
    wheel, lab = (_newest(folder, name, parser) for name in ("sswim", "sswim_lab"))
    with tempfile.TemporaryDirectory() as place:
        began = time.perf_counter()
        python = _make_environment(Path(place) / "environment")
        _install(python, wheel, place)
        print(f"Installed in {time.perf_counter() - began:.0f} s")
        _run(python, "-c", PREPARATION + _readme_lines() + CHECKS, place=place)
        print("The README's lines run")
        _run(python, "-m", "sswim", "--version", place=place)
        _run(python, "-m", "sswim", "demo", "--out", "demo", place=place)
        written = sorted(path.name for path in (Path(place) / "demo").iterdir())
        print(f"`sswim demo` wrote {', '.join(written)}")
        installed = _run(python, "-m", "pip", "list", place=place).lower()
        assert not {"pooch", "sswim-lab"} & set(installed.split()), installed
        command = [str(python), "-m", "sswim", "datasets"]
        refused = subprocess.run(command, check=False, capture_output=True, text=True, cwd=place)
        assert refused.returncode == 2, refused
        assert "pip install sswim-lab" in refused.stderr, refused
        _install(python, lab, place)
        assert "airfoil" in _run(python, "-m", "sswim", "datasets", place=place)
        print("`sswim datasets` comes with the lab's wheel")
    return 0


def _newest(folder: Path, name: str, parser: argparse.ArgumentParser) -> Path:
    """Return the newest wheel of a distribution, and print its size."""
    wheels = sorted(folder.glob(f"{name}-*.whl"), key=os.path.getmtime)
    if not wheels:
        parser.error(f"there is no wheel of {name} in {folder}; build it with `make wheel`")
    print(f"{wheels[-1].name}: {wheels[-1].stat().st_size / 1024:.0f} KiB")
    return wheels[-1]


def _make_environment(folder: Path) -> Path:
    """Make an empty environment, and return its Python."""
    venv.create(folder, with_pip=True)
    return folder / ("Scripts" if sys.platform == "win32" else "bin") / "python"


def _install(python: Path, wheel: Path, place: str) -> None:
    """Install a wheel with its dependencies, at their pinned versions."""
    constraints = ["--constraint", str(ROOT / "constraints.txt")]
    _run(python, "-m", "pip", "install", "--quiet", *constraints, str(wheel), place=place)


def _readme_lines() -> str:
    """Return the first block of Python in the README."""
    match = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)
    if match is None:
        raise ValueError("The README must have a block of Python. Got none.")
    return match.group(1)


def _run(python: Path, *arguments: str, place: str) -> str:
    """Run Python away from the checkout, with the environment's packages alone.

    Returns:
        What it printed.
    """
    environment = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
    command = [str(python), *arguments]
    done = subprocess.run(
        command, check=True, cwd=place, env=environment, stdout=subprocess.PIPE, text=True
    )
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
