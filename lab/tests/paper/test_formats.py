"""Score tables, and their forms as CSV, Markdown and LaTeX."""

from __future__ import annotations

import csv
import io
import math

import pytest
from lab_builders.bench import SCORE_METHODS, SCORE_ROWS, SCORE_SETS, row, score_table
from sswim_lab.paper.formats import csv_table, escape, latex, markdown
from sswim_lab.paper.score_table import make_table


def test_scores_are_means_beside_what_is_published() -> None:
    table = score_table()
    score = table.scores["airfoil", "sswim1-paper", "RMSE"]
    assert score.mean is not None
    assert score.published is not None
    assert score.mean.value == pytest.approx(0.22)
    assert score.mean.std == pytest.approx(0.04 / math.sqrt(2))
    assert (score.published.value, score.published.std) == (0.238, 0.026)
    assert score.z == pytest.approx((0.22 - 0.238) / 0.026)
    assert score.failures == ("RuntimeError: no luck",)
    assert table.best("airfoil", "RMSE") == {"sswim"}
    assert table.best("ct_slice", "RMSE") == set()
    certain = make_table("", [row("bikeshare", "rffs", rmse=0.004)], ["bikeshare"], ["rffs"])
    assert certain.scores["bikeshare", "rffs", "RMSE"].z is None  # its deviation is zero


@pytest.mark.parametrize(
    ("name", "method", "metric", "ours", "theirs", "repeats"),
    [
        ("airfoil", "sswim1-paper", "RMSE", "0.220 0.028", "0.238 0.026", "2 of 3"),
        ("airfoil", "dkl", "RMSE", "failed", "0.319 0.037", "0 of 1"),
        ("airfoil", "svgp", "MNLP", "left out", "0.119 0.033", "0 of 1"),
        ("airfoil", "sswim", "RMSE", "0.210", "–", "1"),  # of one repeat
        ("ct_slice", "dkl", "RMSE", "–", "0.052 0.008", "–"),
        ("bikeshare", "sswim1-paper", "RMSE", "0.00042", "0.013 0.004", "1"),
        ("ailerons", "gp", "MSE", "3.00 0.14", "2.95 0.16", "2"),
        ("ailerons", "gp", "MNLP", "1.000 0.000", "−7.30 0.01", "2"),
    ],
)
def test_scores_are_shown_as_numbers_or_by_a_word(
    name: str, method: str, metric: str, ours: str, theirs: str, repeats: str
) -> None:
    rows = [row("ailerons", "gp", r, mse_original=v) for r, v in enumerate((2.9e-8, 3.1e-8))]
    sets, methods = (*SCORE_SETS, "ailerons"), (*SCORE_METHODS, "gp")
    score = make_table("", [*SCORE_ROWS, *rows], sets, methods).scores[name, method, metric]
    assert (" ".join(score.ours()), " ".join(score.theirs())) == (ours, theirs)
    assert score.repeats == repeats


def test_csv_table() -> None:
    lines = list(csv.DictReader(io.StringIO(csv_table(score_table()))))
    assert len(lines) == 3 * 4 * 2
    ours = lines[0]
    assert list(ours)[:3] == ["set", "method", "metric"]
    shown = ("mean", "repeats", "failures", "published_mean", "published_sd")
    assert list(ours.values())[:3] == ["airfoil", "sswim1-paper", "RMSE"]
    assert [ours[name] for name in shown] == [repr((0.2 + 0.24) / 2), "2", "1", "0.238", "0.026"]
    assert float(ours["sd"]) == pytest.approx(0.04 / math.sqrt(2))
    assert float(ours["z"]) == pytest.approx((0.22 - 0.238) / 0.026)
    failed, alone = (
        next(line for line in lines if line["method"] == method) for method in ("dkl", "sswim")
    )
    assert [failed[name] for name in ("mean", "sd", *shown[1:3], "z")] == ["", "", "0", "1", ""]
    assert [alone[name] for name in ("mean", "sd", "published_mean")] == ["0.21", "", ""]


