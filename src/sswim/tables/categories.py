"""The different texts of a column, found in one part of a table after the other."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from sswim.tables.table_io import TableError, without_view

MAX_CATEGORIES = 1000
IDENTIFIER_ROWS = 20
"""Beyond so many rows, a column of texts of which none comes twice is an identifier."""


@dataclass(frozen=True)
class Levels:
    """The different texts, and the number of rows that have any."""

    texts: frozenset[str] = frozenset()
    n_rows: int = 0

    @classmethod
    def of(cls, values: pa.ChunkedArray) -> Levels:
        """Those of a column, or of a part of it."""
        text = as_text(values).drop_null()
        return cls(frozenset(text.unique().to_pylist()), len(text))

    def __or__(self, other: Levels) -> Levels:
        """Those of two parts together."""
        return Levels(self.texts | other.texts, self.n_rows + other.n_rows)

    @property
    def too_many(self) -> bool:
        """Whether there are more than can be categories, whatever the other parts have."""
        return len(self.texts) > MAX_CATEGORIES

    def categories(self, got: str, advice: str) -> tuple[str, ...]:
        """The texts in order; refused, with words for the column, if they are no categories."""
        n_texts = len(self.texts)
        if not n_texts:
            raise TableError(f"An input must have values. {got} without any; {advice}")
        if self.too_many or n_texts == self.n_rows > IDENTIFIER_ROWS:
            raise TableError(
                f"A text column must have at most {MAX_CATEGORIES} different values, and not "
                f"another in every row. {got} with {n_texts} in {self.n_rows} rows; {advice}"
            )
        return tuple(sorted(self.texts))


def as_text(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Text of any type as the one type that everything can be done with."""
    return values.cast(without_view(values.type)).cast(pa.large_string())
