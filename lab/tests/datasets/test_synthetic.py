"""Synthetic functions."""

from __future__ import annotations

import math

import torch
from builders.figures import matplotlib_left_alone  # noqa: F401 (for every test)
from sswim_lab.paper.figures.gramacy import gramacy_surface

from sswim.cli.demo import nonstationary_signal


def test_the_surface_has_a_hill_and_a_valley_in_a_corner() -> None:
    x = torch.tensor([[2**-0.5, 0], [-(2**-0.5), 0], [0, 1], [4, 4]], dtype=torch.float64)
    height = math.exp(-0.5) / math.sqrt(2)
    expected = torch.tensor([height, -height, 0, 0], dtype=torch.float64)
    torch.testing.assert_close(gramacy_surface(x), expected, atol=1e-12, rtol=1e-12)


def test_the_signal_has_steps_a_wave_and_a_chirp() -> None:
    x = torch.tensor([0.1, 0.5, 0.9, 1.25, 1.5, 1.75, 2.0, 2.2], dtype=torch.float64)
    chirp = math.sin(2 * math.pi * 0.2 * 2)
    expected = torch.tensor([-1, 1, -1, 1, 0, -1, 0, chirp], dtype=torch.float64)
    torch.testing.assert_close(nonstationary_signal(x), expected, atol=1e-12, rtol=1e-12)
