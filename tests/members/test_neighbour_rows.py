from __future__ import annotations

import copy
import pickle
from dataclasses import replace
from typing import Any

import pytest
import torch
from builders.models import small_rows
from builders.neighbours import neighbour_model

from sswim.base import record as record_module
from sswim.members.model import kernel_points, warped_measures
from sswim.members.neighbourhood import MIN_RIDGE, neighbour_rows
from sswim.rows import Rows
from sswim.warps.noise_field import log_noise_ratio

CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "warped": {"depth": 2, "output_warp": "tanh", "noise": "input-dependent"},
}


@pytest.fixture
def rows(generator: torch.Generator) -> Rows:
    return small_rows(generator, n_targets=2, weighted=True, uncertain=True)


@pytest.mark.parametrize("changes", CASES.values(), ids=CASES.keys())
@torch.no_grad()
def test_points_targets_and_ridges(
    changes: dict[str, Any], rows: Rows, generator: torch.Generator
) -> None:
    model = neighbour_model(rows, generator, **changes)
    factors = model.factors()[0]
    found = neighbour_rows(factors, rows, model.noise() / model.signal())
    top = warped_measures(factors, rows.inputs)[-1]
    scales = model.spectrum.length_scales()
    assert torch.allclose(found.points, top.mean / scales)
    assert top.input_variance is not None
    assert found.variance is not None
    full = top.input_variance
    diagonal = full if full.ndim == 2 else full.diagonal(dim1=-2, dim2=-1)
    assert torch.allclose(found.variance, diagonal / scales.square())
    targets, log_slope = factors.output.forward(rows.targets)
    assert torch.equal(found.targets, targets)
    assert torch.equal(found.log_slope, log_slope)
    ridge = (model.noise() / model.signal()).expand(len(rows), -1)
    if factors.noise is not None:
        temper = torch.tensor([0.5, 1.0], dtype=torch.float64)
        ridge = ridge * (temper * log_noise_ratio(factors.noise, rows.inputs)).exp()
    assert rows.weight is not None
    assert torch.allclose(found.ridge, ridge / rows.weight[:, None], rtol=1e-12)


@torch.no_grad()
def test_rows_known_exactly_have_no_variance(generator: torch.Generator) -> None:
    """The uncertainty of the warps is no uncertainty of the inputs."""
    rows = small_rows(generator)
    factors = neighbour_model(rows, generator, depth=1).factors()[0]
    assert warped_measures(factors, rows.inputs)[-1].variance is not None
    assert kernel_points(factors, rows.inputs).variance is None


@torch.no_grad()
def test_the_smallest_ridge(rows: Rows, generator: torch.Generator) -> None:
    model = neighbour_model(rows, generator)
    none = torch.zeros(2, dtype=torch.float64)
    found = neighbour_rows(model.factors()[0], replace(rows, weight=None), none)
    assert torch.equal(found.ridge, torch.full((23, 2), MIN_RIDGE, dtype=torch.float64))


@torch.no_grad()
def test_chunks_change_nothing(
    rows: Rows, generator: torch.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = neighbour_model(rows, generator, depth=1)
    at_once = neighbour_rows(model.factors()[0], rows, model.noise())
    monkeypatch.setattr(record_module, "CPU_ROWS", 4)
    in_chunks = neighbour_rows(model.factors()[0], rows, model.noise())
    for ours, theirs in zip(in_chunks.tensors(), at_once.tensors(), strict=True):
        assert torch.allclose(ours, theirs, rtol=1e-12)


@torch.no_grad()
def test_copies_look_neighbours_up_again(rows: Rows, generator: torch.Generator) -> None:
    model = neighbour_model(rows, generator)
    found = neighbour_rows(model.factors()[0], rows, model.noise())
    expected = found.neighbours(found.points[:3], 5)
    for other in (copy.deepcopy(found), pickle.loads(pickle.dumps(found))):
        assert "index" not in other.__dict__
        assert torch.equal(other.neighbours(found.points[:3], 5), expected)
