"""A schema as a dictionary that JSON can hold, and back, with checks."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, fields
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sswim.tables.columns import (
    CYCLES,
    CategoryColumn,
    Column,
    IgnoredColumn,
    NumberColumn,
    TimeColumn,
)
from sswim.tables.schema import Schema
from sswim.tables.sphere_column import SphereColumn
from sswim.tables.table_io import TableError
from sswim.tables.target_encoding import LevelMeansColumn
from sswim.tables.text_formats import NUMBER_FORMATS, TIME_FORMATS

_KINDS: dict[str, type] = {
    each.kind: each
    for each in (NumberColumn, TimeColumn, CategoryColumn, LevelMeansColumn, IgnoredColumn)
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
    return [_listed(each) for each in value] if isinstance(value, tuple | list) else value


def _tupled(value: Any) -> Any:
    return tuple(_tupled(each) for each in value) if isinstance(value, list) else value


def _column(content: Any) -> Column:
    rule = "A column of a schema must have a known kind and the fields of that kind"
    kind = _KINDS.get(str(content.get("kind"))) if isinstance(content, dict) else None
    if kind is None:
        raise _inconsistent(rule, content)
    given = {name: _tupled(value) for name, value in content.items() if name != "kind"}
    if {each.name for each in fields(kind)} != set(given):
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
