"""Runs of the benchmark of optimisation, made up or of small problems."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sswim_lab.optimisation.methods import Method, require_libraries
from sswim_lab.optimisation.problems import Problem
from sswim_lab.optimisation.runs import Run


def made_up_run(problem: str, method: str, values: list[float], **others: Any) -> Run:
    """Return a run whose first two values are of first points."""
    settings: dict[str, Any] = {
        "seed": 0,
        "evaluations": len(values),
        "n_first": 2,
        "seconds": tuple(0.5 for _ in values[2:]),
        "settings": {},
        "versions": "sswim 0",
    }
    return Run(problem=problem, method=method, values=tuple(values), **(settings | others))


def fail(x: np.ndarray, values: np.ndarray, seed: int) -> np.ndarray:
    """Suggest the centre, but fail at the seventh point."""
    if len(values) == 6:
        raise RuntimeError("no luck")
    return np.full(x.shape[1], 0.5)


def skip_without_libraries(user: Method | Problem) -> None:
    """Skip a test of a method or a problem whose libraries are not installed."""
    for library in user.libraries:
        if library not in ("torch", "scikit-learn"):
            pytest.importorskip(library, reason=f"{user.name} needs {library}")
    require_libraries(user)
