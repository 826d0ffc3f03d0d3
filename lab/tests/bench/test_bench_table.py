"""The table of results as text."""

from __future__ import annotations

from lab_builders.bench import CRPS_ROWS, WIN_ROWS, row
from sswim_lab.bench.summary import summarise
from sswim_lab.bench.table import compact_markdown, markdown, rich_table


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


def test_the_compact_table_has_ours_and_the_best_other() -> None:
    lines = compact_markdown(summarise(WIN_ROWS)).splitlines()
    assert lines[0] == (
        "| set | error, sswim | error, best other | MNLP, sswim | MNLP, best other | CRPS, sswim "
        "| CRPS, best other |"
    )
    assert (
        "| ailerons | MSE **2.70** | 2.75 (exact-gp) | **−7.500** | −7.450 (exact-gp) |"
        in (lines[4])
    )
    assert "| creep | – | – | – | – | – | – |" in lines
    assert lines[-1].startswith("sswim: at least as good")


def test_small_errors_keep_their_digits() -> None:
    assert "**0.00042**" in markdown(summarise([row("bikeshare", "sswim", rmse=0.000421)]))


def test_an_unknown_data_set_has_no_published_scores() -> None:
    summary = summarise([row("boston", "sswim"), row("boston", "ridge", rmse=0.5)])
    assert "| boston | RMSE | 1.000 | **0.500** | – |" in markdown(summary)
    assert summary.wins[0].n_cells == 0


def test_sets_with_crps_have_a_line_more_and_a_comparison() -> None:
    lines = markdown(summarise(CRPS_ROWS)).splitlines()
    shown = [line for line in lines if "CRPS" in line and line.startswith("|")]
    assert shown == [
        "| airfoil | CRPS | **0.100** | 0.200 | – | – | – |",
        "| creep | CRPS | **3.000** | – | – | – | – |",
        "| ailerons | CRPS, 10⁻⁴ | 5.000 | **4.000** | – | – | – |",
        "| kin8nm | CRPS | **0.00400** | 0.00500 | – | failed | – |",
    ]
    assert lines[-1].endswith(
        "Compared with every other method here on 3 sets: RMSE best or within 1 % of the best on "
        "2, MNLP best on 1, CRPS best on 2, coverage of 90 % intervals between 87 and 93 % on 2; "
        "largest gap to the best RMSE 10.0 % (ailerons)."
    )
    table = rich_table(summarise(CRPS_ROWS))
    assert table.row_count == len(shown) * 4


def test_a_terminal_and_markdown_have_the_same_lines() -> None:
    assert rich_table(summarise(WIN_ROWS)).row_count == 3 * 3
