"""Checks and conversions of settings, amounts of memory, seeds and text."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, Literal

import numpy as np
import pytest
import torch

from sswim.base.cholesky import FactorisationError
from sswim.base.validation import (
    UserError,
    as_bytes,
    draw_generator,
    require_choice,
    require_integer,
    require_level,
    require_positive,
    require_restartable,
    require_tail,
    visible,
)
from sswim.estimator.model_file import ModelFileError
from sswim.members.checkpoints import CheckpointError
from sswim.tables import TableError

Colour = Literal["red", "blue"]


class Restartable:
    def __iter__(self) -> Iterator[int]:
        return iter([1, 2])


ACCEPTED: list[tuple[Callable[..., object], tuple[Any, ...]]] = [
    (require_choice, ("colour", "red", Colour)),
    *((require_integer, ("n", value, 2)) for value in (2, 3, np.int64(2))),
    *((require_level, (level,)) for level in (1e-9, 0.5, 0.999, 1 - 1e-14)),
    *((require_positive, ("rate", value)) for value in (2, np.float32(0.1))),
    *((require_restartable, (chunks,)) for chunks in ([], [1], (1, 2), Restartable())),
]


@pytest.mark.parametrize(("check", "arguments"), ACCEPTED)
def test_right_values_pass(check: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    check(*arguments)


REFUSED: list[tuple[Callable[..., object], tuple[Any, ...], str]] = [
    (
        require_choice,
        ("colour", "green", Colour),
        r"colour must be one of \('red', 'blue'\)\. Got 'green'\.",
    ),
    *(
        (require_integer, ("n", value, 2), r"n must be an integer of at least 2\. Got ")
        for value in (1, -5, 2.0, "2", True, None)
    ),
    (require_integer, ("n", 9, 2, 8), "n must be at most 8"),
    *(
        (require_level, (level,), r"level must lie between 0 and 1\. Got ")
        for level in (0.0, 1.0, -0.1, 90.0, math.nan)
    ),
    (require_level, (1 - 1e-16,), r"level must leave tails of at least 1e-15.* Got 0\.99"),
    (
        require_tail,
        ("p", 1e-300, 1e-300),
        r"p must leave tails .* Got 1e-300, which leaves 1e-300",
    ),
    *(
        (require_positive, ("rate", value), "rate must be positive and finite. Got ")
        for value in (0, -1, math.nan, math.inf, None, "much", True, 1j, [1.0])
    ),
    (require_restartable, (iter([1]),), "Got a list_iterator, which can be read once; make a list"),
    (require_restartable, ((i for i in range(3)),), "Got a generator, which can be read once"),
    *(
        (as_bytes, (amount,), "memory must be a number of bytes, or text like '2GiB'")
        for amount in (-1, "-1", True, "", "GiB", "2 PB", "2 GB of memory")
    ),
]


@pytest.mark.parametrize(("check", "arguments", "message"), REFUSED)
def test_other_values_are_refused(
    check: Callable[..., None], arguments: tuple[Any, ...], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        check(*arguments)


@pytest.mark.parametrize("error", [TableError, CheckpointError, ModelFileError])
def test_mistakes_of_users_are_value_errors_of_one_class(error: type[Exception]) -> None:
    assert issubclass(error, UserError)
    assert issubclass(UserError, ValueError)
    assert not issubclass(FactorisationError, UserError)


@pytest.mark.parametrize(
    ("amount", "expected"),
    [
        *((0, 0), (123, 123), ("123", 123), ("123 B", 123), ("1KB", 2**10), ("1KiB", 2**10)),
        *(("500 MB", 500 * 2**20), ("2GiB", 2 * 2**30), ("2g", 2 * 2**30), ("1T", 2**40)),
        (" 1.5 GiB ", 3 * 2**29),
    ],
)
def test_amounts_are_bytes(amount: int | str, expected: int) -> None:
    assert as_bytes(amount) == expected


def test_an_integer_seeds_the_same_generator() -> None:
    first, again, other = (draw_generator(seed).initial_seed() for seed in (1, 1, 2))
    assert first == again != other
    assert draw_generator(0).device == torch.device("cpu")


def test_a_numpy_generator_gives_another_generator_each_time() -> None:
    random, again = np.random.RandomState(1), np.random.RandomState(1)
    seeds = [draw_generator(random).initial_seed() for _ in range(3)]
    assert len(set(seeds)) == 3
    assert [draw_generator(again).initial_seed() for _ in range(3)] == seeds
    assert seeds[0] == draw_generator(1).initial_seed()


def test_control_characters_become_escapes_and_joiners_stay() -> None:
    assert visible("red \x1b[31m, \x9b2J, \r, \x00, \u202e, \udcff, é") == (
        r"red \x1b[31m, \x9b2J, \r, \x00, \u202e, \udcff, é"
    )
    assert visible("a\tb\nक्\u200dष") == "a\tb\nक्\u200dष"
