"""How the columns of a table become the inputs and the targets of a model."""

from __future__ import annotations

import difflib
import reprlib
import shlex
import warnings
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Bool, Float64

from sswim.tables.categories import Levels, as_text
from sswim.tables.table_io import TableError, quote_names, without_view, without_views

Kind = Literal["number", "time", "category"]
KIND_WORDS: dict[Kind, str] = {"number": "numbers", "time": "dates or times", "category": "text"}


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
        names = input_names(table.schema, target, drop)
        levels = {name: Levels.of(table.column(name)) for name in text_names(table.schema, names)}
        return cls(target, learn_columns(table.schema, names, levels))

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
            _require_kind(table.schema, column.name, column.kind)
            stop = start + len(column.feature_names)
            _fill(matrix[:, start:stop], column, table.column(column.name))
            start = stop
        return matrix

    def targets(self, table: pa.Table) -> Float64[np.ndarray, " N"]:
        """The targets of a table."""
        require_complete(table, [self.target])
        _require_kind(table.schema, self.target, "number")
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


def input_names(schema: pa.Schema, target: str, drop: Collection[str]) -> list[str]:
    """Every column but the target and the dropped ones."""
    require_columns(schema, [target, *drop])
    _require_kind(schema, target, "number")
    if target in drop:
        raise TableError(f"The target must not be dropped. Got {target!r} for both.")
    names = [name for name in schema.names if name != target and name not in drop]
    if not names:
        raise TableError(
            f"At least one input column must remain. Got a table with {quote_names(schema.names)}, "
            f"less the target {target!r} and what is dropped."
        )
    return names


def text_names(schema: pa.Schema, names: Iterable[str]) -> list[str]:
    """Those of the columns that hold text, whose categories are to be learned."""
    return [name for name in names if kind_of(schema.field(name).type) == "category"]


def learn_columns(
    schema: pa.Schema, names: Iterable[str], levels: Mapping[str, Levels]
) -> tuple[Column, ...]:
    """What becomes of each column; those of text have the categories that were found."""
    columns, refusals = [], []
    for name in names:
        try:
            columns.append(_learn_column(schema.field(name), levels.get(name, Levels())))
        except TableError as error:  # Tell of all at once, not of one per attempt.
            refusals.append(str(error))
    if refusals:
        raise TableError("\n".join(refusals))
    return tuple(columns)


def is_missing(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Where values are null or NaN."""
    return pc.is_null(values, nan_is_null=True)


def missing_counts(table: pa.Table, names: Collection[str]) -> dict[str, int]:
    """How many values are null or NaN, for the columns that have any."""
    require_columns(table.schema, names)
    counts = {name: pc.sum(is_missing(table.column(name))).as_py() or 0 for name in names}
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
    kept = complete_rows(table, names)
    require_any_complete(int(kept.sum()), missing_counts(table, names))
    return keep_rows(table, kept), kept


def complete_rows(table: pa.Table, names: Collection[str]) -> Bool[np.ndarray, " N"]:
    """Which of the rows have a value in every one of the columns."""
    kept = np.ones(table.num_rows, dtype=bool)
    for name in missing_counts(table, names):
        kept &= ~is_missing(table.column(name)).to_numpy()
    return kept


def keep_rows(table: pa.Table, kept: Bool[np.ndarray, " N"]) -> pa.Table:
    """Some of the rows."""
    table = without_views(table)
    try:
        return table if kept.all() else table.filter(pa.array(kept))
    except pa.ArrowNotImplementedError as error:  # Polars's text, inside lists.
        raise TableError(f"Rows of this table cannot be left out: {error}") from error


def require_any_complete(n_complete: int, counts: Mapping[str, int]) -> None:
    """Refuse a table of which no row would be left, with so many values missing in its columns."""
    if not n_complete:
        raise TableError(
            f"At least one row must be complete. Got missing values in {_gaps(counts)}, in all "
            "of the rows together; leave out the emptiest of these columns with --drop."
        )


def kind_of(dtype: pa.DataType) -> Kind | None:
    """What a column of a type would be taken for, if anything."""
    types = pa.types
    if types.is_integer(dtype) or types.is_floating(dtype):
        return "number"
    if types.is_boolean(dtype) or types.is_decimal(dtype):
        return "number"
    if types.is_date(dtype) or types.is_timestamp(dtype):
        return "time"
    dtype = without_view(dtype.value_type if types.is_dictionary(dtype) else dtype)
    return "category" if types.is_string(dtype) or types.is_large_string(dtype) else None


def _learn_column(field: pa.Field, levels: Levels) -> Column:
    got = f"Got column {field.name!r} of type {field.type}"
    advice = f"leave it out with --drop {shlex.quote(field.name)}."
    kind = kind_of(field.type)
    if kind is None:
        raise TableError(f"An input must be a number, a date, a time or text. {got}; {advice}")
    if kind != "category":
        return Column(field.name, kind)
    return Column(field.name, kind, levels.categories(got, advice))


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
        text = as_text(values)
        codes = pc.index_in(text, value_set=pa.array(column.categories, pa.large_string()))
        known = codes.is_valid().to_numpy()
        out[known, codes.drop_null().to_numpy()] = 1.0
        if not known.all():
            unknown = quote_names(text.filter(codes.is_null()).unique().to_pylist())
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


def _require_kind(schema: pa.Schema, name: str, kind: Kind) -> None:
    dtype = schema.field(name).type
    if kind_of(dtype) != kind:
        raise TableError(f"Column {name!r} must hold {KIND_WORDS[kind]}. Got type {dtype}.")


def require_columns(schema: pa.Schema, names: Collection[str]) -> None:
    """Refuse a table that lacks any of the columns."""
    present = schema.names
    if absent := [name for name in names if name not in present]:
        folded = {name.casefold(): name for name in present}
        matches = [difflib.get_close_matches(name.casefold(), folded) for name in absent]
        close = [folded[match] for each in matches for match in each]
        # With nothing close, all names: a file with another separator shows itself by them.
        hint = f"close to it: {quote_names(close)}" if close else f"it has {quote_names(present)}"
        raise TableError(
            f"The table must have columns {quote_names(absent)}. Got none such; {hint}."
        )


def _gaps(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name!r} ({count} rows)" for name, count in counts.items())