def test_markdown() -> None:
    text = markdown(score_table())
    assert text.startswith("# A title\n\nMean ± standard deviation")
    assert "\n\nA note.\n\n## In short\n\n" in text
    assert "\n\n## airfoil\n\n1,503 rows, 5 inputs.\n\n" in text
    assert (
        "| method | RMSE | published | MNLP | published | repeats |\n"
        "| --- | ---: | ---: | ---: | ---: | ---: |\n"
        "| SSWIM1 | 0.220 ± 0.028 | 0.238 ± 0.026 | 0.200 ± 0.000 | 0.125 ± 0.250 | 2 of 3 |\n"
        "| DKL | failed | 0.319 ± 0.037 | failed | 0.770 ± 0.017 | 0 of 1 |\n"
        "| SVGP | left out | 0.270 ± 0.015 | left out | 0.119 ± 0.033 | 0 of 1 |\n"
        "| our default | **0.210** | – | **−0.500** | – | 1 |\n"
    ) in text
    assert "| SSWIM1 | – | 0.046 ± 0.002 | – | −1.124 ± 0.005 | – |\n" in text
    assert "casual + registered == cnt" in text  # what one must know of bikeshare
    assert "- DKL on airfoil, 1 repeats: `OutOfMemoryError: too 'much'`\n" in text
    assert text.count("## Failures") == 1


def test_markdown_compares_with_published_scores_in_their_units() -> None:
    rows = [
        row("airfoil", "rffs", rmse=0.328 + 1.9 * 0.024, mnlp=0.272 - 2.1 * 0.069),
        row("concrete", "rffs", rmse=0.333 + 2.5 * 0.030, mnlp=0.305),
        row("bikeshare", "rffs", rmse=1.0, mnlp=1.0),  # whose standard deviations are zero
        row("airfoil", "sswim"),
    ]
    table = make_table("", rows, ["airfoil", "concrete", "bikeshare"], ["rffs", "sswim", "dkl"])
    assert (
        "| method | scores | as published | better | worse |\n"
        "| --- | ---: | ---: | ---: | --- |\n"
        "| RFFS | 4 | 2 | 1 | concrete RMSE (+2.5) |\n\n"
    ) in markdown(table)
    assert "In short" not in markdown(make_table("", rows, ["airfoil"], ["sswim"]))
    rows = [row("airfoil", "rffs", rmse=0.3, mnlp=-0.1), row("ailerons", "gp", mse_original=3e-8)]
    text = markdown(make_table("", rows, ["airfoil", "ailerons"], ["rffs", "gp", "sswim"]))
    assert (
        "**RMSE or MSE, 10⁻⁸** (as published)\n\n"
        "|  | airfoil | ailerons |\n"
        "| --- | ---: | ---: |\n"
        "| RFFS | 0.300 (0.328) | – |\n"
        "| GP | – | 3.00 (2.95) |\n"
        "| our default | – | – |\n\n"
        "**MNLP** (as published)\n\n"
    ) in text
    assert "| method | MSE, 10⁻⁸ | published | MNLP | published | repeats |" in text
    assert "Failures" not in text


def test_latex() -> None:
    lines = latex(score_table()).splitlines()
    assert lines[:2] == ["% A title", "% A note."]
    start = lines.index(r"\begin{tabular}{lccc}")
    assert lines[start + 1 : start + 10] == [
        r"\toprule",
        r"method & airfoil & bikeshare & ct\_slice \\",
        r"\midrule",
        r"\multicolumn{4}{l}{\textit{RMSE}} \\",
        r"SSWIM1 & $0.220 \pm 0.028$ & $\mathbf{0.00042}$ & -- \\",
        r"\quad published & $0.238 \pm 0.026$ & $0.013 \pm 0.004$ & $0.046 \pm 0.002$ \\",
        r"DKL & failed & -- & -- \\",
        r"\quad published & $0.319 \pm 0.037$ & $0.024 \pm 0.003$ & $0.052 \pm 0.008$ \\",
        r"SVGP & left out & -- & -- \\",
    ]
    assert r"our default & $\mathbf{-0.500}$ & -- & -- \\" in lines
    assert lines[-2:] == [r"\bottomrule", r"\end{tabular}"]
    assert sum(line.startswith(r"\quad published") for line in lines) == 6  # not of the default

    text = latex(make_table("", SCORE_ROWS, ["airfoil", "ailerons"], ["gp"]))
    assert r"\textit{RMSE or MSE (ailerons in $10^{-8}$)}" in text
    assert r"\textit{MNLP}" in text
    assert escape(r"a_b & 100% #{~^\$}") == (
        r"a\_b \& 100\% \#\{\textasciitilde{}\textasciicircum{}\textbackslash{}\$\}"
    )
