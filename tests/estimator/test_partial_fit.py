"""Rows in many pieces are the same as all of them at once."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from builders.estimators import Array, make_rows, small

from sswim.base import record
from sswim.ensemble.ensemble import Ensemble
from sswim.ensemble.plan import Recipe
from sswim.estimator import BaseRegressor

KINDS: dict[str, dict[str, Any]] = {
    "features": {"depth": 2},
    "float32": {"depth": 2, "dtype": "float32"},
    "densities": {"output_warp": "sinh-arcsinh", "noise": "input-dependent"},
    "neighbours": {"n_neighbors": 8},
    "ensemble": {
        **{"depth": None, "n_components": 16, "n_pseudo": 3, "n_members": 1},
        "recipe": Recipe(kinds=("features-1", "neighbours-0-rough")),
    },
}

PIECE = 25
POINTS = make_rows(30, seed=5)


@pytest.fixture(scope="module", params=KINDS)
def fitted(request: pytest.FixtureRequest) -> BaseRegressor:
    return small(**({"max_iter": 3} | KINDS[request.param])).fit(*make_rows(40))


def many_pieces(n: int, *, varied: bool) -> list[dict[str, Any]]:
    """Make pieces with copies of rows of other pieces.

    Args:
        n: Number of rows.
        varied: Whether some pieces have weights, and some have uncertain inputs.
    """
    random = np.random.default_rng(2)
    x, y = make_rows(n, seed=1)
    places = np.where(random.uniform(size=n) < 0.1, random.integers(n, size=n), np.arange(n))
    pieces: list[dict[str, Any]] = []
    for begin in range(0, n, PIECE):
        chosen = places[begin : begin + PIECE]
        piece = {"X": x[chosen], "y": y[chosen]}
        if varied and len(pieces) % 3 == 1:
            piece["sample_weight"] = random.integers(1, 4, size=len(chosen)).astype(float)
        if varied and len(pieces) % 5 == 2:
            piece["X_std"] = np.full(piece["X"].shape, 0.1)
        pieces.append(piece)
    return pieces


def joined(pieces: list[dict[str, Any]]) -> dict[str, Array]:
    """Join pieces: a row without a weight counts once, and one without X_std is exact."""
    full = [
        {"sample_weight": np.ones(len(p["X"])), "X_std": np.zeros_like(p["X"]), **p} for p in pieces
    ]
    return {name: np.concatenate([each[name] for each in full]) for name in full[0]}


def add_pieces(
    regressor: BaseRegressor, pieces: list[dict[str, Any]], *, predict_every: int = 10**9
) -> BaseRegressor:
    """Return a copy with pieces added to it, that predicts now and then."""
    updated = copy.deepcopy(regressor)
    for number, piece in enumerate(pieces):
        updated.partial_fit(**piece)
        if number % predict_every == predict_every - 1:
            updated.predict(POINTS[0][:1])
    return updated


def require_close(ours: BaseRegressor, theirs: BaseRegressor) -> None:
    found = []
    for model in (ours, theirs):
        found.append([*model.predict(POINTS[0], return_std=True), model.log_density(*POINTS)])
    for mine, expected in zip(*found, strict=True):
        assert np.abs(mine - expected).max() < 1e-8 * POINTS[1].std()
    assert ours.n_samples_seen_ == pytest.approx(theirs.n_samples_seen_, rel=1e-12)


@pytest.mark.parametrize("varied", [False, True], ids=["plain", "varied"])
def test_many_pieces_equal_all_rows_at_once(
    fitted: BaseRegressor, varied: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "CPU_ROWS", 4 * PIECE)  # rows are added several times on the way
    pieces = many_pieces(600, varied=varied)
    at_once = copy.deepcopy(fitted).partial_fit(**joined(pieces))
    require_close(add_pieces(fitted, pieces), at_once)
    require_close(add_pieces(fitted, pieces[::-1], predict_every=9), at_once)


def test_a_small_piece_is_added_when_the_model_is_used(
    fitted: BaseRegressor, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    update = Ensemble.update

    def counted(ensemble: Ensemble, rows: Any) -> Ensemble:
        sizes.append(len(rows))
        return update(ensemble, rows)

    monkeypatch.setattr(Ensemble, "update", counted)
    updated = add_pieces(fitted, many_pieces(4 * PIECE, varied=False))
    assert sizes == []  # no check of a piece uses the model
    for _ in range(2):
        updated.predict(POINTS[0])
    assert sizes == [4 * PIECE]
