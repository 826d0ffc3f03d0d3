"""How the columns of a table become the inputs and the targets of a model."""

from __future__ import annotations

import difflib
import reprlib
import shlex
import warnings
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Bool, Float64

from sswim.tables import TableError, listed, without_view, without_views

Kind = Literal["number", "time", "category"]
MAX_CATEGORIES = 1000
IDENTIFIER_ROWS = 20
"""Beyond so many rows, a column of texts of which none comes twice is an identifier."""


class UnknownCategoryWarning(UserWarning):
    """A category that the model has not learned."""


@dataclass(frozen=True)
class Column:
    """An input column.

    A number stays what it is, a time becomes seconds since 1970-01-01 UTC, and each category
    becomes an indicator.
    """

    name: str
    kind: Kind
    categories: tuple[str, ...] = ()

    @property
    def feature_names(self) -> list[str]:
        """Names of the columns of the matrix that this column becomes."""
        names = [f"{self.name}={category}" for category in self.categories]
        return names if self.kind == "category" else [self.name]


@dataclass(frozen=True)
class Schema:
    """Which columns a model was trained on, and how they were turned into numbers."""

    target: str
    columns: tuple[Column, ...]

    @classmethod
    def learn(cls, table: pa.Table, target: str, drop: Collection[str] = ()) -> Schema:
        """Take every column but the target and the dropped ones for an input."""
        _require_columns(table, [target, *drop])
        _require_kind(table, target, "number")
        if target in drop:
            raise TableError(f"The target must not be dropped. Got {target!r} for both.")
        columns, refusals = [], []
        for name in table.column_names:
            if name != target and name not in drop:
                try:
                    columns.append(_learn_column(name, table.column(name)))
                except TableError as error:  # Tell of all at once, not of one per attempt.
                    refusals.append(str(error))
        if refusals:
            raise TableError("\n".join(refusals))
        if not columns:
            raise TableError(
                "At least one input column must remain. Got a table with "
                f"{listed(table.column_names)}, less the target {target!r} and what is dropped."
            )
        return cls(target, tuple(columns))

    @property
    def feature_names(self) -> list[str]:
        """Names of the columns of the encoded matrix."""
        return [name for column in self.columns for name in column.feature_names]

    def encode(self, table: pa.Table) -> Float64[np.ndarray, "N D"]:
        """The inputs of a table, whose columns may come in any order and among others."""
        require_complete(table, [column.name for column in self.columns])
        matrix = np.zeros((table.num_rows, len(self.feature_names)))
        start = 0
        for column in self.columns:
            _require_kind(table, column.name, column.kind)
            stop = start + len(column.feature_names)
            _fill(matrix[:, start:stop], column, table.column(column.name))
            start = stop
        return matrix

    def targets(self, table: pa.Table) -> Float64[np.ndarray, " N"]:
        """The targets of a table."""
        require_complete(table, [self.target])
        _require_kind(table, self.target, "number")
        return _numbers(self.target, table.column(self.target))

    def to_dict(self) -> dict[str, Any]:
        """What JSON can hold, and ``from_dict`` takes back."""
        columns = [asdict(column) | {"categories": [*column.categories]} for column in self.columns]
        return {"target": self.target, "columns": columns}

    @classmethod
    def from_dict(cls, content: Any) -> Schema:
        """Check and take back what ``to_dict`` gave."""
        match content:
            case {"target": str(target), "columns": [_, *_] as entries}:
                columns = tuple(_column_from_dict(entry) for entry in entries)
                if len({target, *(column.name for column in columns)}) == 1 + len(columns):
                    return cls(target, columns)
        raise TableError(
            "A schema must have a target and at least one column, all of different names. "
            f"Got {reprlib.repr(content)}."
        )


def missing_counts(table: pa.Table, names: Collection[str]) -> dict[str, int]:
    """How many values are null or NaN, for the columns that have any."""
    _require_columns(table, names)
    counts = {name: int(_missing(table, name).sum()) for name in names}
    return {name: count for name, count in counts.items() if count}


def require_complete(table: pa.Table, names: Collection[str]) -> None:
    """Refuse missing values in any of the columns."""
    if counts := missing_counts(table, names):
        raise TableError(
            "Every row must have a value in each column that is used. Got missing values in "
            f"{_gaps(counts)}; fill them in, or leave such rows out with --drop-missing."
        )


def drop_missing(
    table: pa.Table, names: Collection[str]
) -> tuple[pa.Table, Bool[np.ndarray, " N"]]:
    """The rows that have a value in every one of the columns, and the mask of these rows."""
    counts = missing_counts(table, names)
    kept = np.ones(table.num_rows, dtype=bool)
    for name in counts:
        kept &= ~_missing(table, name)
    if not kept.any():
        raise TableError(
            f"At least one row must be complete. Got missing values in {_gaps(counts)}, in all "
            "of the rows together; leave out the emptiest of these columns with --drop."
        )
    try:
        return without_views(table).filter(pa.array(kept)), kept
    except pa.ArrowNotImplementedError as error:  # Polars's text, inside lists.
        raise TableError(f"Rows of this table cannot be left out: {error}") from error


