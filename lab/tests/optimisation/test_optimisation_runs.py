"""Runs of methods on problems, their summary, tables and figures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lab_builders.optimisation import fail, made_up_run, skip_without_libraries
from sswim_lab.optimisation.methods import METHODS, Method
from sswim_lab.optimisation.runs import (
    Bench,
    Job,
    Run,
    append_run,
    do_run,
    do_runs,
    missing_runs,
    read_runs,
)
from sswim_lab.optimisation.summary import Quartiles, Summary, summarise
from sswim_lab.optimisation.table import describe_ratios, markdown, rich_tables

from sswim.base.validation import UserError


def make_bench(folder: Path, **others: Any) -> Bench:
    settings: dict[str, Any] = {"seeds": 2, "evaluations": 8, "out": folder / "new" / "o.jsonl"}
    return Bench(("gramacy", "chirp-step"), ("sobol",), **(settings | others))


def ignore(run: Run) -> None:
    pass


def test_a_tiny_run_of_a_gp_starts_with_the_points_of_sobol() -> None:
    skip_without_libraries(METHODS["gp-nei"])
    gp, sobol = (do_run(Job("gramacy", name, 0, 8)) for name in ("gp-nei", "sobol"))
    assert gp.failure == sobol.failure == ""
    assert gp.n_first == 5
    assert gp.values[:5] == sobol.values[:5]
    assert gp.values[5:] != sobol.values[5:]
    for run in (gp, sobol):
        assert len(run.values) == 8
        assert len(run.seconds) == 3
    assert gp.settings["samples"] == 128
    assert "botorch" in gp.versions


def test_finished_runs_are_not_repeated(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="seeds must be at least 1"):
        make_bench(tmp_path, seeds=0)
    bench, late = make_bench(tmp_path), make_bench(tmp_path, time_limit=0.0)
    jobs = missing_runs(bench)
    assert do_runs(late, jobs, ignore) == []
    assert missing_runs(bench) == jobs  # no run starts after the time limit
    pairs = [(seed, name) for seed in (0, 1) for name in ("gramacy", "chirp-step")]
    assert [(job.seed, job.problem) for job in jobs] == pairs
    counts: list[int] = []
    assert do_runs(bench, jobs[:3], lambda run: counts.append(len(read_runs(bench.out)))) == []
    assert counts == [1, 2, 3]
    assert missing_runs(bench) == jobs[3:]
    do_runs(bench, jobs[3:], ignore)
    assert [run.job for run in read_runs(bench.out)] == list(jobs)
    assert read_runs(bench.out)[0].values == do_run(jobs[0]).values


def test_a_failure_is_stored_with_the_values_so_far(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(METHODS, "sobol", Method("sobol", fail))
    bench = make_bench(tmp_path)
    failures = do_runs(bench, missing_runs(bench), ignore)
    assert len(failures) == 4
    assert read_runs(bench.out)[0].failure == "RuntimeError: no luck"
    assert len(read_runs(bench.out)[0].values) == 6
    assert missing_runs(bench) == ()
    assert len(missing_runs(make_bench(tmp_path, retry=True))) == 4


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    path = tmp_path / "o.jsonl"
    run = made_up_run("gramacy", "sobol", [1.0, 0.5, 0.25])
    append_run(path, run)
    assert read_runs(path) == [run]
    path.write_text(path.read_text() + '{"problem": "gramacy"}\n')
    with pytest.raises(UserError, match=r"Line 2 of .* is not a run"):
        read_runs(path)
    assert read_runs(tmp_path / "none.jsonl") == []


BEST = -2.2415684226662855
"""The optimum of gp-draw."""


def made_up_runs() -> list[Run]:
    """Return runs on two problems; below the stored optimum of gramacy by 0.1."""
    return [
        made_up_run("gramacy", "sswim-nei", [1.0, 0.0, 0.5, -0.5289]),
        made_up_run("gramacy", "sswim-nei", [1.0, 0.0, 0.5, -0.1289], seed=1),
        made_up_run("gramacy", "gp-nei", [1.0, 0.0, 0.5, 0.0711]),
        made_up_run("gramacy", "gp-warp-nei", [1.0, -0.1289], evaluations=4, failure="Error"),
        made_up_run("gp-draw", "sswim-nei", [1.0, 0.0, BEST + 0.2, 0.0]),
        made_up_run("gp-draw", "gp-nei", [1.0, 0.0, BEST + 0.1, 0.0], seconds=(1.0, 2.0)),
        made_up_run("gp-draw", "sobol", [], evaluations=4, failure="ProcessDied"),
    ]


@pytest.fixture
def summary() -> Summary:
    return summarise(made_up_runs(), 4)


def test_regret_is_the_best_value_less_the_least_known(summary: Summary) -> None:
    gramacy, draw = summary.problems
    assert gramacy.optimum == -0.5289  # of a run, below the stored one
    assert draw.optimum == BEST
    np.testing.assert_allclose(gramacy.regrets["gp-nei"], [[1.5289, 0.5289, 0.5289, 0.5289]])
    assert gramacy.after("sswim-nei") == Quartiles(*np.quantile([0.0, 0.4], (0.25, 0.5, 0.75)))
    assert (gramacy.stationary, draw.stationary) == (False, True)
    np.testing.assert_allclose(gramacy.regrets["gp-warp-nei"], [[1.5289, 0.4, 0.4, 0.4]])
    assert gramacy.failures["gp-warp-nei"] == 1  # and kept its best value
    assert "sobol" not in draw.regrets  # it has no value
    assert draw.failures["sobol"] == 1


def test_ratios_are_to_the_better_gp(summary: Summary) -> None:
    gramacy, draw = summary.problems
    assert gramacy.ratios == {"sswim-nei": pytest.approx(0.2 / 0.4)}
    assert draw.ratios == {"sswim-nei": pytest.approx(2.0)}
    mean, n = summary.mean_ratio("sswim-nei", stationary=True, fresh=False)
    assert (round(mean, 9), n) == (2.0, 1)
    (sentence,) = describe_ratios(summary)
    assert "0.5 on 1 nonstationary problem and 2 on 1 stationary problem." in sentence


def test_seconds_are_medians_over_problems_of_all_and_of_the_last_ten(summary: Summary) -> None:
    assert summary.seconds["gp-nei"].all == 0.75
    assert summary.seconds["sswim-nei"].late == 0.5
    assert np.isnan(summary.seconds["sobol"].all)
    run = made_up_run("gramacy", "gp-nei", [0.0] * 22, seconds=(1.0,) * 10 + (2.0,) * 10)
    late = [summarise([run], n).seconds["gp-nei"].late for n in (22, 12)]
    assert late == [2.0, 1.0]


def test_shorter_runs_are_left_out_and_later_lines_count() -> None:
    runs = [
        made_up_run("gramacy", "gp-nei", [0.0, 0.0, 1.0], failure="Error"),
        made_up_run("gramacy", "gp-nei", [0.0, 0.0, 0.0]),
        made_up_run("gramacy", "gp-ts", [0.0, 0.0]),
    ]
    found = summarise(runs, 3)
    assert found.methods == ("gp-nei",)
    assert found.problems[0].failures == {"gp-nei": 0}
    assert summarise([], 3).problems == ()


def test_markdown_has_every_problem_and_method(summary: Summary) -> None:
    header, _, gramacy, draw, *others = markdown(summary).splitlines()
    methods = "sswim-nei | gp-nei | gp-warp-nei | sobol"
    assert header == f"| problem | runs | {methods} | sswim-nei / best GP |"
    regrets = "**0.2** (0.1–0.3) | 0.53 (0.53–0.53) | 0.4 (0.4–0.4, 1 failed) | –"
    assert gramacy == f"| gramacy | 1–2 | {regrets} | 0.5 |"
    regrets = "0.2 (0.2–0.2) | **0.1** (0.1–0.1) | – | failed"
    assert draw == f"| gp-draw (stationary) | 1 | {regrets} | 2 |"
    assert "| gp-nei | 0.75 | 0.75 |" in others
    assert [table.row_count for table in rich_tables(summary)] == [2, 4]
