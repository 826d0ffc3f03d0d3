"""The table of results as text."""

from __future__ import annotations

from builders.bench import WIN_ROWS, row

from sswim.lab.bench.summary import summarise
from sswim.lab.bench.table import markdown


def test_markdown() -> None:
    more = [row("airfoil", "lightgbm", 1, rmse=0.24, mnlp=0.1)]
    lines = markdown(summarise([*WIN_ROWS, *more])).splitlines()
    assert lines[:9] == [
        "| set | metric | sswim | lightgbm | exact-gp | sswim-other | best published |",
        "| --- | --- | --- | --- | --- | --- | --- |",
        "| airfoil | RMSE | 0.235 | 0.240 | – | **0.200** | 0.235 (SSWIM2) |",
        "| airfoil | MNLP | 0.200 | 0.100 | – | **0.050** | 0.105 (SSWIM2) |",
        "|  | repeats | 1 | 2 | – | 1 |  |",
        "| creep | MSE | **300.0** | – | – | – | 279.86 (SSWIM2) |",
        "| creep | MNLP | **4.000** | – | – | – | 4.21 (MLWGP3) |",
        "|  | repeats | 1 | – | – | – |  |",
        "| ailerons | MSE, 10⁻⁸ | **2.70** | 2.80 | 2.75 | – | 2.8 (MLWGP3) |",
    ]
    assert lines[9] == ("| ailerons | MNLP | **−7.500** | −7.400 | −7.450 | – | −7.45 (MLWGP20) |")
    assert lines[12] == (
        "sswim: at least as good as the best published in 4 of 6 cells; better than every other "
        "method here in error on 2, in MNLP on 1 and in both on 1 of 2 sets."
    )


def test_small_errors_keep_their_digits() -> None:
    assert "**0.00042**" in markdown(summarise([row("bikeshare", "sswim", rmse=0.000421)]))


def test_an_unknown_data_set_has_no_published_scores() -> None:
    summary = summarise([row("boston", "sswim"), row("boston", "ridge", rmse=0.5)])
    assert "| boston | RMSE | 1.000 | **0.500** | – |" in markdown(summary)
    assert summary.wins[0].n_cells == 0
