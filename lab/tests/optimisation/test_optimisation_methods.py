"""Methods of optimisation, and problems with stored optima that no search beats."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest
from lab_builders.datasets import available_file
from lab_builders.optimisation import skip_without_libraries
from optimisation_optima import search
from scipy.special import betaincinv
from sswim_lab.optimisation.methods import (
    METHODS,
    Method,
    method_named,
    n_first,
    require_libraries,
    sobol_points,
)
from sswim_lab.optimisation.problems import PROBLEMS, WARPS, Problem, problem_named
from sswim_lab.optimisation.simulations import solve, swing_up_cost
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


SLOW = {"cartpole": (50, 1, 30), "pde": (8, 0, 5)}
"""Points, descents and steps of a search, where an evaluation takes milliseconds."""
BOOSTED = (3, 0, 2)


@pytest.fixture(params=list(PROBLEMS))
def problem(request: pytest.FixtureRequest) -> Problem:
    found = problem_named(request.param)
    skip_without_libraries(found)
    if found.name.startswith("lightgbm"):
        available_file(found.name.removeprefix("lightgbm-"))
    return found


def test_the_optimum_is_attained_and_no_search_beats_it(problem: Problem) -> None:
    for position, corner in enumerate((np.zeros, np.ones)):
        ends = [bounds[position] for bounds in problem.bounds]
        np.testing.assert_allclose(problem.scale(corner(problem.dimension)), ends)
    known = problem.optimum
    boosted = problem.name.startswith("lightgbm")
    # Sums of trees depend on the processor a little.
    close = pytest.approx(known.value, abs=1e-3 if boosted else 1e-6)
    assert problem(np.array(known.point)) == close
    effort = BOOSTED if boosted else SLOW.get(problem.name, (500, 3, 300))
    assert search(problem, *effort, seed=3).value == close


def test_branin_has_three_equal_minima() -> None:
    warped = problem_named("warped-branin")
    for x1, x2 in ((-math.pi, 12.275), (math.pi, 2.275), (3 * math.pi, 2.475)):
        inputs = ((x1 + 5) / 15, x2 / 15)
        point = [betaincinv(*shape, each) for shape, each in zip(WARPS, inputs, strict=True)]
        assert warped(np.array(point)) == pytest.approx(0.397887, abs=1e-6)


def test_an_unknown_problem_raises() -> None:
    with pytest.raises(UserError, match=r"one of gramacy, .*'nothing'"):
        problem_named("nothing")


def test_simulations_rest_where_they_are_stable() -> None:
    assert swing_up_cost(np.zeros(6)) == pytest.approx(1 - math.exp(-8), abs=1e-4)  # hangs down
    u, v = solve(2.0, 1.0, 1.0, 1.0)
    np.testing.assert_allclose(u, 2.0, atol=1e-3)
    np.testing.assert_allclose(v, 0.5, atol=1e-3)
    for corner in ((0.1, 5.0, 0.01, 0.01), (5.0, 5.0, 5.0, 0.01), (0.1, 5.0, 5.0, 5.0)):
        both = np.concatenate(solve(*corner))  # here it jumps
        assert ((both > 0) & (both < 100)).all()
