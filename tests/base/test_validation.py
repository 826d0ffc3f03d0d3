from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Literal

import numpy as np
import pytest

from sswim.base.validation import (
    UserError,
    require_choice,
    require_integer,
    require_level,
    require_positive,
    require_restartable,
    require_tail,
)

Colour = Literal["red", "blue"]


class Restartable:
    def __iter__(self) -> Iterator[int]:
        return iter([1, 2])


def test_choices_are_those_of_the_literal() -> None:
    require_choice("colour", "red", Colour)
    with pytest.raises(
        ValueError, match=r"colour must be one of \('red', 'blue'\)\. Got 'green'\."
    ):
        require_choice("colour", "green", Colour)


@pytest.mark.parametrize("value", [2, 3, np.int64(2)])
def test_integers_that_are_large_enough_pass(value: object) -> None:
    require_integer("n", value, 2)
    with pytest.raises(ValueError, match=r"n must be an integer of at least 4"):
        require_integer("n", value, 4)


@pytest.mark.parametrize("value", [1, -5, 2.0, "2", True, None])
def test_other_numbers_are_refused(value: object) -> None:
    with pytest.raises(ValueError, match=r"n must be an integer of at least 2\. Got "):
        require_integer("n", value, 2)


@pytest.mark.parametrize("level", [1e-9, 0.5, 0.999])
def test_coverages_between_zero_and_one_pass(level: float) -> None:
    require_level(level)
    with pytest.raises(ValueError, match="level must lie between 0 and 1"):
        require_level(1 + level)


def test_tails_that_cannot_be_resolved_are_refused() -> None:
    require_level(1 - 1e-14)
    with pytest.raises(UserError, match=r"level must leave tails of at least 1e-15.* Got 0\.99"):
        require_level(1 - 1e-16)
    with pytest.raises(UserError, match=r"p must leave tails .* Got 1e-300, which leaves 1e-300"):
        require_tail("p", 1e-300, 1e-300)


@pytest.mark.parametrize("value", [0, -1, math.nan, math.inf, None, "much", True, 1j, [1.0]])
def test_numbers_that_are_not_positive_are_refused(value: object) -> None:
    require_positive("rate", np.float32(0.1))
    require_positive("rate", 2)
    with pytest.raises(UserError, match=r"rate must be positive and finite. Got "):
        require_positive("rate", value)


@pytest.mark.parametrize("level", [0.0, 1.0, -0.1, 90.0, float("nan")])
def test_other_coverages_are_refused(level: float) -> None:
    with pytest.raises(ValueError, match=r"level must lie between 0 and 1\. Got "):
        require_level(level)


@pytest.mark.parametrize(
    "chunks", [[], [1], (1, 2), Restartable()], ids=["empty", "list", "tuple", "class"]
)
def test_iterables_that_can_be_restarted_pass(chunks: Iterable[object]) -> None:
    require_restartable(chunks)
    assert list(chunks) == list(chunks)


@pytest.mark.parametrize(
    ("chunks", "kind"), [(iter([1]), "list_iterator"), ((i for i in range(3)), "generator")]
)
def test_iterators_are_refused(chunks: Iterable[object], kind: str) -> None:
    with pytest.raises(ValueError, match=f"Got a {kind}, which can be read once; make a list"):
        require_restartable(chunks)
