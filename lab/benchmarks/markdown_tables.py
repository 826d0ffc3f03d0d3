"""Shared by the scripts: lines and cells of tables in Markdown."""

from __future__ import annotations

from collections.abc import Iterable


def table_line(cells: Iterable[str]) -> str:
    """Return one line of a table."""
    return f"| {' | '.join(cells)} |"


def scores_cell(rmse: float, mnlp: float) -> str:
    """Return a cell with an RMSE and an MNLP, with true minus signs."""
    return f"{rmse:.3f} / {mnlp:.3f}".replace("-", "−")
