"""The distinct texts of a column, collected chunk by chunk."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from sswim.tables.table_io import TableError, without_string_view

MAX_CATEGORIES = 1000
IDENTIFIER_ROWS = 20
"""Number of rows above which a text column without any repeated text is an identifier."""


@dataclass(frozen=True)
class TextValues:
    """The distinct texts of a column, and the number of rows that have one."""

    texts: frozenset[str] = frozenset()
    n_rows: int = 0

    @classmethod
    def of(cls, values: pa.ChunkedArray) -> TextValues:
        """Collect the texts of a column, or of a chunk of it."""
        text = as_text(values).drop_null()
        return cls(frozenset(text.unique().to_pylist()), len(text))

    def __or__(self, other: TextValues) -> TextValues:
        """Combine the texts of two chunks."""
        return TextValues(self.texts | other.texts, self.n_rows + other.n_rows)

    @property
    def too_many(self) -> bool:
        """Whether there are more texts than a column may have categories."""
        return len(self.texts) > MAX_CATEGORIES

    def categories(self, got: str, advice: str) -> tuple[str, ...]:
        """Return the texts in order, or raise an error if they cannot be categories.

        Args:
            got: Words for the column in the error message, which begin with "Got".
            advice: What the user can do, for the error message.
        """
        n_texts = len(self.texts)
        if not n_texts:
            raise TableError(f"An input must have values. {got} without any; {advice}")
        if self.too_many or n_texts == self.n_rows > IDENTIFIER_ROWS:
            raise TableError(
                f"A text column must have at most {MAX_CATEGORIES} different values, and must "
                f"repeat some of them. {got} with {n_texts} in {self.n_rows} rows; {advice}"
            )
        return tuple(sorted(self.texts))


def as_text(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Convert text of any Arrow type to ``large_string``, which all functions support."""
    return values.cast(without_string_view(values.type)).cast(pa.large_string())
