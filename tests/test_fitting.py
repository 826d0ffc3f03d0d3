from __future__ import annotations

import torch
from helpers import normal, small_rows

from sswim import fitting
from sswim.fitting import draw_generator, start_sample
from sswim.rows import Rows, as_rows


def test_the_start_looks_at_distinct_rows_that_count(generator: torch.Generator) -> None:
    rows = small_rows(generator)
    times = torch.randint(0, 3, (len(rows),), generator=generator)
    weighted = Rows(rows.inputs, rows.targets, times.double())
    repeated = rows.map(lambda t: t.repeat_interleave(times, dim=0))
    order = torch.randperm(len(repeated), generator=generator)
    shuffled = repeated.map(lambda t: t[order])
    expected = start_sample(weighted, generator)
    assert torch.equal(start_sample(shuffled, generator), expected)
    assert len(expected) == int((times > 0).sum())


def test_of_many_rows_some_are_enough(generator: torch.Generator) -> None:
    n = fitting.START_SAMPLE_ROWS + 100
    x = normal(generator, n, 1)
    assert len(start_sample(as_rows(x, x), generator)) == fitting.START_SAMPLE_ROWS


def test_an_integer_seeds_the_same_generator() -> None:
    first, again, other = (draw_generator(seed).initial_seed() for seed in (1, 1, 2))
    assert first == again != other
