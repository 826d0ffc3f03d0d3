from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from builders.estimators import make_rows, small
from scipy import stats

from sswim import load
from sswim.base.validation import UserError
from sswim.estimator import BaseRegressor
from sswim.estimator.evaluation import evaluate


def frame(n: int = 120, seed: int = 0) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    columns = {
        "size": random.normal(size=n),
        "colour": random.choice(["red", "green", "blue"], n),
        "idle": np.where(np.arange(n) % 10, random.normal(size=n), np.nan),
        "day": pd.date_range("2020-01-01", periods=n, freq="7h"),
        "is_new": random.choice(["yes", "no"], n),
    }
    found = pd.DataFrame(columns)
    noise = 0.1 * random.normal(size=n)
    return found.assign(y=np.sin(2 * found["size"]) + 1.5 * (found["colour"] == "red") + noise)


@pytest.fixture(scope="module")
def table_model() -> BaseRegressor:
    return small(depth=0, n_components=64, max_iter=60).fit(frame(), "y")


@pytest.fixture(scope="module")
def array_model() -> BaseRegressor:
    return small(depth=0, max_iter=60).fit(*make_rows(80, 3))


def test_relevance_of_arrays(array_model: BaseRegressor) -> None:
    found = array_model.relevance()
    assert found.names == ("x0", "x1", "x2")
    assert found.relevance.min() >= 0
    np.testing.assert_allclose(found.relevance.sum(), 1)
    assert found.relevance[0] > 0.9
    assert found.order[0] == 0
    assert found.members.shape == (1, 3)


def test_relevance_of_tables_is_that_of_columns(table_model: BaseRegressor) -> None:
    found = table_model.relevance()
    assert found.names == ("size", "colour", "idle", "day", "is_new")
    np.testing.assert_allclose(found.relevance.sum(), 1)
    assert set(found.order[:2]) == {0, 1}
    again = table_model.relevance(frame(50, seed=2))
    assert set(again.order[:2]) == {0, 1}


def test_rows_that_a_model_and_its_file_hold_are_those_of_fit(tmp_path: Path) -> None:
    x, y = make_rows(60, 2)
    held = small(n_neighbors=16).fit(x, y)
    assert held.keeps_rows_
    np.testing.assert_allclose(held.relevance().relevance, held.relevance(x).relevance, rtol=1e-6)
    np.testing.assert_allclose(held.effect(1).mean, held.effect(1, x).mean, rtol=1e-6)
    np.testing.assert_array_equal(held.effect(1).mean, held.effect("x1").mean)
    held.save(tmp_path / "model.sswim")
    loaded = load(tmp_path / "model.sswim")
    np.testing.assert_allclose(loaded.relevance().relevance, held.relevance().relevance)
    np.testing.assert_allclose(loaded.effect(0).upper, held.effect(0).upper)
    np.testing.assert_allclose(loaded.local_metric(x).metric, held.local_metric(x).metric)


def test_a_model_without_rows_needs_some() -> None:
    x, y = make_rows(400, 2)
    model = small(depth=0, n_components=4).fit(x, y)
    assert not model.keeps_rows_
    model.relevance()  # arrays of fit are there until the model is copied
    model.partial_fit(x[:5], y[:5])
    for call in (model.relevance, lambda: model.effect(0)):
        with pytest.raises(UserError, match="holds no rows, so X must be given"):
            call()
    np.testing.assert_allclose(model.relevance(x).relevance.sum(), 1)
    assert model.effect(0, x[:20]).n_rows == 20


def test_effect_is_the_mean_over_rows(array_model: BaseRegressor) -> None:
    x, _ = make_rows(25, 3, seed=1)
    found = array_model.effect("x0", x, grid=[-1.0, 0.0, 2.0], level=0.8)
    assert found.names == ("x0",)
    assert found.kinds == ("number",)
    for place, value in enumerate([-1.0, 0.0, 2.0]):
        changed = torch.from_numpy(np.column_stack((np.full(25, value), x[:, 1:])))
        posterior = array_model.posterior(changed)
        np.testing.assert_allclose(found.mean[place], posterior.mean.mean())
        variance = posterior.covariance.mean().item()
        np.testing.assert_allclose(found.standard_deviation[place] ** 2, variance)
    reach = stats.norm.ppf(0.9) * found.standard_deviation
    np.testing.assert_allclose(found.upper - found.mean, reach)
    np.testing.assert_allclose(found.mean - found.lower, reach)
    np.testing.assert_array_equal(found.rows[0], x[:, 0])


def test_effect_of_a_pair(array_model: BaseRegressor) -> None:
    x, _ = make_rows(20, 3, seed=1)
    found = array_model.effect((0, 2), x, grid=([-1.0, 1.0], [0.0, 0.5, 1.0]))
    assert found.mean.shape == found.upper.shape == (2, 3)
    changed = x.copy()
    changed[:, 0], changed[:, 2] = 1.0, 0.5
    expected = array_model.posterior(torch.from_numpy(changed)).mean.mean()
    np.testing.assert_allclose(found.mean[1, 1], expected)
    x, _ = make_rows(300, 3)
    assert array_model.effect(0, x, grid=2, max_rows=10).n_rows == 10
    assert array_model.effect(0, x, grid=2).n_rows == 100


