"""Learning a schema from a table that need not fit in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import or_

from sswim.distributed.share import ALL_ROWS, Share
from sswim.tables.categories import TextValues
from sswim.tables.chunked_table import ChunkedTable
from sswim.tables.missing_values import (
    complete_rows,
    keep_rows,
    missing_counts,
    require_any_complete,
)
from sswim.tables.schema import Schema, input_names, learn_columns, text_names
from sswim.tables.table_io import TableError


@dataclass
class ShareFindings:
    """The findings of one process in its share of the rows."""

    texts: dict[str, TextValues]
    """Distinct texts of the text columns."""
    n_rows: int = 0
    """Number of rows that count."""
    missing: Counter[str] = field(default_factory=Counter)
    """Number of missing values of each column."""
    error: str = ""
    """Message of the error that stopped the search, or an empty text."""


def learn_schema(
    table: ChunkedTable,
    target: str,
    drop: Collection[str] = (),
    share: Share = ALL_ROWS,
    merge: Callable[[ShareFindings], list[ShareFindings]] | None = None,
    drop_missing: bool = False,
) -> Schema:
    """Return the schema that ``Schema.learn`` finds, without having the table in memory.

    Only text columns are read, and nothing if there are none.

    Args:
        table: The table.
        target: Column to predict.
        drop: Columns to ignore.
        share: Share of the rows that this process reads.
        merge: Function that gives every process the findings of all, in the same order. Every
            process must call it. Without it this process reads the whole table.
        drop_missing: Whether only rows without missing values count. All columns are then read.
    """
    names = input_names(table.schema, target, drop)
    text_columns = text_names(table.schema, names)
    # Problems that the schema alone shows are raised before any row is read.
    learn_columns(table.schema, [name for name in names if name not in text_columns], {})
    texts: dict[str, TextValues] = {}
    if text_columns:
        used = [*names, target] if drop_missing else []
        mine = _search_share(table, text_columns, used, share)
        findings = [mine] if merge is None else merge(mine)
        if errors := [each.error for each in findings if each.error]:
            raise TableError(errors[0])
        if drop_missing:
            missing = {name: sum(each.missing[name] for each in findings) for name in used}
            n_complete = sum(each.n_rows for each in findings)
            require_any_complete(n_complete, {name: n for name, n in missing.items() if n})
        texts = {
            name: reduce(or_, (each.texts[name] for each in findings)) for name in text_columns
        }
    return Schema(target, learn_columns(table.schema, names, texts))


def _search_share(
    table: ChunkedTable, text_columns: Sequence[str], complete: Sequence[str], share: Share
) -> ShareFindings:
    """Collect the texts of a share's rows that have a value in all ``complete`` columns."""
    found = ShareFindings({name: TextValues() for name in text_columns})
    try:
        for chunk in table.chunks(complete or text_columns, share):
            rows = chunk.table
            if complete:
                found.missing.update(missing_counts(rows, complete))
                rows = keep_rows(rows, complete_rows(rows, complete))
            found.n_rows += rows.num_rows
            for name in text_columns:
                found.texts[name] |= TextValues.of(rows.column(name))
                if found.texts[name].too_many:  # an error, whatever the other rows have
                    learn_columns(table.schema, [name], found.texts)
    except TableError as error:  # passed on by ``merge``, for which the other processes wait
        found.error = str(error)
    return found