def _kind(dtype: pa.DataType) -> Kind | None:
    types = pa.types
    if types.is_integer(dtype) or types.is_floating(dtype):
        return "number"
    if types.is_boolean(dtype) or types.is_decimal(dtype):
        return "number"
    if types.is_date(dtype) or types.is_timestamp(dtype):
        return "time"
    dtype = without_view(dtype.value_type if types.is_dictionary(dtype) else dtype)
    return "category" if types.is_string(dtype) or types.is_large_string(dtype) else None


def _learn_column(name: str, values: pa.ChunkedArray) -> Column:
    got = f"Got column {name!r} of type {values.type}"
    advice = f"leave it out with --drop {shlex.quote(name)}."
    kind = _kind(values.type)
    if kind is None:
        raise TableError(f"An input must be a number, a date, a time or text. {got}; {advice}")
    if kind != "category":
        return Column(name, kind)
    text = _text(values).drop_null()
    categories = text.unique().to_pylist()
    if not categories:
        raise TableError(f"An input must have values. {got} without any; {advice}")
    if len(categories) > MAX_CATEGORIES or len(categories) == len(text) > IDENTIFIER_ROWS:
        raise TableError(
            f"A text column must have at most {MAX_CATEGORIES} different values, and not another "
            f"in every row. {got} with {len(categories)} in {len(text)} rows; {advice}"
        )
    return Column(name, kind, tuple(sorted(categories)))


def _column_from_dict(content: Any) -> Column:
    match content:
        case {"name": str(name), "kind": "number" | "time" as kind, "categories": []}:
            return Column(name, kind)
        case {"name": str(name), "kind": "category", "categories": [_, *_] as categories}:
            if len({text for text in categories if isinstance(text, str)}) == len(categories):
                return Column(name, "category", tuple(categories))
    raise TableError(
        "A column of a schema must have a name, a kind and, if it is a category, different "
        f"categories. Got {reprlib.repr(content)}."
    )


def _fill(out: Float64[np.ndarray, "N d"], column: Column, values: pa.ChunkedArray) -> None:
    """Write a column's values into its part of the matrix, which is zero so far."""
    if column.kind == "number":
        out[:, 0] = _numbers(column.name, values)
    elif column.kind == "time":
        out[:, 0] = _seconds(values)
    else:
        text = _text(values)
        codes = pc.index_in(text, value_set=pa.array(column.categories, pa.large_string()))
        known = codes.is_valid().to_numpy()
        out[known, codes.drop_null().to_numpy()] = 1.0
        if not known.all():
            unknown = listed(text.filter(codes.is_null()).unique().to_pylist())
            warnings.warn(
                f"Column {column.name!r} has categories that the model has not learned in "
                f"{(~known).sum()} rows: {unknown}. All its indicators are zero there.",
                UnknownCategoryWarning,
                stacklevel=3,
            )


def _numbers(name: str, values: pa.ChunkedArray) -> Float64[np.ndarray, " N"]:
    # Not safe: an integer beyond 2**53 is to be rounded. A copy: Arrow's memory is read-only.
    numbers = np.array(values.cast(pa.float64(), safe=False).to_numpy())
    if n_infinite := int(np.isinf(numbers).sum()):
        raise TableError(
            f"Numbers must be finite. Got {n_infinite} infinite values in column {name!r}; "
            "mend or remove these rows first."
        )
    return numbers


def _seconds(values: pa.ChunkedArray) -> Float64[np.ndarray, " N"]:
    if pa.types.is_date32(values.type):
        return values.cast(pa.int32()).to_numpy() * 86400.0
    unit = "ms" if pa.types.is_date64(values.type) else values.type.unit
    return values.cast(pa.int64()).to_numpy() / {"s": 1e0, "ms": 1e3, "us": 1e6, "ns": 1e9}[unit]


def _text(values: pa.ChunkedArray) -> pa.ChunkedArray:
    return values.cast(without_view(values.type)).cast(pa.large_string())


def _missing(table: pa.Table, name: str) -> Bool[np.ndarray, " N"]:
    return pc.is_null(table.column(name), nan_is_null=True).to_numpy()


def _require_kind(table: pa.Table, name: str, kind: Kind) -> None:
    dtype = table.column(name).type
    if _kind(dtype) != kind:
        expected = {"number": "numbers", "time": "dates or times", "category": "text"}[kind]
        raise TableError(f"Column {name!r} must hold {expected}. Got type {dtype}.")


def _require_columns(table: pa.Table, names: Collection[str]) -> None:
    present = table.column_names
    if absent := [name for name in names if name not in present]:
        folded = {name.casefold(): name for name in present}
        matches = [difflib.get_close_matches(name.casefold(), folded) for name in absent]
        close = [folded[match] for each in matches for match in each]
        # With nothing close, all names: a file with another separator shows itself by them.
        hint = f"close to it: {listed(close)}" if close else f"it has {listed(present)}"
        raise TableError(f"The table must have columns {listed(absent)}. Got none such; {hint}.")


def _gaps(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name!r} ({count} rows)" for name, count in counts.items())
