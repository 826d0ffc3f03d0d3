"""Frozen records of tensors, which carry data from one stage of the method to the next.

Records of rows are computed in chunks.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from operator import itemgetter
from typing import Any, TypeVar

import torch
from torch import Tensor

from sswim.base.threads import map_in_threads

RecordT = TypeVar("RecordT", bound="Record")

ResultT = TypeVar("ResultT", bound="Record")


@dataclasses.dataclass(frozen=True)
class Record:
    """Base class of frozen dataclasses with fields that are tensors, records or tuples of these.

    A field may also be None.
    """

    def map(self: RecordT, function: Callable[[Tensor], Tensor]) -> RecordT:
        """Return a record with a function applied to every tensor, at any depth."""
        return type(self)(*(_map(getattr(self, name), function) for name in _names(self)))

    def tensors(self) -> list[Tensor]:
        """Return every tensor, at any depth, in the order of the fields."""
        return list(_tensors(self))

    def to(
        self: RecordT, *, device: torch.device | None = None, dtype: torch.dtype | None = None
    ) -> RecordT:
        """Move every tensor to a device and convert it to a dtype; differentiable."""
        return self.map(lambda tensor: tensor.to(device=device, dtype=dtype))

    def leaves(self: RecordT) -> RecordT:
        """Return a copy whose tensors are leaves: detached, and each with its own gradient."""
        return self.map(lambda tensor: tensor.detach().requires_grad_())


def _names(record: Record) -> tuple[str, ...]:
    """Return the names of a record's fields, in order; faster than ``dataclasses.fields``."""
    return record.__match_args__


def _map(value: Any, function: Callable[[Tensor], Tensor]) -> Any:
    if isinstance(value, Tensor):
        return function(value)
    if isinstance(value, Record):
        return value.map(function)
    if isinstance(value, tuple):
        return tuple(_map(item, function) for item in value)
    return value


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Record):
        for name in _names(value):
            yield from _tensors(getattr(value, name))
    elif isinstance(value, tuple):
        for item in value:
            yield from _tensors(item)


CPU_ROWS, GPU_ROWS = 2**12, 2**15
"""Rows per chunk on a CPU and on a GPU where no autograd graph is kept.

Chunks of a fixed size keep memory independent of the number of rows.
"""

THREAD_ROWS = 2**10
"""Rows per chunk where each core of a CPU computes chunks of its own: all in its cache."""


def rows_at_once(record: Record, *, in_threads: bool = False) -> int:
    """Return the number of rows per chunk on the record's device, where no graph is kept."""
    if record.tensors()[0].is_cuda:
        return GPU_ROWS
    return min(THREAD_ROWS, CPU_ROWS) if in_threads else CPU_ROWS


def chunks(record: RecordT, size: int, axis: int = 0) -> Iterator[RecordT]:
    """Cut a record whose tensors have one entry per row into chunks of rows.

    Args:
        record: A record of rows.
        size: Largest number of rows in a chunk.
        axis: Axis of the rows in every tensor; axes of members come before it.
    """
    before = (slice(None),) * axis
    for start in range(0, record.tensors()[0].shape[axis], size):
        yield record.map(itemgetter((*before, slice(start, start + size))))


def map_chunks(
    function: Callable[[RecordT], ResultT], record: RecordT, size: int, *, in_threads: bool = False
) -> ResultT:
    """Apply a function to chunks of rows, and join the results.

    Results are written into one allocated record at once. A list of small results, allocated
    between large temporary tensors, would keep the memory of these from being used again.

    Args:
        function: Returns a record of as many rows as it is given.
        record: A record of rows.
        size: Largest number of rows in a chunk.
        in_threads: Whether the cores of a CPU compute chunks of their own, without gradients.
    """
    n_rows = len(record.tensors()[0])
    if n_rows <= size:
        return function(record)
    first, *others = enumerate(chunks(record, size))
    part = function(first[1])  # before threads start, so that it computes what they share
    joined = part.map(lambda tensor: tensor.new_empty((n_rows, *tensor.shape[1:])))

    def write(part: ResultT, number: int) -> None:
        for target, values in zip(joined.tensors(), part.tensors(), strict=True):
            target[number * size : number * size + len(values)] = values

    def compute(item: tuple[int, RecordT]) -> None:
        number, chunk = item
        write(function(chunk), number)

    write(part, 0)
    if in_threads and not joined.tensors()[0].is_cuda:
        map_in_threads(torch.no_grad()(compute), others)  # they write to the same tensors
    else:
        for item in others:
            compute(item)
    return joined


def concatenate(records: Iterable[RecordT]) -> RecordT:
    """Join chunks along the axis of the rows."""
    return _join(records, torch.cat)


def stack_records(records: Iterable[RecordT]) -> RecordT:
    """Stack records of the same shape along a new first axis, the axis of members."""
    return _join(records, torch.stack)


def _join(records: Iterable[RecordT], function: Callable[[tuple[Tensor, ...]], Tensor]) -> RecordT:
    parts = list(records)
    columns = zip(*(part.tensors() for part in parts), strict=True)
    joined = iter([function(column) for column in columns])
    return parts[0].map(lambda _: next(joined))
