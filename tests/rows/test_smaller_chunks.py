from __future__ import annotations

import pytest
import torch
from builders.models import small_rows

from sswim.base.record import concatenate, stack_records
from sswim.rows.rows import SmallerChunks


def test_chunks_are_cut_anew_in_every_pass(generator: torch.Generator) -> None:
    given = [small_rows(generator, n=n, weighted=True) for n in (10, 3, 7)]
    smaller = SmallerChunks(given, lambda rows: 4)
    expected = concatenate(given)
    for _ in range(2):
        found = list(smaller)
        assert [len(chunk) for chunk in found] == [4, 4, 2, 3, 4, 3]
        for ours, theirs in zip(concatenate(found).tensors(), expected.tensors(), strict=True):
            assert torch.equal(ours, theirs)


def test_the_size_may_depend_on_the_chunk(generator: torch.Generator) -> None:
    given = [small_rows(generator, n=n) for n in (10, 4)]
    found = SmallerChunks(given, lambda rows: len(rows) // 2)
    assert [len(chunk) for chunk in found] == [5, 5, 2, 2]


def test_an_empty_chunk_is_kept(generator: torch.Generator) -> None:
    rows = small_rows(generator, n=5)
    empty = rows.map(lambda tensor: tensor[:0])
    found = list(SmallerChunks([empty, rows], lambda rows: 3))
    assert [len(chunk) for chunk in found] == [0, 3, 2]
    assert found[0].inputs.mean.shape == (0, 3)


def test_members_with_rows_of_their_own_are_cut_along_the_rows(
    generator: torch.Generator,
) -> None:
    members = stack_records([small_rows(generator, n=5) for _ in range(2)])
    found = list(SmallerChunks([members], lambda rows: 3))
    assert [chunk.targets.shape for chunk in found] == [(2, 3, 1), (2, 2, 1)]
    assert torch.equal(torch.cat([c.targets for c in found], dim=1), members.targets)


def test_a_generator_is_an_error(generator: torch.Generator) -> None:
    with pytest.raises(ValueError, match="Got a generator, which can be read once"):
        SmallerChunks((rows for rows in [small_rows(generator)]), lambda rows: 3)
