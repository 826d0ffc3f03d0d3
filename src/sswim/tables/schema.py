"""How the columns of a table become the inputs of a model, in memory and in model files."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Bool, Float64, Int64

from sswim.tables.columns import (
    CYCLES,
    CategoryColumn,
    Column,
    IgnoredColumn,
    LevelMeansColumn,
    NumberColumn,
    SphereColumn,
    TimeColumn,
)
from sswim.tables.table import TableError, quote_names, require_columns
from sswim.tables.values import NUMBER_FORMATS, TIME_FORMATS


@dataclass(frozen=True)
class Schema:
    """The columns that a model was trained on, and how they become numbers."""

    target: str
    """Name of the target column; empty if the targets did not come from a table."""
    columns: tuple[Column, ...]
    """The columns, in the order in which they were given."""
    sphere: SphereColumn | None = None
    """How two of the columns become a point on the sphere, if they do."""
    crs: str = ""
    """Coordinate reference system of the points of ``fit`` as well-known text, if they had one."""

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return [column.name for column in self.columns]

    @property
    def used(self) -> list[str]:
        """Names of the columns that a row must have."""
        return [column.name for column in self.columns if column.kind != "ignored"]

    def require_target(self) -> str:
        """Return the name of the target column; raise an error if the model does not know it."""
        if not self.target:
            raise TableError(
                "The model must know the name of its target column. This one was fitted to inputs "
                'and targets apart; fit it to a table that has both, as in fit(frame, "price").'
            )
        return self.target

    @property
    def text_names(self) -> list[str]:
        """Names of the columns whose cells in a CSV file count as they are written.

        These are levels, and numbers with groups of thousands: 00123 and 1.234 would become others.
        """
        return [
            column.name
            for column in self.columns
            if column.kind in ("category", "levels")
            or (isinstance(column, NumberColumn) and len(column.text_format) > 1)
        ]

    @property
    def feature_names(self) -> list[str]:
        """Names of the inputs of the model."""
        ours = [name for column in self._inputs for name in column.inputs]
        return [*(self.sphere.inputs if self.sphere else []), *ours]

    @property
    def indicators(self) -> Bool[np.ndarray, " D"]:
        """Whether an input says that a value is missing; such an input is always known."""
        return self._mask(
            lambda column: (
                [False] * (len(column.inputs) - column.has_missing) + [True] * column.has_missing
            )
        )

    @property
    def has_indicator(self) -> Bool[np.ndarray, " D"]:
        """Whether an input is of a column with an input that says that the value is missing.

        The model has then learnt how uncertain such rows are.
        """
        return self._mask(lambda column: [column.has_missing] * len(column.inputs))

    @property
    def level_means(self) -> Bool[np.ndarray, " D"]:
        """Whether an input is the mean target of a level: a row of training has another there."""

        def is_mean(column: Column) -> list[bool]:
            n_means = len(column.other) if isinstance(column, LevelMeansColumn) else 0
            return [True] * n_means + [False] * (len(column.inputs) - n_means)

        return self._mask(is_mean)

    def inputs_of(self, name: str) -> Bool[np.ndarray, " D"]:
        """Return which inputs a column becomes by itself, without mean targets of levels."""
        if name not in self.names:
            raise TableError(
                f"A group must be a column of the fit. Got {name!r}; the columns are "
                f"{quote_names(self.names)}."
            )
        return self._places(name) & ~self.level_means

    def _places(self, name: str) -> Bool[np.ndarray, " D"]:
        return self._mask(lambda column: [column.name == name] * len(column.inputs))

    def _mask(self, flags: Callable[[Column], list[bool]]) -> Bool[np.ndarray, " D"]:
        """Return flags of all inputs; those on the sphere have none."""
        on_sphere = [False] * (len(self.sphere.inputs) if self.sphere else 0)
        return np.array(
            on_sphere + [flag for column in self._inputs for flag in flags(column)], dtype=bool
        )

    @property
    def isotropic(self) -> tuple[tuple[int, ...], ...]:
        """Groups of inputs that share a unit."""
        return ((0, 1, 2),) if self.sphere else ()

    @property
    def _inputs(self) -> list[Column]:
        """The columns that become inputs by themselves."""
        both = () if self.sphere is None else (self.sphere.longitude, self.sphere.latitude)
        return [column for column in self.columns if column.name not in both]

    def encode(
        self,
        table: pa.Table,
        fold_means: Mapping[str, Float64[np.ndarray, "L K T"]] | None = None,
        folds: Int64[np.ndarray, " N"] | None = None,
    ) -> Float64[np.ndarray, "N D"]:
        """Return the inputs of a table, NaN where they are missing.

        The table may have further columns, and any order of them.

        Args:
            table: The rows.
            fold_means: Mean targets of levels without those of each fold, for rows of training.
            folds: The fold of each row of training.
        """
        require_columns(table.schema, self.used)
        blocks = [] if self.sphere is None else [self._on_sphere(table, self.sphere)]
        for column in self._inputs:
            if column.kind == "ignored":
                continue
            values = table.column(column.name)
            if fold_means and isinstance(column, LevelMeansColumn):
                blocks.append(column.encode(values, fold_means[column.name], folds))
            else:
                blocks.append(column.encode(values))
        return np.concatenate([np.empty((table.num_rows, 0)), *blocks], axis=1)

    def with_column_in_order(
        self,
        inputs: Float64[np.ndarray, "N D"],
        table: pa.Table,
        name: str,
        order: Int64[np.ndarray, " N"],
    ) -> Float64[np.ndarray, "N D"]:
        """Return the inputs that rows have if the values of one column are in another order.

        Args:
            inputs: Inputs of the rows, as ``encode`` returns them.
            table: The rows.
            name: Name of the column.
            order: Number of the row that each row has its value from.
        """
        changed = inputs.copy()
        if self.sphere is not None and name in (self.sphere.longitude, self.sphere.latitude):
            place = table.column_names.index(name)
            other = table.set_column(place, name, table.column(name).take(order))
            changed[:, : len(self.sphere.inputs)] = self._on_sphere(other, self.sphere)
        else:
            places = self._places(name)
            changed[:, places] = inputs[order][:, places]
        return changed

    def _on_sphere(self, table: pa.Table, sphere: SphereColumn) -> Float64[np.ndarray, "N 3"]:
        degrees = [
            column.encode(table.column(column.name))[:, 0]
            for name in (sphere.longitude, sphere.latitude)
            for column in self.columns
            if column.name == name
        ]
        return sphere.encode(*degrees)

    def input_variance(self, deviation: Float64[np.ndarray, "N C"]) -> Float64[np.ndarray, "N D"]:
        """Return the variance of the inputs, given the standard deviation of the columns.

        Only numbers may have one, and it counts in their units.
        """
        variance = np.zeros((len(deviation), len(self.feature_names)))
        given = dict(zip(self.names, deviation.T, strict=True))
        place = len(self.sphere.inputs) if self.sphere else 0
        for column in self._inputs:
            if isinstance(column, NumberColumn):
                variance[:, place] = np.square(given.pop(column.name))
            place += len(column.inputs)
        if others := [name for name, values in given.items() if values.any()]:
            raise TableError(
                "X_std must be zero for columns that are not plain numbers. Got "
                f"{quote_names(others)}."
            )
        return variance


_KINDS: dict[str, type] = {
    column.kind: column
    for column in (NumberColumn, TimeColumn, CategoryColumn, LevelMeansColumn, IgnoredColumn)
}


def schema_to_dict(schema: Schema) -> dict[str, Any]:
    """Return a dictionary that JSON can hold and ``schema_from_dict`` reads."""
    columns = [{"kind": column.kind, **_plain(column)} for column in schema.columns]
    sphere = None if schema.sphere is None else _plain(schema.sphere)
    return {"target": schema.target, "columns": columns, "sphere": sphere, "crs": schema.crs}


def schema_from_dict(content: Any) -> Schema:
    """Check and read a dictionary that ``schema_to_dict`` returned."""
    match content:
        case {
            "target": str(target),
            "columns": [_, *_] as entries,
            "sphere": sphere,
            "crs": str(crs),
        }:
            columns = tuple(_column(entry) for entry in entries)
            names = [*([target] if target else []), *(column.name for column in columns)]
            if len({*names}) == len(names):
                return Schema(target, columns, _sphere(sphere, columns), crs)
    raise _inconsistent(
        "A schema must have a target and at least one column, all of different names", content
    )


def _plain(record: Any) -> dict[str, Any]:
    """Return the fields of a dataclass with lists for tuples."""
    return {name: _listed(value) for name, value in asdict(record).items()}


def _listed(value: Any) -> Any:
    return [_listed(item) for item in value] if isinstance(value, tuple | list) else value


def _tupled(value: Any) -> Any:
    return tuple(_tupled(item) for item in value) if isinstance(value, list) else value


def _column(content: Any) -> Column:
    rule = "A column of a schema must have a known kind and the fields of that kind"
    kind = _KINDS.get(str(content.get("kind"))) if isinstance(content, dict) else None
    if kind is None:
        raise _inconsistent(rule, content)
    given = {name: _tupled(value) for name, value in content.items() if name != "kind"}
    if {entry.name for entry in fields(kind)} != set(given):
        raise _inconsistent(rule, content)
    if isinstance(given.get("shown"), dict):
        given["shown"] = _column({"kind": CategoryColumn.kind, **given["shown"]})
    for name, value in given.items():
        if not _CHECKS[name](value):
            raise _inconsistent(f"The field {name!r} of a column is not right", content)
    column = kind(**given)
    if isinstance(column, LevelMeansColumn):
        n_targets = len(column.other)
        rows = [*column.means, column.missing]
        if len(column.means) != len(column.levels) or {len(row) for row in rows} != {n_targets}:
            raise _inconsistent("A column of levels must have a mean for every level", content)
    if isinstance(column, CategoryColumn) and not column.levels:
        raise _inconsistent("A category must have levels", content)
    formats = TIME_FORMATS if isinstance(column, TimeColumn) else NUMBER_FORMATS
    if getattr(column, "text_format", "") not in ("", *formats):
        raise _inconsistent("A column of text must have a format of its kind", content)
    return column


def _sphere(content: Any, columns: Sequence[Column]) -> SphereColumn | None:
    if content is None:
        return None
    names = {column.name for column in columns if isinstance(column, NumberColumn)}
    match content:
        case {"longitude": str(longitude), "latitude": str(latitude), "centre": [east, north]}:
            if {longitude, latitude} <= names and _is_number(east) and _is_number(north):
                return SphereColumn(longitude, latitude, (float(east), float(north)))
    raise _inconsistent("Coordinates must be two columns of numbers and a centre", content)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_zone(value: Any) -> bool:
    if not isinstance(value, str):
        return False
    try:
        if value:
            pc.local_timestamp(pa.array([0], pa.timestamp("s", value)))
    except (pa.ArrowException, ValueError):
        return False
    return True


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _are_levels(value: Any) -> bool:
    return isinstance(value, tuple) and all(map(_is_text, value)) and len({*value}) == len(value)


def _are_cycles(value: Any) -> bool:
    return _are_levels(value) and {*value} <= {*CYCLES}


def _are_numbers(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) > 0 and all(map(_is_number, value))


_CHECKS: dict[str, Callable[[Any], bool]] = {
    "name": _is_text,
    "reason": _is_text,
    "zone": _is_zone,
    "has_missing": _is_flag,
    "has_other": _is_flag,
    "is_time_of_day": _is_flag,
    "levels": _are_levels,
    "markers": _are_levels,
    "cycles": _are_cycles,
    "text_format": _is_text,
    "means": lambda value: isinstance(value, tuple) and all(map(_are_numbers, value)),
    "other": _are_numbers,
    "missing": _are_numbers,
    "shown": lambda value: value is None or isinstance(value, CategoryColumn),
}


def _inconsistent(rule: str, content: Any) -> TableError:
    return TableError(f"{rule}. Got {reprlib.repr(content)}.")
