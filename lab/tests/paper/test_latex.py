"""The score table in LaTeX."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from lab_builders.bench import SCORE_ROWS, score_table
from sswim_lab.paper.formats import escape, latex
from sswim_lab.paper.score_table import make_table


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
