from __future__ import annotations

import math

import pytest

from sswim.report.content import count, number, percent


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3.14159, "3.14"),
        (-0.0123456, "−0.0123"),
        (1234567.0, "1,234,567"),
        (123.0, "123"),
        (0.0, "0"),
        (8.61e-5, "8.61e−5"),
        (-2.5e12, "−2.50e12"),
        (math.nan, "–"),
        (math.inf, "–"),
    ],
)
def test_numbers_have_three_digits(value: float, text: str) -> None:
    assert number(value) == text


def test_shares_and_counts_are_text() -> None:
    assert percent(0.9051) == "90.5\u00a0%"
    assert percent(math.nan) == "–"
    assert count(1, "row") == "1 row"
    assert count(1200, "row") == "1,200 rows"
