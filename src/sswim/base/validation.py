"""Checks and conversions of what users give: settings, amounts of memory, seeds, tables, text."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable
from decimal import Decimal
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, cast, get_args

import numpy as np

if TYPE_CHECKING:
    import torch


class UserError(ValueError):
    """A mistake in what the user gave: a setting, a name, a file or its content.

    Checks of user input raise it, or a subclass. The command line shows its message without a
    traceback; any other ValueError is a bug and keeps its traceback.
    """


_HARMLESS = "\n\t\u00ad\u200c\u200d"
"""Control characters that stay: of lines, and of writing."""


def visible(text: str) -> str:
    r"""Show control characters as escapes, such as \x1b.

    They could rewrite what a terminal shows, or turn around the text of a page. Line ends and tabs
    stay, and so do the joiners of scripts that need them.
    """
    if text.isprintable():
        return text
    return "".join(
        character.encode("unicode_escape").decode()
        if character not in _HARMLESS and unicodedata.category(character) in ("Cc", "Cf", "Cs")
        else character
        for character in text
    )


SMALLEST_TAIL = 1e-15
"""Smallest probability of a tail whose quantile is asked for."""


def require_choice(name: str, value: object, choices: Any) -> None:
    """Raise unless a value is one of the choices of a ``Literal``."""
    if value not in get_args(choices):
        raise UserError(f"{name} must be one of {get_args(choices)}. Got {value!r}.")


def require_integer(name: str, value: object, smallest: int, largest: int | None = None) -> None:
    """Raise unless a value is an integer between the smallest and the largest allowed one."""
    is_integer = isinstance(value, Integral) and not isinstance(value, bool)
    if not is_integer or int(cast(int, value)) < smallest:
        raise UserError(f"{name} must be an integer of at least {smallest}. Got {value!r}.")
    if largest is not None and int(cast(int, value)) > largest:
        raise UserError(f"{name} must be at most {largest}. Got {value!r}.")


def require_flag(name: str, value: object) -> None:
    """Raise unless a value is true or false."""
    if not isinstance(value, bool):
        raise UserError(f"{name} must be True or False. Got {value!r}.")


def require_positive(name: str, value: object) -> None:
    """Raise unless a value is a positive, finite number."""
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    if not is_number or not 0 < float(cast(float, value)) < math.inf:
        raise UserError(f"{name} must be positive and finite. Got {value!r}.")


def require_level(level: float) -> None:
    """Raise unless the level of intervals lies between 0 and 1, and leaves tails to resolve."""
    if not 0 < level < 1:
        raise UserError(f"level must lie between 0 and 1. Got {level}.")
    require_tail("level", 0.5 * (1 - level), level)


def require_tail(name: str, tail: float, given: float) -> None:
    """Raise if the probability of a tail is so small that no quantile can be told from others.

    Args:
        name: Name of the argument.
        tail: Probability of the tail that the argument leaves.
        given: The argument.
    """
    if tail < SMALLEST_TAIL:
        raise UserError(
            f"{name} must leave tails of at least {SMALLEST_TAIL}, because numbers near one are "
            f"rounded and no data say more. Got {given!r}, which leaves {tail:.2g}."
        )


def require_restartable(chunks: Iterable[object]) -> None:
    """Raise unless chunks can be read more than once."""
    if iter(chunks) is chunks:
        raise UserError(
            "Chunks are read more than once, so they must come in an iterable that can be started "
            f"again. Got a {type(chunks).__name__}, which can be read once; make a list of it, or "
            "a class with __iter__."
        )


_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def as_bytes(amount: int | str) -> int:
    """Convert an integer, or text such as ``"2GiB"`` or ``"500 MB"``, to a number of bytes."""
    if isinstance(amount, int) and not isinstance(amount, bool) and amount >= 0:
        return amount
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?\s*", str(amount), re.IGNORECASE)
    if match is None:
        raise UserError(f"memory must be a number of bytes, or text like '2GiB'. Got {amount!r}.")
    number, unit = match.groups()
    return int(float(number) * _UNITS[unit.upper()])


RandomState = int | np.random.RandomState | None
"""An integer seed, a NumPy generator, or None for a different draw every time."""


def draw_generator(random_state: RandomState) -> torch.Generator:
    """Return a PyTorch generator on the CPU, with a seed drawn from a random state."""
    import torch  # noqa: PLC0415 (slow, and no command needs it to print its help)
    from sklearn.utils import check_random_state  # noqa: PLC0415 (as torch)

    seed = int(check_random_state(random_state).randint(2**31 - 1))
    return torch.Generator().manual_seed(seed)


def is_frame(X: Any) -> bool:
    """Return whether an object is a data frame or a table: of pandas, polars, Arrow and others."""
    return is_pandas(X) or (hasattr(X, "__arrow_c_stream__") and not hasattr(X, "dtype"))


def is_pandas(X: Any) -> bool:
    """Return whether an object is a data frame of pandas."""
    return _is_a(X, "DataFrame", "pandas")


def is_geo_frame(X: Any) -> bool:
    """Return whether an object is a data frame of geopandas."""
    return _is_a(X, "GeoDataFrame", "geopandas")


def _is_a(X: Any, name: str, library: str) -> bool:
    return any(
        kind.__name__ == name and kind.__module__.split(".")[0] == library
        for kind in type(X).__mro__
    )


def is_missing(value: Any) -> bool:
    """Return whether a Python object stands for a missing value: None, NaN, NaT or NA."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    # Only missing numbers and times differ from themselves.
    return isinstance(value, float | Decimal | np.generic) and bool(value != value)  # noqa: PLR0124
