"""Score tables, and their forms as CSV, Markdown and LaTeX."""

from __future__ import annotations

import csv
import io
import math
import shutil
import subprocess
from pathlib import Path

import pytest
from lab_builders.bench import SCORE_METHODS, SCORE_ROWS, SCORE_SETS, row, score_table
from sswim_lab.paper.formats import csv_table, escape, latex, markdown
from sswim_lab.paper.score_table import make_table, method_label


def test_scores_are_means_beside_what_is_published() -> None:
    score = score_table().scores["airfoil", "sswim1-paper", "RMSE"]
    assert score.mean is not None
    assert score.published is not None
    assert score.mean.value == pytest.approx(0.22)
    assert score.mean.std == pytest.approx(0.04 / math.sqrt(2))
    assert (score.published.value, score.published.std) == (0.238, 0.026)
    assert score.z == pytest.approx((0.22 - 0.238) / 0.026)
    assert score.failures == ("RuntimeError: no luck",)
    assert score.repeats == "2 of 3"
    assert (score.ours(), score.theirs()) == (["0.220", "0.028"], ["0.238", "0.026"])


def test_unknown_scores_are_shown_by_a_word() -> None:
    scores = score_table().scores
    assert scores["airfoil", "dkl", "RMSE"].ours() == ["failed"]
    assert scores["airfoil", "dkl", "RMSE"].repeats == "0 of 1"
    assert scores["airfoil", "svgp", "MNLP"].ours() == ["left out"]
    assert scores["ct_slice", "dkl", "RMSE"].ours() == ["–"]
    assert scores["ct_slice", "dkl", "RMSE"].theirs() == ["0.052", "0.008"]
    assert scores["ct_slice", "dkl", "RMSE"].z is None
    assert scores["ct_slice", "dkl", "RMSE"].repeats == "–"
    assert scores["airfoil", "sswim", "RMSE"].theirs() == ["–"]
    assert scores["airfoil", "sswim", "RMSE"].ours() == ["0.210"]  # of one repeat


def test_a_zero_standard_deviation_gives_no_z() -> None:
    table = make_table("", [row("bikeshare", "rffs", rmse=0.004)], ["bikeshare"], ["rffs"])
    assert table.scores["bikeshare", "rffs", "RMSE"].z is None


def test_the_best_of_ours() -> None:
    table = score_table()
    assert table.best("airfoil", "RMSE") == {"sswim"}
    assert table.best("ct_slice", "RMSE") == set()


def test_small_numbers_have_digits() -> None:
    rows = [row("ailerons", "gp", r, mse_original=v) for r, v in enumerate((2.9e-8, 3.1e-8))]
    scores = make_table(
        "", [*SCORE_ROWS, *rows], (*SCORE_SETS, "ailerons"), ["sswim1-paper", "gp"]
    ).scores
    assert scores["bikeshare", "sswim1-paper", "RMSE"].ours() == ["0.00042"]
    assert scores["ailerons", "gp", "MSE"].ours() == ["3.00", "0.14"]
    assert scores["ailerons", "gp", "MSE"].theirs() == ["2.95", "0.16"]
    assert scores["ailerons", "gp", "MNLP"].theirs() == ["−7.30", "0.01"]


def test_labels_are_those_of_the_paper() -> None:
    assert method_label("sswim1-paper") == method_label("sswim1-paper-quick") == "SSWIM1"
    assert method_label("sswim") == "our default"
    assert method_label("lightgbm") == "lightgbm"


def test_csv_table() -> None:
    lines = list(csv.DictReader(io.StringIO(csv_table(score_table()))))
    assert len(lines) == 3 * 4 * 2
    assert lines[0] == {
        "set": "airfoil",
        "method": "sswim1-paper",
        "metric": "RMSE",
        "mean": repr((0.2 + 0.24) / 2),
        "sd": lines[0]["sd"],
        "repeats": "2",
        "failures": "1",
        "published_mean": "0.238",
        "published_sd": "0.026",
        "z": lines[0]["z"],
    }
    assert float(lines[0]["sd"]) == pytest.approx(0.04 / math.sqrt(2))
    failed = next(line for line in lines if line["method"] == "dkl")
    assert [failed[name] for name in ("mean", "sd", "repeats", "failures", "z")] == [
        *("", "", "0", "1", "")
    ]
    alone = next(line for line in lines if line["method"] == "sswim")
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


def test_markdown_says_which_scores_are_as_published() -> None:
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


def test_markdown_has_all_means_in_two_tables() -> None:
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
    assert "| RFFS | −0.100 (0.272) | – |\n" in text


def test_markdown_without_failures_has_no_part_for_them() -> None:
    assert "Failures" not in markdown(make_table("", SCORE_ROWS, ["bikeshare"], SCORE_METHODS))


def test_markdown_tells_units() -> None:
    text = markdown(make_table("", SCORE_ROWS, ["ailerons"], ["gp"]))
    assert "| method | MSE, 10⁻⁸ | published | MNLP | published | repeats |" in text


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


def test_latex_tells_units_and_metrics() -> None:
    text = latex(make_table("", SCORE_ROWS, ["airfoil", "ailerons"], ["gp"]))
    assert r"\textit{RMSE or MSE (ailerons in $10^{-8}$)}" in text
    assert r"\textit{MNLP}" in text


def test_special_characters_are_escaped() -> None:
    assert escape(r"a_b & 100% #{~^\$}") == (
        r"a\_b \& 100\% \#\{\textasciitilde{}\textasciicircum{}\textbackslash{}\$\}"
    )


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="LaTeX is not installed")
def test_latex_compiles(tmp_path: Path) -> None:
    (tmp_path / "table.tex").write_text(latex(score_table()), encoding="utf-8")
    (tmp_path / "page.tex").write_text(
        r"\documentclass{article}\usepackage{booktabs}\begin{document}\input{table}\end{document}"
    )
    subprocess.run(
        ["pdflatex", "-halt-on-error", "page"], cwd=tmp_path, check=True, capture_output=True
    )
