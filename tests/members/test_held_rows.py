from __future__ import annotations

import pytest
import torch
from builders.models import small_rows

from sswim.members.member import append_rows, count_rows


def test_rows_count_by_their_weights(generator: torch.Generator) -> None:
    assert count_rows(small_rows(generator, 9)) == 9
    weighted = small_rows(generator, 9, weighted=True)
    assert weighted.weight is not None
    assert count_rows(weighted) == weighted.weight.sum()


def test_weights_and_variances_of_either_part_are_kept(generator: torch.Generator) -> None:
    plain = small_rows(generator, 5)
    other = small_rows(generator, 4, weighted=True, uncertain=True)
    for first, second in ((plain, other), (other, plain)):
        joined = append_rows(first, second)
        assert len(joined) == 9
        total = (count_rows(plain) + count_rows(other)).item()
        assert count_rows(joined).item() == pytest.approx(total, rel=1e-14)
        assert joined.inputs.input_variance is not None
        assert (joined.inputs.input_variance == 0).all(-1).sum() == 5


def test_copies_are_merged(generator: torch.Generator) -> None:
    rows = small_rows(generator, 6)
    joined = append_rows(rows, rows.map(lambda tensor: tensor[:2]))
    assert len(joined) == 6
    assert count_rows(joined) == 8
