"""The last part of a report: which model, which rows, and how the page was made."""

from __future__ import annotations

from collections.abc import Mapping

from sswim.base.version import __version__
from sswim.plotting.html_page import Section, Table
from sswim.plotting.page_layout import Card, Details, Grid, Part
from sswim.report.content import Content
from sswim.report.numbers import count

_FEW = 12
"""Number of columns up to which all are listed at once."""


def about_part(content: Content, facts: Mapping[str, str]) -> Part:
    """Return the facts about model and rows, and the columns of the model.

    Args:
        content: The model and its rows.
        facts: What the caller knows besides, such as names of files.
    """
    regressor, rows = content.regressor, content.rows
    used = count(len(rows), "row")
    if len(rows) < rows.n_rows:
        used = f"{len(rows):,} of {count(rows.n_rows, 'row')}, seed {content.random_state}"
    found = {
        **facts,
        "target": rows.target,
        "rows of this report": used,
        "rows of the fit": f"{regressor.n_samples_seen_:,.10g}",
        "rows inside the model": "yes" if regressor.keeps_rows_ else "no",
        "members": str(len(regressor.members_)),
        "training steps": str(regressor.n_iter_),
        "settings": _settings(content),
        "sswim": __version__,
    }
    kinds = tuple((column.name, column.kind) for column in rows.columns)
    cards = (
        Card("Model and rows", (Table(("", ""), tuple(found.items())),)),
        Card("Columns", (_columns(kinds),)),
    )
    return Part("about", "About this report", (Grid(cards),))


def _columns(kinds: tuple[tuple[str, str], ...]) -> Section:
    table = Table(("column", "kind"), kinds)
    return table if len(kinds) <= _FEW else Details(f"All {len(kinds)} columns", (table,))


def _settings(content: Content) -> str:
    """Return the settings that are not those of a new estimator."""
    regressor = content.regressor
    usual = type(regressor)().get_params()
    changed = [
        f"{name}={value!r}"
        for name, value in regressor.get_params().items()
        if name not in ("callback", "verbose") and repr(value) != repr(usual[name])
    ]
    return ", ".join(changed) or "all by default"