def test_effects_of_tables(table_model: BaseRegressor) -> None:
    rows = frame(40, seed=3)
    found = table_model.effect("colour", rows)
    assert found.kinds == ("category",)
    assert found.grids[0].tolist() == ["blue", "green", "red"]
    np.testing.assert_array_equal(found.rows[0], rows["colour"])
    for place, level in enumerate(found.grids[0]):
        _, covariance = table_model.predict(
            rows.assign(colour=level, idle=rows["idle"].fillna(0)),
            return_cov=True,
            include_noise=False,
        )
        assert abs(found.standard_deviation[place] / np.sqrt(covariance.mean()) - 1) < 0.1
    assert found.mean[2] > max(found.mean[:2]) + 1
    complete = rows.dropna()
    for column, kind in (("size", "f"), ("day", "M")):
        found = table_model.effect(column, complete, grid=3)
        assert found.grids[0].dtype.kind == kind
        for value, mean in zip(pd.Series(found.grids[0]), found.mean, strict=True):
            expected = np.mean(table_model.predict(complete.assign(**{column: value})))
            np.testing.assert_allclose(mean, expected, rtol=1e-6)
    pair = table_model.effect(("colour", "is_new"), grid=(["red", "blue"], ["yes"]))
    assert pair.mean.shape == (2, 1)


def test_effects_of_coordinates() -> None:
    random = np.random.default_rng(0)
    lon, lat = random.uniform(170, 190, 80), random.uniform(-20, 40, 80)
    rows = pd.DataFrame({"lon": lon, "lat": lat, "z": random.normal(size=80)})
    y = np.sin(rows["lat"] / 20) + 0.1 * random.normal(size=80)
    model = small(depth=0, max_iter=30, coordinates=("lon", "lat")).fit(rows, y)
    assert model.relevance().names == ("lon, lat", "z")
    found = model.effect("lat", rows, grid=[-10.0, 30.0])
    expected = [np.mean(model.predict(rows.assign(lat=value))) for value in (-10.0, 30.0)]
    np.testing.assert_allclose(found.mean, expected)
    pair = model.effect("lon, lat", rows, grid=([175.0, -175.0], [10.0]))
    assert pair.names == ("lon", "lat")
    expected = [np.mean(model.predict(rows.assign(lon=value, lat=10.0))) for value in (175, -175)]
    np.testing.assert_allclose(pair.mean[:, 0], expected)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"columns": "x7"}, "one of the 3 that the model uses: 'x0'"),
        ({"columns": (0, 1, 2)}, "one column or a pair"),
        ({"columns": (0, "x0")}, "one column or a pair"),
        ({"columns": None}, "one of the 3 .* Got None"),
        ({"columns": [[0], 1]}, "one of the 3"),
        ({"columns": 0, "grid": [0.0, np.nan]}, "must be finite. Got 1 NaN"),
        ({"columns": 0, "grid": ["a"]}, "must hold numbers"),
        ({"columns": 0, "grid": []}, "one or more values"),
        ({"columns": 0, "grid": 1}, "at least 2"),
        ({"columns": (0, 1), "grid": ([1.0],)}, "a pair of lists"),
        ({"columns": 0, "level": 1.5}, "between 0 and 1"),
        ({"columns": 0, "max_rows": 0}, "at least 1"),
        ({"columns": 0, "X": np.zeros((3, 2))}, "2 features"),
        ({"columns": 0, "X": np.zeros((0, 3))}, "0 sample"),
    ],
)
def test_bad_effects(array_model: BaseRegressor, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        array_model.effect(**arguments)


def test_bad_rows(array_model: BaseRegressor) -> None:
    x, y = make_rows(20, 3)
    calls: dict[str, Callable[[], object]] = {
        r"two or more rows. Got 1": lambda: array_model.relevance(x[:1]),
        "2 features": lambda: array_model.local_metric(x[:, :2]),
        "integer of at least 2": lambda: array_model.permutation_importance(x, y, n_repeats=1),
        "inconsistent|same number": lambda: array_model.permutation_importance(x, y[:5]),
    }
    for message, call in calls.items():
        with pytest.raises(ValueError, match=message):
            call()


def test_bad_effects_of_tables(table_model: BaseRegressor) -> None:
    cases: tuple[tuple[Any, Any, str], ...] = (
        ("colour", ["pink"], "must be levels of the fit. Got 'pink'; the levels are 'blue'"),
        ("day", ["yesterday"], "must hold times"),
        ("day", ["NaT"], "Got NaT"),
        (0, None, "Got 0"),
    )
    for column, grid, message in cases:
        with pytest.raises(UserError, match=message):
            table_model.effect(column, grid=grid)


def test_permutation_importance(array_model: BaseRegressor, table_model: BaseRegressor) -> None:
    x, y = make_rows(60, 3, seed=2)
    found = array_model.permutation_importance(x, y)
    assert found.columns[0].name == "x0"
    assert found.columns[0].rmse.mean > 0.5
    assert found.n_rows == 60
    assert found.scores == evaluate(array_model, x, y)
    rows = frame(60, seed=2)
    found = table_model.permutation_importance(rows, "y", n_repeats=3)
    assert {column.name for column in found.columns[:2]} == {"size", "colour"}
    apart = table_model.permutation_importance(rows.drop(columns="y"), rows["y"], n_repeats=3)
    assert apart == found
