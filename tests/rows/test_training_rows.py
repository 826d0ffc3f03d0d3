from __future__ import annotations

from typing import Any

import pytest
import torch
from builders.models import small_rows

from sswim.base.record import Record
from sswim.distributed.processes import Processes
from sswim.rows import ArraySource, summary
from sswim.rows.memory_source import MemorySource, merge_copies
from sswim.rows.rows import Rows
from sswim.rows.scaling import learn_scaling
from sswim.rows.source import Source
from sswim.rows.stream import Stream
from sswim.rows.summary import summarise
from sswim.rows.training_rows import COPIES, TrainingRows, read_training_rows

N_ROWS = 40


@pytest.fixture
def rows(generator: torch.Generator) -> Rows:
    return small_rows(generator, n=N_ROWS, n_targets=2)


@pytest.fixture
def source(rows: Rows) -> Source:
    return ArraySource(rows.inputs.mean.numpy(), rows.targets.numpy())


def read(source: Source, **changes: Any) -> TrainingRows:
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


def test_each_process_gets_its_share_of_a_complete_sample(rows: Rows, source: Source) -> None:
    options: dict[str, Any] = {"memory": 0, "one_pass": False, "dtype": torch.float64}
    found, device = summarise(source), torch.device("cpu")
    parts = []
    for rank in range(3):
        processes = Processes(rank, 3)
        part = read_training_rows(source, found, device=device, processes=processes, **options)
        assert part.complete
        assert isinstance(part.everything, Rows)
        parts.append(part.everything.targets)
    assert torch.allclose(torch.cat(parts), learn_scaling(rows).targets(rows.targets), rtol=1e-12)


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
    everything = found.everything
    if isinstance(everything, Stream):
        everything = everything.in_memory()
    assert_close(everything, learn_scaling(rows).rows(rows))


def test_rows_in_memory_are_always_held(rows: Rows, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(summary, "SAMPLE_ROWS", 15)
    found = read(MemorySource(rows), memory=0, one_pass=True)
    assert isinstance(found.everything, Rows)
    assert len(found.everything) == N_ROWS


def test_a_model_that_keeps_its_rows_gets_them_all_in_every_process(
    rows: Rows, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = learn_scaling(rows).rows(rows)
    for sample_rows in (60_000, 15):  # all rows in the sample, or some of them
        monkeypatch.setattr(summary, "SAMPLE_ROWS", sample_rows)
        found = read(source, keep_rows=True, one_pass=True)
        assert isinstance(found.everything, Rows)
        assert found.n_rows == N_ROWS
        assert_close(found.everything, expected)
    monkeypatch.setattr(summary, "SAMPLE_ROWS", 60_000)
    for rank in range(3):
        part = read(source, keep_rows=True, processes=Processes(rank, 3))
        assert isinstance(part.everything, Rows)
        assert_close(part.everything, expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_of_more_rows_than_memory_holds_a_sample_is_kept(
    dtype: torch.dtype, rows: Rows, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(summary, "SAMPLE_ROWS", 15)
    memory = COPIES * 8 * (3 + 2 + 1) * 25
    with pytest.warns(UserWarning, match="hold 25 of 40 rows: a random sample of that size"):
        found = read(source, keep_rows=True, memory=memory, dtype=dtype)
    assert isinstance(found.everything, Rows)
    assert len(found.everything) == found.n_rows == 25
    assert found.everything.inputs.mean.dtype == dtype
    assert not found.complete  # the smaller sample is for starts and folds
    everything = learn_scaling(rows).rows(rows).targets
    # Each kept row is one of all rows, and no row is kept twice.
    places = (found.everything.targets[:, None] - everything).abs().sum(-1).argmin(-1)
    assert torch.allclose(everything[places], found.everything.targets, rtol=1e-12)
    assert len(places.unique()) == 25
    with pytest.warns(UserWarning, match="hold 15 of 40 rows"):  # no less than the sample
        assert read(source, keep_rows=True, memory=0).n_rows == 15


def test_rows_in_memory_are_all_kept_whatever_the_memory(
    rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(summary, "SAMPLE_ROWS", 15)
    found = read(MemorySource(rows), memory=0, keep_rows=True)
    assert isinstance(found.everything, Rows)
    assert_close(found.everything, learn_scaling(rows).rows(rows))


def test_weights_and_input_variances_are_kept(
    generator: torch.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(summary, "SAMPLE_ROWS", 15)
    rows = small_rows(generator, N_ROWS, weighted=True, uncertain=True)
    found = read(MemorySource(rows), keep_rows=True)
    assert isinstance(found.everything, Rows)
    assert_close(found.everything, learn_scaling(rows).rows(merge_copies(rows)))  # in their order
