from __future__ import annotations

import numpy as np
import pytest
import torch

from sswim.rows import ArraySource, IterableSource
from sswim.rows.rows import as_rows
from sswim.rows.source import MemorySource
from sswim.rows.summary import Summary, describe, summarise

N_ROWS = 701


def arrays(weighted: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    random = np.random.default_rng(1)
    x = random.normal(size=(N_ROWS, 4)) * [1.0, 1e-160, 1e160, 0.0] + [1e6, 0.0, 0.0, 0.1]
    y = random.normal(size=(N_ROWS, 2)) * [3.0, 1e-3] - 7
    return x, y, random.integers(0, 3, N_ROWS).astype(float) if weighted else None


def assert_same(ours: Summary, theirs: Summary) -> None:
    assert ours.n_rows == theirs.n_rows
    assert ours.weight == theirs.weight
    for mine, other in zip(ours.scaling.tensors(), theirs.scaling.tensors(), strict=True):
        assert torch.allclose(mine, other, rtol=1e-9, atol=0)
    assert torch.equal(ours.lowest, theirs.lowest)
    assert torch.equal(ours.highest, theirs.highest)
    for mine, other in zip(ours.sample.tensors(), theirs.sample.tensors(), strict=True):
        assert torch.equal(mine, other)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("size", [1, 13, 700, N_ROWS])
@pytest.mark.parametrize("most", [100, N_ROWS])
def test_a_source_has_the_same_summary_in_any_chunks(
    weighted: bool, size: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sswim.rows.summary.SAMPLE_ROWS", most)
    x, y, weight = arrays(weighted)
    cuts = [slice(first, first + size) for first in range(0, N_ROWS, size)]
    chunks = [(x[cut], y[cut], *([] if weight is None else [weight[cut]])) for cut in cuts]
    found = summarise(IterableSource(chunks))
    assert_same(found, summarise(ArraySource(x, y, weight)))
    assert found.complete == (most == N_ROWS)
    assert found.scaling.input_spread[3] == 1  # a constant column keeps its unit


def test_moments_are_those_of_numpy() -> None:
    x, y, _ = arrays(weighted=False)
    scaling = summarise(ArraySource(x, y)).scaling
    assert np.allclose(scaling.input_mean[:1], x.mean(0)[:1], rtol=1e-12)
    assert np.allclose(scaling.target_spread, y.std(0), rtol=1e-12)


def test_what_tells_rows_from_others() -> None:
    x, y, _ = arrays(weighted=False)
    facts = describe(summarise(MemorySource(as_rows(x, y))), ["a", "b", "c", "d"])
    assert facts["rows"] == N_ROWS
    assert list(facts["columns"]) == ["a", "b", "c", "d", "target 0", "target 1"]
    assert float(facts["columns"]["target 0"]["mean"]) == pytest.approx(y[:, 0].mean(), rel=1e-8)


@pytest.mark.parametrize("n", [0, 1])
def test_too_few_rows_are_refused(n: int) -> None:
    with pytest.raises(ValueError, match=f"at least 2 rows that count. Got {n}"):
        summarise(ArraySource(np.zeros((n, 2)), np.zeros(n)))


def test_rows_that_are_no_numbers_are_refused() -> None:
    x, y, _ = arrays(weighted=False)
    x[600, 2] = np.nan
    with pytest.raises(ValueError, match="1 NaN"):
        summarise(ArraySource(x, y))


def test_negative_weights_are_refused() -> None:
    x, y, _ = arrays(weighted=False)
    with pytest.raises(ValueError, match="non-negative"):
        summarise(IterableSource([(x[:3], y[:3], np.array([0.0, -1.0, 0.0]))]))


def test_chunks_of_different_widths_are_refused() -> None:
    x, y, _ = arrays(weighted=False)
    with pytest.raises(ValueError, match=r"same number of inputs and targets.*\(4, 2\).*\(3, 2\)"):
        summarise(IterableSource([(x, y), (x[:, :3], y)]))


def test_the_unit_of_weights_is_part_of_the_scaling() -> None:
    x, y, _ = arrays(weighted=False)
    whole = summarise(ArraySource(x, y)).scaling
    for weight in (2.0, 1 / N_ROWS, 1e5):
        scaling = summarise(ArraySource(x, y, np.full(N_ROWS, weight))).scaling
        assert scaling.weight_unit.item() == pytest.approx(weight, rel=1e-12)
        assert torch.allclose(scaling.target_spread, whole.target_spread, rtol=1e-9)


@pytest.mark.parametrize("most", [100, N_ROWS])
def test_a_wild_value_is_found_outside_the_sample_as_well(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sswim.rows.summary.SAMPLE_ROWS", most)
    x, y, _ = arrays(weighted=False)
    usual = summarise(ArraySource(x, y)).scaling
    outside = summarise(ArraySource(np.arange(N_ROWS)[:, None], y)).sample.inputs.mean[:, 0]
    row = next(n for n in range(N_ROWS) if most == N_ROWS or n not in outside.tolist())
    x[row, 0] = 1e15
    with pytest.warns(UserWarning, match="Column 0 of X has a value, 1e\\+15"):
        scaling = summarise(ArraySource(x, y)).scaling
    assert scaling.input_spread[0].item() == pytest.approx(usual.input_spread[0].item(), rel=0.2)
    assert torch.equal(scaling.input_spread[1:], usual.input_spread[1:])
    assert scaling.input_high[0] < 1e6 + 10
    assert scaling.input_high[1:].isinf().all()


def sphere_points(n_far: int) -> np.ndarray:
    """Return points on the unit sphere, most of them in a small town on top of it."""
    random = np.random.default_rng(0)
    far = random.normal(size=(n_far, 3))
    near = np.column_stack((1e-4 * random.normal(size=(500, 2)), np.ones(500)))
    points = np.concatenate((near, far))
    return points / np.linalg.norm(points, axis=1, keepdims=True)


@pytest.mark.parametrize("n_far", [0, 100])
def test_points_on_a_sphere_share_a_spread_and_are_never_wild(n_far: int) -> None:
    x = sphere_points(n_far)
    source = ArraySource(np.column_stack((x, x[:, :1])), x[:, 0])
    source.isotropic = ((0, 1, 2),)
    scaling = summarise(source).scaling  # a warning of wild inputs would be an error
    spread = scaling.input_spread
    assert spread[0] == spread[1] == spread[2]
    assert np.allclose(spread[0], np.sqrt(x.var(0).mean()), rtol=1e-9)
    assert spread[3] == pytest.approx(x[:, 0].std())
    assert scaling.input_low.isinf().all()


def test_points_on_a_line_have_its_spread() -> None:
    """Inputs that do not vary have no say in the unit of their group."""
    x = np.column_stack((np.linspace(-1e-3, 1e-3, 50), np.zeros(50), np.ones(50)))
    source = ArraySource(x, x[:, 0])
    source.isotropic = ((0, 1, 2),)
    spread = summarise(source).scaling.input_spread
    assert np.allclose(spread, x[:, 0].std() / np.sqrt(3))
