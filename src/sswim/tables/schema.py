"""How the columns of a table become the inputs and the targets of a model."""

from __future__ import annotations

import reprlib
import shlex
import warnings
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Float64

from sswim.tables.categories import TextValues, as_text
from sswim.tables.missing_values import require_complete
from sswim.tables.table_io import TableError, quote_names, require_columns, without_string_view

Kind = Literal["number", "time", "category"]
KIND_WORDS: dict[Kind, str] = {"number": "numbers", "time": "dates or times", "category": "text"}


class UnknownCategoryWarning(UserWarning):
    """A category that the model has not learnt."""


@dataclass(frozen=True)
class Column:
    """An input column.

    A number stays as it is, a time becomes seconds since 1970-01-01 UTC, and a category becomes one
    indicator, 0 or 1, per category.
    """

    name: str
    kind: Kind
    categories: tuple[str, ...] = ()

    @property
    def feature_names(self) -> list[str]:
        """Names of the matrix columns that this column becomes."""
        names = [f"{self.name}={category}" for category in self.categories]
        return names if self.kind == "category" else [self.name]


@dataclass(frozen=True)
class Schema:
    """The columns that a model was trained on, and how they become numbers."""

    target: str
    columns: tuple[Column, ...]

    @classmethod
    def learn(cls, table: pa.Table, target: str, drop: Collection[str] = ()) -> Schema:
        """Make every column an input, except the target and the dropped ones."""
        names = input_names(table.schema, target, drop)
        texts = {
            name: TextValues.of(table.column(name)) for name in text_names(table.schema, names)
        }
        return cls(target, learn_columns(table.schema, names, texts))

    @property
    def feature_names(self) -> list[str]:
        """Names of the columns of the encoded matrix."""
        return [name for column in self.columns for name in column.feature_names]

    def encode(self, table: pa.Table) -> Float64[np.ndarray, "N D"]:
        """Return the inputs of a table, which may have further columns and any order of them."""
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
        """Return the targets of a table."""
        require_complete(table, [self.target])
        _require_kind(table.schema, self.target, "number")
        return _numbers(self.target, table.column(self.target))

    def to_dict(self) -> dict[str, Any]:
        """Return a dictionary that JSON can hold and ``from_dict`` reads."""
        columns = [asdict(column) | {"categories": [*column.categories]} for column in self.columns]
        return {"target": self.target, "columns": columns}

    @classmethod
    def from_dict(cls, content: Any) -> Schema:
        """Check and read a dictionary that ``to_dict`` returned."""
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
    """Return the names of all columns except the target and the dropped ones."""
    require_columns(schema, [target, *drop])
    _require_kind(schema, target, "number")
    if target in drop:
        raise TableError(f"The target must not be dropped. Got {target!r} for both.")
    names = [name for name in schema.names if name != target and name not in drop]
    if not names:
        raise TableError(
            f"At least one input column must remain. Got a table with {quote_names(schema.names)}, "
            f"without the target {target!r} and the dropped columns."
        )
    return names


def text_names(schema: pa.Schema, names: Iterable[str]) -> list[str]:
    """Return the names of the columns that hold text, whose categories must be learnt."""
    return [name for name in names if kind_of(schema.field(name).type) == "category"]


def learn_columns(
    schema: pa.Schema, names: Iterable[str], texts: Mapping[str, TextValues]
) -> tuple[Column, ...]:
    """Return the input columns; raise one error about all columns that cannot be inputs.

    Args:
        schema: Columns of the table.
        names: Columns to use.
        texts: Distinct texts of the text columns.
    """
    columns, problems = [], []
    for name in names:
        try:
            columns.append(_learn_column(schema.field(name), texts.get(name, TextValues())))
        except TableError as error:
            problems.append(str(error))
    if problems:
        raise TableError("\n".join(problems))
    return tuple(columns)


def kind_of(dtype: pa.DataType) -> Kind | None:
    """Return the kind of column that an Arrow type makes, or None if it cannot be an input."""
    types = pa.types
    if types.is_integer(dtype) or types.is_floating(dtype):
        return "number"
    if types.is_boolean(dtype) or types.is_decimal(dtype):
        return "number"
    if types.is_date(dtype) or types.is_timestamp(dtype):
        return "time"
    dtype = without_string_view(dtype.value_type if types.is_dictionary(dtype) else dtype)
    return "category" if types.is_string(dtype) or types.is_large_string(dtype) else None


def _learn_column(field: pa.Field, texts: TextValues) -> Column:
    got = f"Got column {field.name!r} of type {field.type}"
    advice = f"leave it out with --drop {shlex.quote(field.name)}."
    kind = kind_of(field.type)
    if kind is None:
        raise TableError(f"An input must be a number, a date, a time or text. {got}; {advice}")
    if kind != "category":
        return Column(field.name, kind)
    return Column(field.name, kind, texts.categories(got, advice))


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
    """Write a column's values into its columns of the matrix, which are zero so far."""
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
                f"Column {column.name!r} has categories that the model has not learnt in "
                f"{(~known).sum()} rows: {unknown}. All its indicators are zero there.",
                UnknownCategoryWarning,
                stacklevel=3,
            )


def _numbers(name: str, values: pa.ChunkedArray) -> Float64[np.ndarray, " N"]:
    # safe=False rounds integers beyond 2**53. The copy is writable; Arrow's memory is not.
    numbers = np.array(values.cast(pa.float64(), safe=False).to_numpy())
    if n_infinite := int(np.isinf(numbers).sum()):
        raise TableError(
            f"Numbers must be finite. Got {n_infinite} infinite values in column {name!r}; "
            "correct or remove these rows first."
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
