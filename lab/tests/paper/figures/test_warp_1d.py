"""The figure of a learnt warp of one input."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from builders.figures import (
    check_figure_files,
    matplotlib_left_alone,  # noqa: F401 (for every test here)
)
from lab_builders.bench import make_request
from sswim_lab.bench.results import read_rows
from sswim_lab.paper.figures import warp_1d
from sswim_lab.paper.figures.warp_1d import N_POSITIONS, Part, measure, unevenness

from sswim import SSWIMRegressor
from sswim.cli.demo import SEED, demo_regressor, draw_rows, nonstationary_signal


class Identity(SSWIMRegressor):
    """A warp that changes nothing."""

    def warp(self, X: Any, X_std: Any = None, member: int | None = None) -> list[Any]:
        return [(X, np.zeros_like(X))]


class Levelling(Identity):
    """A warp along which the signal goes up and down at a slope of two."""

    def warp(self, X: Any, X_std: Any = None, member: int | None = None) -> list[Any]:
        signal = nonstationary_signal(torch.from_numpy(X)).numpy()
        steps = np.abs(np.diff(signal, axis=0, prepend=signal[:1]))
        return [(np.cumsum(steps, axis=0) / 2, np.zeros_like(X))]


def test_slopes_are_those_of_the_signal_without_a_warp() -> None:
    parts = {part.part: part for part in measure(Identity())}
    for part in parts.values():
        assert part.stretch == pytest.approx(1)
        assert part.slope_after == pytest.approx(part.slope_before)
    length = 3 / (N_POSITIONS - 1)
    assert parts["wave"].slope_before == pytest.approx(4, rel=2 * length)  # a whole period
    halves = [parts[f"{half} half of the chirp"].slope_before for half in ("slow", "fast")]
    assert halves == pytest.approx([14, 34], rel=0.01)  # 1¾ and 4¼ periods in half a unit
    before, after = unevenness(list(parts.values()))
    assert before == pytest.approx(after) == pytest.approx(8.5, rel=0.01)


def test_a_warp_that_levels_the_signal_is_measured_as_such() -> None:
    parts = measure(Levelling())
    assert [part.slope_after for part in parts] == pytest.approx([2] * 4)
    assert [part.stretch for part in parts] == pytest.approx([p.slope_before / 2 for p in parts])
    assert unevenness(parts)[1] == pytest.approx(1)


def test_the_learnt_warp_straightens_the_signal() -> None:
    X, y = draw_rows(warp_1d.N_ROWS, torch.Generator().manual_seed(SEED))
    before, after = unevenness(measure(demo_regressor(1).fit(X, y)))
    assert after < 0.5 * before


def test_the_slopes_of_the_file_are_those_of_the_message(tmp_path: Path) -> None:
    request, said = make_request(tmp_path, quick=True)
    path, *pictures = warp_1d.run(request)
    check_figure_files("figure-warp-1d", [path, *pictures], request.out)
    before, after = unevenness(read_rows(path, Part))
    assert f"{before:.1f} before the warp, and of {after:.1f} after it" in said[0]


def test_the_signal_has_steps_a_wave_and_a_chirp() -> None:
    x = torch.tensor([0.1, 0.5, 0.9, 1.25, 1.5, 1.75, 2.0, 2.2], dtype=torch.float64)
    chirp = math.sin(2 * math.pi * 0.2 * 2)
    expected = torch.tensor([-1, 1, -1, 1, 0, -1, 0, chirp], dtype=torch.float64)
    torch.testing.assert_close(nonstationary_signal(x), expected, atol=1e-12, rtol=1e-12)
