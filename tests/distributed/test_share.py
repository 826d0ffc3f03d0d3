from __future__ import annotations

import pytest

from sswim.distributed.processes import ALL_ROWS, Processes, Share


@pytest.mark.parametrize("size", [1, 2, 3, 7])
@pytest.mark.parametrize("n_rows", [0, 1, 6, 7, 100])
def test_shares_are_equal_and_cover_every_row_once(size: int, n_rows: int) -> None:
    spans = [Share(rank, size).span(n_rows) for rank in range(size)]
    assert [row for first, end in spans for row in range(first, end)] == list(range(n_rows))
    lengths = [end - first for first, end in spans]
    assert max(lengths) - min(lengths) <= 1


def test_a_single_process_has_all_rows() -> None:
    assert ALL_ROWS.span(10) == (0, 10)
    assert Processes().share == ALL_ROWS
    assert Processes(2, 5).share == Share(2, 5)
