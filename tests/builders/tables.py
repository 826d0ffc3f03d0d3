"""Tables that more than one test reads."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sswim.distributed.processes import Processes, Share
from sswim.tables import (
    ChunkedTable,
    LearntSchema,
    TableChunk,
    TableError,
    TargetedRows,
    input_names,
    learn_schema,
    split_rows,
    target_numbers,
)
from sswim.tables import table as chunked_table


def houses() -> pa.Table:
    return pa.table(
        {
            "price": [1.5, 2.5, 3.5, 4.5],
            "rooms": [1, 2, 3, 4],
            "town": ["York", "Bath", "York", "Ely, the city"],
            "sold": pa.array([18262, 18263, 18262, 18262], pa.date32()),
            "new": [True, False, True, False],
        }
    )


def pieces_of(
    table: pa.Table, target: str = "y", drop: Collection[str] = (), n_rows: int = 50
) -> Iterator[TargetedRows]:
    """Cut a table into pieces of some rows."""
    names = input_names(table.schema, target, drop)
    numbers = np.arange(table.num_rows)
    for first, part in zip(range(0, len(numbers), n_rows), split_rows(table, n_rows), strict=True):
        targets = target_numbers(part, target)[:, None]
        yield TargetedRows(numbers[first : first + n_rows], part.select(names), targets)


def learn(
    table: pa.Table, target: str = "y", drop: Collection[str] = (), **options: Any
) -> LearntSchema:
    """Learn the schema of a table in memory."""
    columns = pa.schema(map(table.schema.field, input_names(table.schema, target, drop)))
    return learn_schema(lambda: pieces_of(table, target, drop), columns, target, **options)


class Sent(Exception):  # noqa: N818 (it ends a simulated process, which would wait for others)
    """A simulated process has sent its findings."""


def learn_together(
    parts: Sequence[Callable[[], Iterator[TargetedRows]]], columns: pa.Schema, target: str = "y"
) -> LearntSchema:
    """Return what one process for each part of the rows learns, which must be the same in all."""
    sent: list[bytes] = []

    class Sender(Processes):
        def all_gather(self, value: Any) -> Any:
            sent.append(pickle.dumps(value))  # as it travels to another process
            raise Sent

    class Receiver(Processes):
        def all_gather(self, value: Any) -> Any:
            return [pickle.loads(findings) for findings in sent]

    results: list[LearntSchema | str] = []
    for rank, pieces in enumerate(parts):
        with pytest.raises(Sent):
            learn_schema(pieces, columns, target, processes=Sender(rank, len(parts) + 1))
    for rank, pieces in enumerate(parts):
        processes = Receiver(rank, len(parts) + 1)
        try:
            results.append(learn_schema(pieces, columns, target, processes=processes))
        except TableError as error:
            results.append(str(error))
    first = results[0]
    if isinstance(first, str):
        assert results == [first] * len(parts)
        raise TableError(first)
    for other in results[1:]:
        assert isinstance(other, LearntSchema)
        assert (other.schema, other.notes) == (first.schema, first.notes)
        assert np.array_equal(other.imputer.correlation, first.imputer.correlation)
    return first


def dictionary(values: list[str | None], dtype: Any) -> pa.Array:
    return pa.array(values).cast(pa.dictionary(pa.int32(), dtype))


def views(values: list[str], indices: list[int]) -> pa.Array:
    """Return a column as Polars writes a Categorical."""
    return pa.DictionaryArray.from_arrays(
        pa.array(indices, pa.uint32()), pa.array(values, pa.string_view())
    )


def shares(size: int) -> Iterator[Share]:
    return (Share(rank, size) for rank in range(size))


def small_chunks(monkeypatch: pytest.MonkeyPatch, n_rows: int) -> None:
    monkeypatch.setattr(chunked_table, "CHUNK_ROWS", n_rows)


def mixed(n_rows: int) -> pa.Table:
    """Return a table of numbers, text, dates and a target."""
    rng = np.random.default_rng(n_rows)
    number = np.arange(n_rows)
    return pa.table(
        {
            "y": rng.normal(size=n_rows),
            "n": number,
            "f": (rng.integers(-40, 40, n_rows) / 8).astype(np.float32),
            "town": [["York", "Bath", "Ely, the city"][i] for i in rng.integers(3, size=n_rows)],
            "day": pa.array(rng.integers(0, 30_000, n_rows), pa.int32()).cast(pa.date32()),
            "new": pa.array(rng.integers(2, size=n_rows) == 1),
        }
    )


def with_gaps(table: pa.Table) -> pa.Table:
    """Return the table without every third town, every fourth f and some targets."""
    number = np.arange(table.num_rows)
    for name, gap in {"town": number % 3 == 1, "f": number % 4 == 2, "y": number % 7 == 6}.items():
        values = pa.array(table[name].to_pylist(), table[name].type, mask=gap)
        table = table.set_column(table.column_names.index(name), name, values)
    return table


def gaps() -> pa.Table:
    """Return a table with missing values of several types."""
    return pa.table(
        {
            "f": [1.0, np.nan, None, 4.0],
            "i": [1, 2, 3, None],
            "s": ["a", "b", None, "a"],
            "d": dictionary(["a", None, "b", "b"], pa.string()),
            "n": pa.nulls(4),
            "y": [1.0, 2.0, 3.0, 4.0],
        }
    )


def rows_of(table: ChunkedTable, columns: Sequence[str], share: Share) -> dict[int, dict[str, Any]]:
    """Return the rows of a share by their numbers, each once and in order."""
    found: dict[int, dict[str, Any]] = {}
    for chunk in table.chunks(columns, share):
        assert isinstance(chunk, TableChunk)
        assert 0 < chunk.table.num_rows <= chunked_table.CHUNK_ROWS
        assert chunk.table.column_names == list(columns)
        assert chunk.first > max(found, default=-1)
        found |= dict(enumerate(chunk.table.to_pylist(), start=chunk.first))
    return found


def all_rows(table: ChunkedTable, columns: Sequence[str], size: int) -> list[dict[str, Any]]:
    """Return the rows of ``size`` shares together, which must be every row once."""
    found: dict[int, dict[str, Any]] = {}
    for share in shares(size):
        rows = rows_of(table, columns, share)
        assert not rows.keys() & found.keys()
        assert rows == rows_of(table, columns, share)  # the same when read again
        found |= rows
    assert sorted(found) == list(range(len(found)))
    return [found[number] for number in range(len(found))]
