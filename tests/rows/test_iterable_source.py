from __future__ import annotations

import numpy as np
import pytest
from builders.sources import arrays, assert_all_rows_once

from sswim.distributed.processes import Share
from sswim.rows import IterableSource


@pytest.mark.parametrize("size", [1, 2, 3, 11])
def test_shares_of_an_iterable_are_all_rows_once(size: int) -> None:
    x, y = arrays()
    assert_all_rows_once(IterableSource([(x[:4], y[:4]), (x[4:], y[4:])]), size)


def test_rows_that_processes_bring_have_numbers_of_their_own() -> None:
    x, y = arrays()
    shards = [
        IterableSource([(x[:6], y[:6])], dealt=True),
        IterableSource([(x[6:], y[6:])], dealt=True),
    ]
    numbers = [
        number
        for rank, shard in enumerate(shards)
        for chunk in shard.chunks(Share(rank, 2))
        for number in chunk.numbers
    ]
    assert len(set(numbers)) == 10


def test_weights_and_several_targets_of_an_iterable() -> None:
    x, y = arrays()
    weight = np.arange(10.0)
    [chunk] = IterableSource([(x, y, weight)]).chunks()
    assert chunk.weight is not None
    assert np.array_equal(chunk.weight, weight)
    assert IterableSource([(x, y)]).flat_targets
    assert not IterableSource([(x, y[:, None])]).flat_targets


def test_what_is_no_iterable_of_chunks_is_an_error() -> None:
    x, y = arrays()
    with pytest.raises(ValueError, match="Got a generator, which can be read once"):
        IterableSource(pair for pair in [(x, y)])
    with pytest.raises(ValueError, match="A chunk must have inputs of shape"):
        list(IterableSource([(x, y[:5])]).chunks())
