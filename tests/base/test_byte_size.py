from __future__ import annotations

import pytest
from builders.models import unchecked

from sswim.base.validation import as_bytes


@pytest.mark.parametrize(
    ("amount", "expected"),
    [
        (0, 0),
        (123, 123),
        ("123", 123),
        ("123 B", 123),
        ("1KB", 2**10),
        ("1KiB", 2**10),
        ("500 MB", 500 * 2**20),
        ("2GiB", 2 * 2**30),
        ("2g", 2 * 2**30),
        (" 1.5 GiB ", 3 * 2**29),
        ("1T", 2**40),
    ],
)
def test_amounts_are_bytes(amount: int | str, expected: int) -> None:
    assert as_bytes(amount) == expected


@pytest.mark.parametrize("amount", [-1, "-1", True, "", "GiB", "2 PB", "2 GB of memory", None])
def test_other_amounts_are_refused(amount: object) -> None:
    with pytest.raises(ValueError, match=r"memory must be a number of bytes, or text like '2GiB'"):
        unchecked(as_bytes, amount=amount)
