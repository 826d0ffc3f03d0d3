"""Learning a schema from a table that need not fit in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import or_

from sswim.distributed.share import WHOLE, Share
from sswim.tables.categories import Levels
from sswim.tables.schema import (
    Schema,
    complete_rows,
    input_names,
    keep_rows,
    learn_columns,
    missing_counts,
    require_any_complete,
    text_names,
)
from sswim.tables.table_io import TableError
from sswim.tables.table_parts import Tables


@dataclass
class Found:
    """What one process has found in its share."""

    levels: dict[str, Levels]
    n_rows: int = 0
    """That count."""
    gaps: Counter[str] = field(default_factory=Counter)
    """The missing values of each column."""
    error: str = ""
    """Why it could not go on, if it could not."""


def learn_schema(
    tables: Tables,
    target: str,
    drop: Collection[str] = (),
    share: Share = WHOLE,
    merge: Callable[[Found], list[Found]] | None = None,
    drop_missing: bool = False,
) -> Schema:
    """What ``Schema.learn`` makes of the whole table, without having it in memory.

    Only columns of text are read, and nothing if there are none.

    Args:
        tables: The table.
        target: The column to predict.
        drop: Columns to ignore.
        share: What this process reads.
        merge: Gives every process what all have found, in the same order; none may be missing.
            Without it the share is all there is.
        drop_missing: Only rows without missing values count. All columns are read for that.
    """
    names = input_names(tables.schema, target, drop)
    texts = text_names(tables.schema, names)
    # What can be refused without reading is refused before it.
    learn_columns(tables.schema, [name for name in names if name not in texts], {})
    levels: dict[str, Levels] = {}
    if texts:
        used = [*names, target] if drop_missing else []
        mine = _find(tables, texts, used, share)
        found = [mine] if merge is None else merge(mine)
        if errors := [each.error for each in found if each.error]:
            raise TableError(errors[0])
        if drop_missing:
            gaps = {name: sum(each.gaps[name] for each in found) for name in used}
            n_complete = sum(each.n_rows for each in found)
            require_any_complete(n_complete, {name: n for name, n in gaps.items() if n})
        levels = {name: reduce(or_, (each.levels[name] for each in found)) for name in texts}
    return Schema(target, learn_columns(tables.schema, names, levels))


def _find(tables: Tables, texts: Sequence[str], complete: Sequence[str], share: Share) -> Found:
    """The levels of the columns of text, in rows that have a value in each of others."""
    found = Found({name: Levels() for name in texts})
    try:
        for part in tables.parts(complete or texts, share):
            table = part.table
            if complete:
                found.gaps.update(missing_counts(table, complete))
                table = keep_rows(table, complete_rows(table, complete))
            found.n_rows += table.num_rows
            for name in texts:
                found.levels[name] |= Levels.of(table.column(name))
                if found.levels[name].too_many:  # Refuse it, whatever follows.
                    learn_columns(tables.schema, [name], found.levels)
    except TableError as error:  # The others wait for what was found, and are to hear of it.
        found.error = str(error)
    return found
