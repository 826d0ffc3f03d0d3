from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from builders.models import small_rows

from sswim.base.record import Record, concatenate
from sswim.distributed.processes import ALL_ROWS, Processes, Share
from sswim.rows import (
    COPIES,
    ArraySource,
    IterableSource,
    MemorySource,
    Rows,
    Source,
    Stream,
    learn_scaling,
    merge_copies,
    read_training_rows,
    summarise,
    summary,
)

N_ROWS = 40


@pytest.fixture
def rows(generator: torch.Generator) -> Rows:
    return small_rows(generator, n=N_ROWS, n_targets=2)


@pytest.fixture
def source(rows: Rows) -> Source:
    return ArraySource(rows.inputs.mean.numpy(), rows.targets.numpy())


def read(source: Source, **changes: Any) -> Any:
    options: dict[str, Any] = {"memory": 2**20, "one_pass": False, "dtype": torch.float64}
    options |= {"device": torch.device("cpu")} | changes
    return read_training_rows(source, summarise(source), **options)


def assert_close(ours: Record, theirs: Record) -> None:
    for mine, other in zip(ours.tensors(), theirs.tensors(), strict=True):
        assert torch.allclose(mine, other, rtol=1e-12, atol=1e-12)


def test_few_rows_are_all_in_the_sample(rows: Rows, source: Source) -> None:
    found = read(source)
    expected = learn_scaling(rows).rows(rows)
    assert found.complete
    assert found.n_rows == N_ROWS
    assert isinstance(found.everything, Rows)
    for part in (found.sample, found.everything, found.device_sample):
        assert_close(part, expected)
    assert torch.allclose(found.lowest, expected.targets.amin(0), rtol=1e-12)
    assert torch.allclose(found.highest, expected.targets.amax(0), rtol=1e-12)


@pytest.mark.parametrize(
    ("changes", "held"),
    [({}, True), ({"memory": 0}, False), ({"one_pass": True}, False)],
    ids=["enough memory", "no memory", "one pass"],
)
def test_many_rows_are_held_if_they_fit_and_are_read_more_than_once(
    changes: dict[str, Any],
    held: bool,
    rows: Rows,
    source: Source,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(summary, "SAMPLE_ROWS", 15)
    found = read(source, **changes)
    assert not found.complete
    assert len(found.sample) == 15
    assert found.n_rows == N_ROWS
    assert isinstance(found.everything, Rows) == held
    everything = found.everything if held else found.everything.in_memory()
    assert_close(everything, learn_scaling(rows).rows(rows))


def test_a_model_that_keeps_its_rows_gets_them_all_in_every_process(
    rows: Rows, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = learn_scaling(rows).rows(rows)
    assert read(source).kept is None
    for sample_rows in (60_000, 15):  # all rows in the sample, or some of them
        monkeypatch.setattr(summary, "SAMPLE_ROWS", sample_rows)
        found = read(source, keep_rows=True, one_pass=True)
        assert found.n_rows == N_ROWS
        assert_close(found.everything, expected)
        assert_close(found.kept, expected)
    monkeypatch.setattr(summary, "SAMPLE_ROWS", 60_000)
    parts = [read(source, keep_rows=True, processes=Processes(rank, 3)) for rank in range(3)]
    assert_close(concatenate(part.everything for part in parts), expected)
    for part in parts:
        assert_close(part.kept, expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_of_more_rows_than_memory_holds_a_sample_is_kept(
    dtype: torch.dtype, rows: Rows, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(summary, "SAMPLE_ROWS", 15)
    memory = COPIES * 8 * (3 + 2 + 1) * 25
    with pytest.warns(UserWarning, match="hold 25 of 40 rows: a random sample of that size"):
        found = read(source, keep_rows=True, memory=memory, dtype=dtype)
    assert len(found.kept) == 25
    assert found.kept.inputs.mean.dtype == dtype
    assert found.n_rows == N_ROWS
    assert not found.complete  # the smaller sample is for starts and folds
    everything = learn_scaling(rows).rows(rows).targets
    # Each kept row is one of all rows, and no row is kept twice.
    places = (found.kept.targets[:, None] - everything).abs().sum(-1).argmin(-1)
    assert torch.allclose(everything[places], found.kept.targets, rtol=1e-12)
    assert len(places.unique()) == 25
    assert len(found.everything.in_memory()) == N_ROWS  # members by features use all rows
    with pytest.warns(UserWarning, match="hold 15 of 40 rows"):  # no less than the sample
        assert len(read(source, keep_rows=True, memory=0).kept) == 15


@pytest.mark.parametrize("keep_rows", [False, True])
def test_rows_in_memory_are_always_held_with_weights_and_input_variances(
    keep_rows: bool, generator: torch.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(summary, "SAMPLE_ROWS", 15)
    rows = small_rows(generator, N_ROWS, weighted=True, uncertain=True)
    source = MemorySource(rows)
    found = read(source, memory=0, one_pass=True, keep_rows=keep_rows)
    held = found.kept if keep_rows else found.everything
    assert_close(held, summarise(source).scaling.rows(merge_copies(rows)))  # in their order


@pytest.mark.parametrize("sample_rows", [60_000, 15])
def test_weights_are_in_their_unit(
    sample_rows: int, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All rows twice, or all with a weight of 1,000, are rows that count once."""
    monkeypatch.setattr(summary, "SAMPLE_ROWS", sample_rows)
    thousand = torch.full((N_ROWS,), 1000.0, dtype=torch.float64)
    for changed in (concatenate([rows, rows]), replace(rows, weight=thousand)):
        found = read(MemorySource(changed), keep_rows=True)
        assert found.n_rows == N_ROWS
        assert found.sample.weight is None
        for part in (found.everything, found.kept):
            assert part.weight is None or bool((part.weight == 1).all())


CPU = torch.device("cpu")


def streamed(rows: Rows, share: Share = ALL_ROWS, dtype: str = "float64") -> Stream:
    """Return a stream of a source with chunks of seven rows."""
    arrays = rows.inputs.mean.numpy(), rows.targets.numpy()
    cuts = [slice(first, first + 7) for first in range(0, len(rows), 7)]
    source = IterableSource([tuple(array[cut] for array in arrays) for cut in cuts])
    return Stream(source, share, learn_scaling(rows), getattr(torch, dtype), CPU)


def test_rows_are_standardised_in_every_pass(rows: Rows) -> None:
    expected = learn_scaling(rows).rows(rows)
    stream = streamed(rows)
    for _ in range(2):
        assert [len(chunk) for chunk in stream] == [*[7] * 5, 5]
        found = stream.in_memory()
        assert torch.equal(found.inputs.mean, expected.inputs.mean)
        assert torch.equal(found.targets, expected.targets)
    single = streamed(rows, dtype="float32").in_memory()
    assert torch.equal(single.inputs.mean, expected.inputs.mean.float())
    assert torch.equal(single.targets, expected.targets)


def test_a_share_without_rows_is_one_empty_chunk(rows: Rows) -> None:
    [chunk] = streamed(rows, share=Share(7, 8), dtype="float32")  # there are only six chunks
    assert chunk.inputs.mean.shape == (0, 3)
    assert chunk.inputs.mean.dtype == torch.float32
    assert chunk.targets.shape == (0, 2)
