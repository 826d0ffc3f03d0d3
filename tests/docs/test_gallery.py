"""The examples of the gallery run, here in small versions of themselves, and draw a picture."""

from __future__ import annotations

import multiprocessing
import os
import runpy
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples" / "gallery").glob("*.py"))
OPTIONAL = {"bayesian_optimisation": "botorch", "map_with_gaps": "xarray"}
"""Packages that examples need beside those of sswim and of its tests."""

PRELOADED = ["matplotlib.pyplot", "pandas", "sswim.estimator.regressor", "sswim.plotting"]
"""Modules that a server imports once; the process of each example is a fork of it."""


def run_example(example: Path, picture: Path, log: Path) -> None:
    """Run an example in a process of its own, save its picture and what it prints."""
    with log.open("w") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    os.environ |= {"SSWIM_GALLERY_QUICK": "1", "OMP_NUM_THREADS": "1"}
    os.chdir(picture.parent)

    import matplotlib as mpl  # noqa: PLC0415 (imported by the server, not by the tests)

    mpl.use("agg")
    import matplotlib.pyplot as plt  # noqa: PLC0415

    runpy.run_path(str(example), run_name="__main__")
    sys.stdout.flush()
    plt.gcf().savefig(picture)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs_and_draws(example: Path, tmp_path: Path) -> None:
    package = OPTIONAL.get(example.stem)
    if package is not None and find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    picture, log = tmp_path / "picture.png", tmp_path / "log.txt"
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    process = context.Process(target=run_example, args=(example, picture, log))
    process.start()
    process.join(timeout=300)
    process.kill()
    assert process.exitcode == 0, log.read_text()
    assert picture.stat().st_size > 10_000


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_has_a_heading_and_a_quick_mode(example: Path) -> None:
    text = example.read_text(encoding="utf-8")
    _, title, line, *_ = text.splitlines()
    assert set(line) == {"="}
    assert len(line) == len(title)
    assert '"SSWIM_GALLERY_QUICK" in os.environ' in text
