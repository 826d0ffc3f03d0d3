from __future__ import annotations

import torch
from builders.surrogates import uniform

from sswim.surrogate.fitting import NEAR, distinct_rows


def test_near_copies_are_left_out(generator: torch.Generator) -> None:
    inputs = uniform(generator, 20, 3)
    copies = inputs[4:9] + 1e-4 * uniform(generator, 5, 3)
    found = distinct_rows(torch.cat((inputs, copies)))
    assert found.tolist() == list(range(20))


def test_a_chain_of_near_rows_is_thinned_and_not_lost() -> None:
    inputs = torch.arange(0, 1, 0.6 * NEAR, dtype=torch.float64)[:, None]
    found = distinct_rows(inputs)
    assert found[:3].tolist() == [0, 2, 4]
    assert len(found) == (len(inputs) + 1) // 2


def test_one_row_is_kept() -> None:
    assert distinct_rows(torch.zeros(4, 2, dtype=torch.float64)).tolist() == [0]
