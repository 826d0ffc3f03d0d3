from __future__ import annotations

import pytest
import torch
from builders.models import small_model, small_rows
from builders.neighbours import neighbour_model

from sswim.base import record
from sswim.ensemble import Ensemble, PendingUpdates, make_ensemble
from sswim.ensemble.mixture import equal_weights
from sswim.members import condition
from sswim.members.member import join_rows
from sswim.rows import Rows, learn_scaling


@pytest.fixture(params=[torch.float64, torch.float32], ids=str)
def dtype(request: pytest.FixtureRequest) -> torch.dtype:
    value: torch.dtype = request.param
    return value


@pytest.fixture
def first(generator: torch.Generator, dtype: torch.dtype) -> Rows:
    return small_rows(generator, dtype=dtype)


@pytest.fixture(params=["features", "neighbours", "both"])
def ensemble(request: pytest.FixtureRequest, first: Rows, generator: torch.Generator) -> Ensemble:
    scaling = learn_scaling(first)
    rows = scaling.rows(first)
    models = []
    if request.param != "neighbours":
        models.append(small_model(rows, generator, depth=2))
    if request.param != "features":
        models.append(neighbour_model(rows, generator, 8, depth=1))
    members = [condition(model, rows) for model in models]
    return make_ensemble(scaling, members, equal_weights(len(models)), rows)


def require_close(ours: Ensemble, theirs: Ensemble, points: Rows) -> None:
    """Check that predictions differ by at most 1e-8 of the targets' spread."""
    found = [
        (mixture.mean, mixture.observation_variance.sqrt(), mixture.log_density(points.targets))
        for mixture in (each.predict(points.inputs) for each in (ours, theirs))
    ]
    for mine, expected in zip(*found, strict=True):
        assert (mine - expected).abs().max() < 1e-8 * points.targets.std()


def test_pieces_of_any_kind_in_any_order_with_predictions_between(
    ensemble: Ensemble,
    dtype: torch.dtype,
    generator: torch.Generator,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(record, "CPU_ROWS", 100)  # rows are added several times on the way
    plain = small_rows(generator, 25, dtype=dtype)
    forms: tuple[dict[str, bool], ...] = ({}, {"weighted": True}, {"uncertain": True})
    pieces = [plain, *(small_rows(generator, 25, dtype=dtype, **forms[i % 3]) for i in range(30))]
    pieces.append(plain)
    points = small_rows(generator, 20, dtype=dtype)
    at_once = ensemble.update(join_rows(pieces))
    for order, predicted_every in ((pieces, 7), (pieces[::-1], 3)):
        updates = PendingUpdates(ensemble)
        for number, piece in enumerate(order):
            updates = updates.add(piece)
            if number % predicted_every == 0:
                updates.ensemble.predict(points.inputs)
        require_close(updates.ensemble, at_once, points)


def test_few_rows_wait_until_the_ensemble_is_used(
    ensemble: Ensemble, generator: torch.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "CPU_ROWS", 30)
    piece = small_rows(generator, 9)
    waiting = PendingUpdates(ensemble).add(piece).add(piece)
    assert (waiting.base, waiting.n_waiting) == (ensemble, 18)
    used = waiting.ensemble
    assert used is waiting.ensemble
    assert used.members[0].count == 23 + 18
    again = waiting.add(piece)
    assert again.base is used
    assert again.n_waiting == 9
    full = again.add(piece).add(piece).add(piece)
    n_held = 0 if used.rows is None else len(used.rows)
    assert n_held <= 36
    assert full.n_waiting == 0
    assert full.ensemble.members[0].count == 23 + 18 + 36
