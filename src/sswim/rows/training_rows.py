"""From rows, or a source of them, to what members are trained on."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import torch

from sswim.distributed.processes import ALONE, Processes
from sswim.recipe.member_fitting import TrainingRows
from sswim.rows.rows import Rows
from sswim.rows.source import Source
from sswim.rows.stream import Stream
from sswim.rows.summary import Summary

COPIES = 3
"""In which rows in memory are held at most, while they are standardised and put together."""

_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def as_source(
    X: Source | str | os.PathLike[str],
    y: Any,
    sample_weight: Any = None,
    X_std: Any = None,
    processes: Processes = ALONE,
) -> Source:
    """A source as it is, or that of a table and the name of its target."""
    if sample_weight is not None or X_std is not None:
        raise ValueError(
            "sample_weight and X_std belong to arrays. Got them beside a source of rows, whose "
            "chunks may have weights of their own."
        )
    if isinstance(X, Source):
        if y is not None:
            raise ValueError("A source has its targets within. Got y beside it.")
        return X
    if not isinstance(y, str):
        raise ValueError(f"The target of a table must be the name of a column. Got {y!r}.")
    from sswim.tables.open_tables import open_tables  # noqa: PLC0415 (pyarrow is for tables alone)
    from sswim.tables.table_source import learn_source  # noqa: PLC0415

    with processes.shared_errors():
        tables = open_tables(Path(X))
    return learn_source(tables, y, processes=processes)


def supply_rows(rows: Rows, found: Summary, processes: Processes = ALONE) -> TrainingRows:
    """Of rows that every process has in memory."""
    sample = found.scaling.rows(found.sample)
    if processes.size > 1:
        everything = found.scaling.rows(_span(rows, processes))
    else:
        everything = sample if found.complete else found.scaling.rows(rows)
    return _supply(sample, everything, found, processes)


def supply_source(
    source: Source,
    found: Summary,
    *,
    dtype: torch.dtype,
    device: torch.device,
    memory: int,
    once: bool,
    processes: Processes = ALONE,
) -> TrainingRows:
    """Of a source of which each process reads its share.

    Args:
        source: The rows.
        found: What is known of them.
        dtype: Of the features.
        device: Where they are to be.
        memory: What a process may hold, in bytes; of more the rows are read again for each pass.
        once: Whether there is only one pass over them, for which none need to be held.
        processes: Which read them together.
    """
    sample = found.scaling.rows(found.sample)
    everything: Rows | Stream
    if found.complete:
        everything = sample if processes.size == 1 else _span(sample, processes)
    else:
        share = processes.share
        stream = Stream(source, share, found.scaling, dtype, device)
        n_columns = sample.inputs.mean.shape[1] + sample.targets.shape[1] + 1
        n_bytes = COPIES * 8 * n_columns * found.n_rows // processes.size
        everything = stream if once or n_bytes > memory else stream.held()
    return _supply(sample, everything, found, processes)


def _supply(
    sample: Rows, everything: Rows | Stream, found: Summary, processes: Processes
) -> TrainingRows:
    lowest, highest = (found.scaling.targets(ends) for ends in (found.lowest, found.highest))
    return TrainingRows(sample, everything, found.n_rows, lowest, highest, processes)


def _span(rows: Rows, processes: Processes) -> Rows:
    begin, end = processes.share.span(len(rows))
    return rows.map(lambda tensor: tensor[begin:end])


def as_bytes(amount: int | str) -> int:
    """A number of bytes, or words for it: ``"2GiB"``, ``"500 MB"``."""
    if isinstance(amount, int) and not isinstance(amount, bool) and amount >= 0:
        return amount
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?\s*", str(amount), re.IGNORECASE)
    if match is None:
        raise ValueError(f"memory must be a number of bytes, or like '2GiB'. Got {amount!r}.")
    number, unit = match.groups()
    return int(float(number) * _UNITS[unit.upper()])
