"""How the columns of a table become the inputs of a model, in memory and in model files."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Float64, Int64

from sswim.files.records import from_json, to_json
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
from sswim.tables.values import NUMBER_FORMATS, TIME_FORMATS, is_known_zone


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
            lambda column, place: column.has_missing and place == len(column.inputs) - 1
        )

    @property
    def has_indicator(self) -> Bool[np.ndarray, " D"]:
        """Whether an input is of a column with an input that says that the value is missing.

        The model has then learnt how uncertain such rows are.
        """
        return self._mask(lambda column, _: column.has_missing)

    @property
    def level_means(self) -> Bool[np.ndarray, " D"]:
        """Whether an input is the mean target of a level: a row of training has another there."""
        return self._mask(
            lambda column, place: isinstance(column, LevelMeansColumn) and place < len(column.other)
        )

    def inputs_of(self, name: str) -> Bool[np.ndarray, " D"]:
        """Return which inputs a column becomes by itself, without mean targets of levels."""
        if name not in self.names:
            raise TableError(
                f"A group must be a column of the fit. Got {name!r}; the columns are "
                f"{quote_names(self.names)}."
            )
        return self.places(name) & ~self.level_means

    def places(self, name: str) -> Bool[np.ndarray, " D"]:
        """Return which inputs a column becomes by itself."""
        return self._mask(lambda column, _: column.name == name)

    def _mask(self, is_so: Callable[[Column, int], bool]) -> Bool[np.ndarray, " D"]:
        """Ask each input's column, and its place there; those on the sphere are not so."""
        on_sphere = [False] * (len(self.sphere.inputs) if self.sphere else 0)
        pairs = ((column, place) for column in self._inputs for place in range(len(column.inputs)))
        return np.array([*on_sphere, *(is_so(*pair) for pair in pairs)], dtype=bool)

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
            if fold_means and isinstance(column, LevelMeansColumn):
                means = fold_means[column.name]
                blocks.append(column.encode(table.column(column.name), means, folds))
            elif column.kind != "ignored":
                blocks.append(column.encode(table.column(column.name)))
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
            places = self.places(name)
            changed[:, places] = inputs[order][:, places]
        return changed

    def _on_sphere(self, table: pa.Table, sphere: SphereColumn) -> Float64[np.ndarray, "N 3"]:
        columns = dict(zip(self.names, self.columns, strict=True))
        names = (sphere.longitude, sphere.latitude)
        return sphere.encode(*(columns[name].encode(table.column(name))[:, 0] for name in names))

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


_KINDS: dict[str, type[Any]] = {
    column.kind: column
    for column in (NumberColumn, TimeColumn, CategoryColumn, LevelMeansColumn, IgnoredColumn)
}


@dataclass(frozen=True)
class _StoredSchema:
    """The fields of a schema in JSON, in which each column says its kind."""

    target: str
    columns: list[dict[str, Any]]
    sphere: SphereColumn | None
    crs: str


def schema_to_dict(schema: Schema) -> dict[str, Any]:
    """Return a dictionary that JSON can hold and ``schema_from_dict`` reads."""
    columns = [{"kind": column.kind, **to_json(column)} for column in schema.columns]
    return {**to_json(schema), "columns": columns}


def schema_from_dict(content: Any) -> Schema:
    """Check and read a dictionary that ``schema_to_dict`` returned."""
    stored = from_json(_StoredSchema, content, "a schema")
    columns = tuple(_read_column(entry) for entry in stored.columns)
    names = [*([stored.target] if stored.target else []), *(column.name for column in columns)]
    _require(
        len({*names}) == len(names) and columns,
        "A schema must have a target and at least one column, all of different names",
        names,
    )
    if (sphere := stored.sphere) is not None:
        numbers = {column.name for column in columns if isinstance(column, NumberColumn)}
        rule = "Coordinates must be two columns of numbers and a centre"
        _require({sphere.longitude, sphere.latitude} <= numbers, rule, sphere)
    return Schema(stored.target, columns, stored.sphere, stored.crs)


def _read_column(content: dict[str, Any]) -> Column:
    kind = _KINDS.get(str(content.get("kind")))
    _require(kind is not None, "A column of a schema must have a known kind", content)
    others = {name: value for name, value in content.items() if name != "kind"}
    column: Column = from_json(cast(type[Any], kind), others, "a column of a schema")
    _check_column(column)
    return column


def _check_column(column: Column) -> None:
    """Raise unless the fields of a column fit together."""
    for name in ("levels", "markers", "cycles"):
        texts = getattr(column, name, ())
        _require(len({*texts}) == len(texts), f"The {name} of a column must be different", texts)
    formats: Collection[str] = NUMBER_FORMATS
    if isinstance(column, TimeColumn):
        formats = TIME_FORMATS
        _require({*column.cycles} <= {*CYCLES}, "Cycles of times must be known", column)
        _require(not column.zone or is_known_zone(column.zone), "A time zone must be known", column)
    if isinstance(column, CategoryColumn):
        _require(column.levels, "A category must have levels", column)
    if isinstance(column, LevelMeansColumn):
        sizes = {len(row) for row in (*column.means, column.missing, column.other)}
        fits = len(column.means) == len(column.levels) and len(sizes) == 1 and sizes != {0}
        _require(fits, "A column of levels must have a mean for every level", column)
        if column.shown is not None:
            _check_column(column.shown)
    is_format = getattr(column, "text_format", "") in ("", *formats)
    _require(is_format, "A column of text must have a format of its kind", column)


def _require(holds: Any, rule: str, content: Any) -> None:
    if not holds:
        raise TableError(f"{rule}. Got {reprlib.repr(content)}.")
