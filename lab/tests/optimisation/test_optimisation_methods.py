"""The methods suggest points of the unit cube, the same ones for the same seed."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from lab_builders.optimisation import skip_without_libraries
from sswim_lab.optimisation.methods import (
    METHODS,
    Method,
    method_named,
    n_first,
    require_libraries,
    sobol_points,
)
from sswim_lab.peers.protocol import silenced

from sswim.base.validation import UserError


@pytest.fixture(params=list(METHODS))
def method(request: pytest.FixtureRequest) -> Method:
    found = method_named(request.param)
    with silenced():
        skip_without_libraries(found)
    return found


def test_suggestions_are_inside_and_repeatable(method: Method) -> None:
    points = sobol_points(1, 12, seed=0)
    with silenced():
        first, second = (method.suggest(points, (points[:, 0] - 0.3) ** 2, 0) for _ in range(2))
    assert first.shape == (1,)
    assert 0 <= first[0] <= 1
    np.testing.assert_array_equal(first, second)
    if method.name in ("gp-nei", "gp-warp-nei"):
        assert first[0] == pytest.approx(0.3, abs=0.05)


def test_sobol_goes_on_with_the_sequence_of_the_first_points() -> None:
    points = sobol_points(3, 9, seed=4)
    np.testing.assert_array_equal(METHODS["sobol"].suggest(points[:8], np.zeros(8), 4), points[8])
    assert [n_first(dimension) for dimension in (1, 2, 3, 6)] == [5, 5, 6, 12]


def test_the_small_forest_suggests_what_the_usual_one_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    method = method_named("forest")
    with silenced():
        skip_without_libraries(method)
        from smac import HyperparameterOptimizationFacade  # noqa: PLC0415 (optional)
        from sswim_lab.optimisation import forest  # noqa: PLC0415 (optional)

        points = sobol_points(2, 20, seed=0)
        values = np.square(points - 0.3).sum(1)
        small = method.suggest(points, values, 0)
        monkeypatch.setattr(
            forest,
            "small_forest",
            lambda scenario, n_rows: HyperparameterOptimizationFacade.get_model(scenario),
        )
        usual = method.suggest(points, values, 0)
    np.testing.assert_array_equal(small, usual)


@pytest.mark.parametrize(("name", "library"), [("gp-ts", "botorch"), ("forest", "smac")])
def test_a_missing_library_is_named_with_the_extra(
    name: str, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(UserError, match=rf"'{name}' needs {library}.*sswim-lab\[optimisation\]"):
        require_libraries(method_named(name))
    with pytest.raises(UserError, match=r"one of sswim-nei, .*'nothing'"):
        method_named("nothing")
