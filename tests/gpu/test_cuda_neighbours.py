"""Predictions by neighbours on a GPU are those of a CPU. Skipped where there is no GPU."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from builders.estimators import make_rows
from builders.models import gradients, normal, relative_error, small_rows
from builders.neighbours import neighbour_model

from sswim import load
from sswim.estimator import make_estimator
from sswim.members.neighbour_member import NeighbourMember
from sswim.members.neighbour_training import PoolSource, neighbour_objective
from sswim.rows import Measure

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
CUDA = torch.device("cuda")

CASES: dict[str, dict[str, Any]] = {
    "plain": {"depth": 0},
    "warped": {"depth": 1, "noise": "input-dependent", "output_warp": "tanh"},
}


@pytest.mark.parametrize("changes", CASES.values(), ids=CASES.keys())
@pytest.mark.parametrize("uncertain", [False, True], ids=["exact", "uncertain"])
def test_predictions(changes: dict[str, Any], uncertain: bool, generator: torch.Generator) -> None:
    """All rows are neighbours; of fewer, the far ones depend on the last bits of points."""
    rows = small_rows(generator, 23, 2, weighted=True, uncertain=uncertain)
    inputs = Measure(normal(generator, 11, 3))
    blurred = Measure(inputs.mean, input_variance=0.1 * normal(generator, 11, 3).square())
    model = neighbour_model(rows, generator, **changes)
    first, second = rows.map(lambda t: t[:9]), rows.map(lambda t: t[9:])
    found = []
    for device in (torch.device("cpu"), CUDA):
        predictor = NeighbourMember.condition_on(
            copy.deepcopy(model).to(device), first.to(device=device)
        )
        predictor = predictor.update(second.to(device=device))
        at, around = inputs.to(device=device), blurred.to(device=device)
        draws = predictor.sample(3, torch.Generator().manual_seed(0))
        every = [
            *predictor.predict(at).tensors(),
            *predictor.predict(around).tensors(),
            *predictor.leave_one_out(rows.to(device=device)).tensors(),
            predictor.covariance(at),
            draws(at),
        ]
        found.append([tensor.cpu() for tensor in every])
    for ours, theirs in zip(found[1], found[0], strict=True):
        assert torch.allclose(ours, theirs, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("changes", CASES.values(), ids=CASES.keys())
def test_the_objective_and_its_gradient(
    changes: dict[str, Any], generator: torch.Generator
) -> None:
    rows = small_rows(generator, 40, 2, weighted=True)
    model = neighbour_model(rows, generator, n_neighbors=8, **changes)
    pool = PoolSource(rows, 0).draw(model, 0, 30)
    on_gpu = copy.deepcopy(model).to(CUDA)
    values = [
        neighbour_objective(model, rows, pool),
        neighbour_objective(on_gpu, rows.to(device=CUDA), pool.to(device=CUDA)),
    ]
    for value in values:
        value.backward()
    assert values[1].item() == pytest.approx(values[0].item(), rel=1e-9)
    theirs = gradients(model)
    for name, gradient in gradients(on_gpu).items():
        assert relative_error(gradient.cpu(), theirs[name]) < 1e-6, name


@pytest.mark.parametrize("n_inputs", [2, 12])
def test_a_fit_is_updated_saved_and_loaded(n_inputs: int, tmp_path: Path) -> None:
    x, y = make_rows(3000, n_inputs)
    settings: dict[str, Any] = {"depth": 1, "n_neighbors": 32, "max_iter": 40, "random_state": 0}
    model = make_estimator(**settings, device="cuda").fit(x[:2500], y[:2500])
    model.partial_fit(x[:5], y[:5])  # copies, which are merged
    model.save(tmp_path / "model")
    mean, std = model.predict(x[2500:], return_std=True)
    assert np.sqrt(np.mean((mean - y[2500:]) ** 2)) < 0.6
    assert np.isfinite(std).all()
    assert np.isfinite(model.predict(x[2500:2600], return_std=True, X_std=0.1)).all()
    assert np.isfinite(model.predict_interval(x[2500:2600])).all()
    loaded = load(tmp_path / "model")
    assert np.allclose(loaded.predict(x[2500:]), mean, rtol=1e-9)
