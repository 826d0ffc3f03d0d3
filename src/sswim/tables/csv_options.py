"""What a user may say about a CSV file; the rest is found by reading its first rows."""

from __future__ import annotations

import codecs
from collections.abc import Iterable
from dataclasses import dataclass, replace

from sswim.base.errors import UserError

BLANKS = " "
"""Separator that stands for one or more blanks or tabs."""

SEPARATORS = {",": "','", ";": "';'", "\t": "tab", "|": "'|'", BLANKS: "blanks"}
"""Separators that are found by themselves, and how they are called in messages."""


@dataclass(frozen=True)
class CsvOptions:
    """How CSV files are read. Anything that is None is found by reading the first rows."""

    separator: str | None = None
    """One character between the cells; a blank stands for one or more blanks or tabs."""
    decimal: str | None = None
    """Decimal mark of numbers: a point or a comma."""
    encoding: str | None = None
    """Name of the encoding, such as ``utf-8`` or ``cp1252``."""
    header: bool | None = None
    """Whether the first line has the names of the columns."""
    keep_index: bool = False
    """Whether an unnamed first column that counts the rows is a column as any other."""
    text: tuple[str, ...] = ()
    """Columns whose cells are text, even if all of them look like numbers."""
    has_model: bool = False
    """Whether a model says which columns are used, so that nothing is decided about columns."""

    def for_model(self, text: Iterable[str]) -> CsvOptions:
        """Return the options for rows that a model reads.

        Args:
            text: Columns that the model reads as text.
        """
        return replace(self, has_model=True, text=(*self.text, *text))

    def __post_init__(self) -> None:
        if self.separator is not None:
            _require_separator(self.separator)
        if self.decimal not in (None, ".", ","):
            raise UserError(f"The decimal mark must be '.' or ','. Got {self.decimal!r}.")
        if self.encoding is not None:
            _require_encoding(self.encoding)


AS_FOUND = CsvOptions()
"""Options that leave everything to what the first rows show."""


def separator_words(separator: str) -> str:
    """Return a separator as it is called in messages."""
    return SEPARATORS.get(separator, repr(separator))


def _require_separator(separator: str) -> None:
    if (
        len(separator) != 1
        or not separator.isascii()
        or separator.isalnum()
        or separator in '"\r\n'
    ):
        raise UserError(
            "A separator must be one character, and no letter, digit or quote. "
            f"Got {separator!r}; for example ',', ';' or a tab."
        )


def _require_encoding(encoding: str) -> None:
    try:
        codecs.lookup(encoding)
        "a".encode(encoding)
    except LookupError as error:
        raise UserError(
            "An encoding must be the name of one that Python knows. "
            f"Got {encoding!r}; for example 'utf-8', 'cp1252' or 'utf-16'."
        ) from error
