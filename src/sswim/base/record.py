"""Frozen records of tensors: what flows between the stages of the method."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from operator import itemgetter
from typing import Any, TypeVar

import torch
from torch import Tensor

RecordT = TypeVar("RecordT", bound="Record")
ResultT = TypeVar("ResultT", bound="Record")


@dataclasses.dataclass(frozen=True)
class Record:
    """Base of frozen dataclasses whose fields are tensors, records, tuples of records or None."""

    def map(self: RecordT, function: Callable[[Tensor], Tensor]) -> RecordT:
        """Apply a function to every tensor, at any depth, and keep the structure."""
        changes = {
            field.name: _map(getattr(self, field.name), function)
            for field in dataclasses.fields(self)
        }
        return dataclasses.replace(self, **changes)

    def tensors(self) -> list[Tensor]:
        """Every tensor, at any depth, in the order of the fields."""
        found: list[Tensor] = []

        def collect(tensor: Tensor) -> Tensor:
            found.append(tensor)
            return tensor

        self.map(collect)
        return found

    def to(
        self: RecordT, *, device: torch.device | None = None, dtype: torch.dtype | None = None
    ) -> RecordT:
        """Move and convert every tensor; part of the graph if gradients are recorded."""
        return self.map(lambda tensor: tensor.to(device=device, dtype=dtype))

    def leaves(self: RecordT) -> RecordT:
        """The same values, cut from their graph, each collecting its own gradient."""
        return self.map(lambda tensor: tensor.detach().requires_grad_())


CPU_ROWS, GPU_ROWS = 2**12, 2**15
"""Rows per chunk where no graph is kept, so that memory does not grow with the number of rows."""


def rows_at_once(record: Record) -> int:
    """Return how many rows of a record fit into one chunk on its device, without a graph."""
    return GPU_ROWS if record.tensors()[0].is_cuda else CPU_ROWS


def chunks(record: RecordT, size: int, axis: int = 0) -> Iterator[RecordT]:
    """Cut a record whose tensors have one entry per row into chunks of at most so many rows.

    Args:
        record: Of rows.
        size: The most rows of a chunk.
        axis: That of the rows, in every tensor; those of members come before it.
    """
    before = (slice(None),) * axis
    for start in range(0, record.tensors()[0].shape[axis], size):
        yield record.map(itemgetter((*before, slice(start, start + size))))


def map_chunks(function: Callable[[RecordT], ResultT], record: RecordT, size: int) -> ResultT:
    """Apply a function of rows to chunks of them, and put the results together.

    They go where they belong at once: small results kept among large temporary ones would keep the
    memory of the latter from being used again.
    """
    n_rows = len(record.tensors()[0])
    if n_rows <= size:
        return function(record)
    whole: ResultT | None = None
    for number, chunk in enumerate(chunks(record, size)):
        part = function(chunk)
        if whole is None:
            whole = part.map(lambda tensor: tensor.new_empty((n_rows, *tensor.shape[1:])))
        for target, values in zip(whole.tensors(), part.tensors(), strict=True):
            target[number * size : number * size + len(values)] = values
    assert whole is not None
    return whole


def concatenate(records: Iterable[RecordT]) -> RecordT:
    """Put chunks together again."""
    return _join(records, torch.cat)


def stack(records: Iterable[RecordT]) -> RecordT:
    """One record of several of the same shape, along a new first axis: that of members."""
    return _join(records, torch.stack)


def _join(records: Iterable[RecordT], function: Callable[[tuple[Tensor, ...]], Tensor]) -> RecordT:
    parts = list(records)
    columns = zip(*(part.tensors() for part in parts), strict=True)
    joined = iter([function(column) for column in columns])
    return parts[0].map(lambda _: next(joined))


def _map(value: Any, function: Callable[[Tensor], Tensor]) -> Any:
    if isinstance(value, Tensor):
        return function(value)
    if isinstance(value, Record):
        return value.map(function)
    if isinstance(value, tuple):
        return tuple(_map(item, function) for item in value)
    return value
