"""Random small tables for the fuzz tests: each is a handful of choices and a seed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from hypothesis import strategies as st

Array = np.ndarray[Any, Any]

NUMBERS = ("normal", "uniform", "integers", "skewed", "levels", "constant", "wild", "with gaps")
"""Kinds of columns that arrays have."""
OTHERS = ("text", "many texts", "category", "boolean", "time", "missing text", "nothing")
"""Kinds of columns that only frames have."""
TARGETS = ("signal", "noise", "constant", "steps", "skewed", "wild", "almost constant")
WEIGHTS = ("none", "equal", "counts", "shares", "some zero", "unlike", "one")
DEVIATIONS = ("none", "zero", "number", "columns", "cells", "wide")


@dataclass(frozen=True)
class Table:
    """The choices that make a table, and the seed of its numbers."""

    seed: int = 0
    n_rows: int = 12
    columns: tuple[str, ...] = ("normal",)
    units: tuple[int, ...] = (0,)
    """Powers of ten of the columns, used in turn."""
    targets: tuple[str, ...] = ("signal",)
    target_unit: int = 0
    """Power of ten of the targets."""
    offset: float = 0.0
    """Mean of the targets, in their unit."""
    flat: bool = True
    """Whether a single target is an array of one axis."""
    n_copies: int = 0
    """Number of rows that occur a second time."""
    n_repeats: int = 0
    """Number of rows that occur a second time with another target."""
    weights: str = "none"
    deviations: str = "none"
    frame: bool = False

    def rows(self, n_rows: int | None = None, seed: int = 0) -> Any:
        """Return the inputs of the table, or of new rows like them."""
        random = np.random.default_rng([self.seed, seed, 0])
        n_rows = self.n_rows if n_rows is None else n_rows
        units = [10.0 ** self.units[n % len(self.units)] for n in range(len(self.columns))]
        values = [
            _column(kind, unit, n_rows, random)
            for kind, unit in zip(self.columns, units, strict=True)
        ]
        if self.frame:
            frame = pd.DataFrame({f"c{n}": each for n, each in enumerate(values)})
            return frame.iloc[self._places()] if seed == 0 else frame
        array = np.stack(values, axis=1).astype(np.float64)
        return array[self._places()] if seed == 0 else array

    def y(self) -> Array:
        """Return the targets."""
        random = np.random.default_rng([self.seed, 0, 1])
        first = self.rows()
        first = first.iloc[:, 0] if self.frame else first[:, 0]
        signal = np.asarray(pd.factorize(pd.Series(np.asarray(first)))[0], dtype=np.float64)
        signal = np.sin(3 * signal / max(self.n_rows, 1))
        n_rows = len(signal)
        y = np.stack([_targets(kind, signal, random) for kind in self.targets], axis=1)
        if self.n_copies:  # their targets are equal as well
            y[self.n_rows : self.n_rows + self.n_copies] = y[: self.n_copies]
        y = 10.0**self.target_unit * (self.offset + y)
        assert y.shape == (n_rows, len(self.targets))
        return y[:, 0] if self.flat and len(self.targets) == 1 else y

    def options(self) -> dict[str, Any]:
        """Return the other arguments of ``fit``."""
        random = np.random.default_rng([self.seed, 0, 2])
        n_rows, n_columns = len(self._places()), len(self.columns)
        weights: dict[str, Any] = {
            "none": None,
            "equal": np.full(n_rows, 0.1),
            "counts": random.integers(1, 5, n_rows),
            "shares": random.uniform(0.1, 2, n_rows),
            "some zero": random.integers(0, 2, n_rows),
            "unlike": 10.0 ** random.uniform(-40, 40, n_rows),
            "one": np.eye(n_rows)[0],
        }
        unit = 10.0 ** self.units[0]
        deviations: dict[str, Any] = {
            "none": None,
            "zero": 0.0,
            "number": 0.1 * unit,
            "columns": unit * random.uniform(0, 1, n_columns),
            "cells": unit * random.uniform(0, 1, (n_rows, n_columns)),
            "wide": 1e8 * unit,
        }
        found = {"sample_weight": weights[self.weights], "X_std": deviations[self.deviations]}
        return {name: each for name, each in found.items() if each is not None}

    def _places(self) -> list[int]:
        rows = list(range(self.n_rows))
        return rows + rows[: self.n_copies] + rows[: self.n_repeats]


def _column(kind: str, unit: float, n_rows: int, random: np.random.Generator) -> Any:
    """Return the values of a column."""
    normal = random.normal(size=n_rows)
    integers = random.integers(0, 5, n_rows)
    is_missing = random.uniform(size=n_rows) < 0.3
    wild = normal.copy()
    wild[: n_rows // 6 + 1] = 1e12
    columns: dict[str, Any] = {
        "normal": unit * normal,
        "uniform": unit * (5 + random.uniform(size=n_rows)),
        "integers": integers,
        "skewed": unit * np.exp(3 * normal),
        "levels": unit * integers,
        "constant": np.full(n_rows, unit),
        "wild": unit * wild,
        "with gaps": np.where(is_missing, np.nan, unit * normal),
        "text": np.array(["a", "b", "c", "d", "e"], dtype=object)[integers],
        "many texts": np.array([f"t{each}" for each in random.integers(0, 80, n_rows)], object),
        "category": pd.Categorical.from_codes(integers, categories=["v", "w", "x", "y", "z"]),
        "boolean": integers > 2,
        "time": np.datetime64("2021-03-28T00:00:00", "us") + 86_400_000_000 * integers,
        "missing text": np.array(["a", "b", None], object)[np.where(is_missing, 2, integers % 2)],
        "nothing": np.full(n_rows, np.nan),
    }
    return columns[kind]


def _targets(kind: str, signal: Array, random: np.random.Generator) -> Array:
    """Return targets of unit size."""
    noise = random.normal(size=len(signal))
    wild = noise.copy()
    wild[:1] = 1e9
    columns = {
        "signal": signal + 0.1 * noise,
        "noise": noise,
        "constant": np.ones(len(signal)),
        "steps": np.rint(2 * signal + 0.3 * noise),
        "skewed": np.exp(2 * signal + noise),
        "wild": wild,
        "almost constant": 1 + 1e-13 * noise,
    }
    return columns[kind]


UNITS = (0, 0, 0, -3, 6, -12, 20, -100, 150, -200, 200)
"""Powers of ten of columns; most columns are of moderate size."""

MOST_ROWS = 60
"""Largest number of rows, before copies."""

_SEEDS = st.integers(0, 2**32 - 1)


def tables(*, plain: bool = False) -> st.SearchStrategy[Table]:
    """Return a strategy of tables.

    Args:
        plain: Whether they are arrays without gaps, wild values and extreme units.
    """
    wild = () if plain else ("wild", "with gaps")
    kinds = [kind for kind in NUMBERS if kind not in ("wild", "with gaps")] + list(wild)
    drawn = st.builds(
        Table,
        seed=_SEEDS,
        n_rows=st.sampled_from((8, *range(3 if plain else 1, MOST_ROWS + 1))),
        columns=st.lists(st.sampled_from(kinds), min_size=1, max_size=5).map(tuple),
        units=st.just((0,)) if plain else st.lists(st.sampled_from(UNITS), min_size=1).map(tuple),
        targets=st.lists(
            st.sampled_from(TARGETS[:2] if plain else TARGETS), min_size=1, max_size=2
        ).map(tuple),
        target_unit=st.just(0) if plain else st.sampled_from(UNITS),
        offset=st.sampled_from([0.0, 1.0, -1e6]),
        flat=st.booleans(),
        n_copies=st.just(0) if plain else st.integers(0, 6),
        n_repeats=st.just(0) if plain else st.integers(0, 6),
        weights=st.just("none") if plain else st.sampled_from(WEIGHTS),
        deviations=st.just("none") if plain else st.sampled_from(DEVIATIONS),
    )
    return drawn.map(_within_its_rows)


def frames() -> st.SearchStrategy[Table]:
    """Return a strategy of data frames with columns that are not numbers."""
    columns = st.lists(st.sampled_from(NUMBERS + OTHERS * 2), min_size=1, max_size=5).map(tuple)
    drawn = st.tuples(tables(), columns)
    # Only plain numbers have a standard deviation.
    return drawn.map(lambda both: replace(both[0], columns=both[1], frame=True, deviations="none"))


def _within_its_rows(table: Table) -> Table:
    """Return a table that has no more copies than rows."""
    n_rows = table.n_rows
    return replace(
        table, n_copies=min(table.n_copies, n_rows), n_repeats=min(table.n_repeats, n_rows)
    )
