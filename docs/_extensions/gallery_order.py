"""The order of the examples in the gallery."""

from __future__ import annotations

FIRST = (
    "first_fit.py",
    "map_with_gaps.py",
    "time_series.py",
    "skewed_targets.py",
    "uncertain_inputs.py",
    "mixed_table.py",
    "conformal_intervals.py",
    "bayesian_optimisation.py",
    "larger_than_memory.py",
    "two_processes.py",
    "paper_figure.py",
)


def order(name: str) -> tuple[int, str]:
    """Return the key that an example is sorted by; those that are not listed come last."""
    return (FIRST.index(name) if name in FIRST else len(FIRST), name)
