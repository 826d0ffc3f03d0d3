"""Numbers as the text of a report."""

from __future__ import annotations

import math

from sswim.estimator.score_intervals import ScoreInterval


def number(value: float, digits: int = 3) -> str:
    """Return a number with a few significant digits, or a dash if it is none."""
    if not math.isfinite(value):
        return "–"
    size = abs(value)
    if size and (size >= 1e7 or size < 1e-4):
        mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
        text = f"{mantissa}e{int(exponent)}"
    else:
        decimals = max(0, digits - 1 - math.floor(math.log10(size))) if size else 0
        text = f"{value:,.{decimals}f}"
    return text.replace("-", "−")


def percent(share: float) -> str:
    """Return a share in percent."""
    return f"{100 * share:.1f}\u00a0%" if math.isfinite(share) else "–"


def interval(found: ScoreInterval) -> str:
    """Return the ends of an interval as text."""
    return f"{number(found.lower)} to {number(found.upper)}"


def percent_interval(found: ScoreInterval) -> str:
    """Return the ends of an interval of shares as text."""
    return f"{100 * found.lower:.1f} to {100 * found.upper:.1f}\u00a0%"


def count(n: int, noun: str) -> str:
    """Return a number of things, such as "1,200 rows"."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"
