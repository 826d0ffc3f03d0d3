"""Shared by the scripts: tables of the scores of ``missing_cells.py``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from markdown_tables import table_line

Key = tuple[str, float, str, str, str]
"""Data set, rate, mechanism, method, device."""


def line_key(line: dict[str, Any]) -> Key:
    """Return what tells a line of the results from all others."""
    return line["set"], line["rate"], line["mechanism"], line["method"], line["device"]


def table(lines: Sequence[dict[str, Any]], methods: Sequence[str], reference: str) -> Iterator[str]:
    """Yield the lines of Markdown tables of scores compared with those of a reference.

    Cells have the geometric mean of RMSE ratios, the mean difference of MNLP and the number of data
    sets: of the test rows, and of the same rows with all cells.
    """
    found = {line_key(line): line for line in lines}
    columns = sorted({(line["rate"], line["mechanism"]) for line in lines})
    for prefix, title in (("", "test rows"), ("complete_", "test rows with all cells")):
        yield table_line([title, *(f"{rate:.0%}, {mechanism}" for rate, mechanism in columns)])
        yield f"|---|{'---|' * len(columns)}"
        for method in methods:
            pairs = [_pairs(found, method, reference, column, prefix) for column in columns]
            if any(pairs):
                yield table_line([method, *map(_cell, pairs)])
        yield ""


COMPACT = {
    "mean": "mean",
    "gaussian": "mean given the others",
    "gaussian+indicator": "… and indicators",
    "gaussian+indicator+std": "… and `X_std` at fit and predict",
    "sswim": "**sswim**",
    "lightgbm": "LightGBM",
}
"""Methods of the compact table, and what they are called there."""

CONDITIONS = {
    (0.05, "random"): "5 % at random",
    (0.2, "random"): "20 %",
    (0.5, "random"): "50 %",
    (0.05, "target"): "5 % by the target",
    (0.2, "target"): "20 %",
    (0.5, "target"): "50 %",
    (0.2, "predict only"): "20 % at predict only",
}
"""Rates and mechanisms of the compact table, and what they are called there."""


def compact_table(lines: Sequence[dict[str, Any]]) -> str:
    """Return a Markdown table of scores, compared with those of the plain mean.

    A cell has the geometric mean of RMSE ratios and the mean difference of MNLP, over all data sets
    that every cell has; a method that lacks some of them has no cell.
    """
    found = {line_key(line): line for line in lines}
    rows = [table_line(["filled in by", *CONDITIONS.values()]), table_line(["---"] * 8)]
    n_sets = len(_pairs(found, "mean", "mean", (0.2, "random"), ""))
    for method, word in COMPACT.items():
        pairs = [_pairs(found, method, "mean", column, "") for column in CONDITIONS]
        cells = [_cell(each).rsplit(" (")[0] if len(each) >= n_sets else "" for each in pairs]
        rows.append(table_line([word, *cells]))
    return "\n".join(rows)


def _pairs(
    found: dict[Key, dict[str, Any]],
    method: str,
    reference: str,
    column: tuple[float, str],
    prefix: str,
) -> list[tuple[float, float]]:
    """Return the log ratio of RMSE and the difference of MNLP of every data set."""
    pairs = []
    for name in dict.fromkeys(key[0] for key in found):
        lines = {d: found.get((name, *column, method, d)) for d in ("cpu", "cuda")}
        device, line = next(((d, each) for d, each in lines.items() if each), ("", None))
        # Fits differ a little between devices, so the reference is of the same device if possible.
        bases = (found.get((name, *column, reference, d)) for d in (device, "cpu"))
        base = next(filter(None, bases), None)
        if line is not None and base is not None:
            ratio = line[f"{prefix}rmse"] / base[f"{prefix}rmse"]
            pairs.append((float(np.log(ratio)), line[f"{prefix}mnlp"] - base[f"{prefix}mnlp"]))
    return pairs


def _cell(pairs: list[tuple[float, float]]) -> str:
    if not pairs:
        return ""
    log_ratio, difference = np.mean(pairs, axis=0)
    text = f"{np.exp(log_ratio):.3f} / {difference:+.3f} ({len(pairs)})"
    return text.replace("-", "−")
