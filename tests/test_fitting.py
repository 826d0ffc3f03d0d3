from __future__ import annotations

import numpy as np
import pytest
import torch
from helpers import SMALL, normal, small_rows

from sswim import fitting
from sswim.fitting import draw_generator, start_sample, train_members
from sswim.model import start
from sswim.objective import MAP
from sswim.rows import Rows, as_rows
from sswim.training import Adam, Step, train


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


@pytest.mark.parametrize(("n_members", "together"), [(1, 1), (3, 3), (3, 2)])
def test_members_are_trained_as_one_by_one(
    n_members: int, together: int, generator: torch.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fitting, "members_together", lambda *_: together)
    rows, adam = small_rows(generator, n=60), Adam(steps=10)
    seen: list[tuple[int, int]] = []

    def callback(member: int, step: Step) -> None:
        seen.append((member, step.index))

    models, trainings = train_members(n_members, SMALL, rows, MAP, adam, 5, None, "cpu", callback)
    batches = [range(n_members)[i : i + together] for i in range(0, n_members, together)]
    assert seen == [(m, step) for batch in batches for step in range(11) for m in batch]
    random = np.random.RandomState(5)
    for model, training in zip(models, trainings, strict=True):
        own = draw_generator(random)
        expected = start(SMALL, start_sample(rows, own), 1, own)
        alone = train(expected, rows, MAP, adam, device="cpu")
        assert model.batch == ()
        for name, tensor in expected.state_dict().items():
            assert torch.allclose(model.state_dict()[name], tensor, rtol=1e-8, atol=1e-10), name
        assert training.best.value == pytest.approx(alone.best.value, rel=1e-10)


def test_no_member_is_begun_after_a_callback_ends_the_training(
    generator: torch.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fitting, "members_together", lambda *_: 2)
    rows = small_rows(generator)
    models, trainings = train_members(
        6, SMALL, rows, MAP, Adam(steps=5), 0, None, "cpu", lambda member, step: member == 3
    )
    assert len(models) == 4
    assert [len(training.history) for training in trainings] == [6, 6, 1, 1]
