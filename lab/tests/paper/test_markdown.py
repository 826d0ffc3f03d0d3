"""The score table in Markdown."""

from __future__ import annotations

from lab_builders.bench import SCORE_METHODS, SCORE_ROWS, row, score_table
from sswim_lab.paper.formats import markdown
from sswim_lab.paper.score_table import make_table


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
