from __future__ import annotations

import pytest
import torch
from builders.models import assert_close, normal
from torch import Tensor

from sswim.base.record import stack_records
from sswim.rows import Measure
from sswim.warps import InputNormalScores, NormalScores, learn_normal_scores


def slopes(scores: NormalScores, values: Tensor) -> Tensor:
    """Return the slopes of the map, by the variance that it gives inputs of variance one."""
    variance = scores.forward(Measure(values, torch.ones_like(values))).variance
    assert variance is not None
    return variance.sqrt()


def mapped(scores: NormalScores, values: Tensor) -> Tensor:
    return scores.forward(Measure(values)).mean


@pytest.fixture
def sample(generator: torch.Generator) -> Tensor:
    """Columns: skewed, heavy-tailed, with few values, binary, constant."""
    x = normal(generator, 2000, 5)
    x[:, 0] = x[:, 0].exp()
    x[:, 1] = x[:, 1] ** 3
    x[:, 2] = x[:, 2].mul(2).round()
    x[:, 3] = (x[:, 3] > 1).to(x.dtype)
    x[:, 4] = -3.0
    return x


def test_a_skewed_sample_gets_normal_quantiles(sample: Tensor) -> None:
    skewed = sample[:, :2]
    scored = mapped(learn_normal_scores(skewed), skewed)
    levels = torch.tensor([0.02, 0.1, 0.25, 0.5, 0.75, 0.9, 0.98], dtype=torch.float64)
    expected = torch.special.ndtri(levels)
    for column in scored.unbind(-1):
        assert torch.allclose(column.quantile(levels), expected, atol=0.06)


def test_few_values_get_the_scores_of_their_mid_distribution() -> None:
    x = torch.tensor([[0.0], [0.0], [1.0], [5.0]], dtype=torch.float64)
    score = torch.special.ndtri(torch.tensor([0.25, 0.25, 0.625, 0.875], dtype=torch.float64))
    expected = (score - score.mean()) / score.std(correction=0)
    scores = learn_normal_scores(x)
    assert torch.allclose(mapped(scores, x)[:, 0], expected, rtol=1e-12)
    between = mapped(scores, torch.tensor([[3.0]], dtype=torch.float64))
    assert torch.allclose(between, expected[2:].mean(), rtol=1e-12)


def test_columns_are_standardised_and_a_constant_one_is_left(sample: Tensor) -> None:
    scores = learn_normal_scores(sample)
    scored = mapped(scores, sample)
    assert scored[:, :4].mean(0).abs().max() < 1e-12
    assert torch.allclose(scored[:, :4].std(0, correction=0), torch.ones(4, dtype=torch.float64))
    binary = sample[:, 3]
    expected = (binary - binary.mean()) / binary.std(correction=0)
    assert torch.allclose(scored[:, 3], expected, rtol=1e-12)
    assert torch.equal(scored[:, 4], sample[:, 4])
    anywhere = torch.linspace(-10, 10, 50, dtype=torch.float64)[:, None].expand(-1, 5)
    assert torch.allclose(mapped(scores, anywhere)[:, 4], anywhere[:, 4])


def test_values_alike_but_for_rounding_are_one() -> None:
    x = torch.tensor([[0.0], [5e-324], [1.0], [1 + 2**-52], [2.0]], dtype=torch.float64)
    alike = torch.tensor([[0.0], [0.0], [1.0], [1.0], [2.0]], dtype=torch.float64)
    anywhere = torch.linspace(-3, 5, 33, dtype=torch.float64)[:, None]
    ours, theirs = (mapped(learn_normal_scores(values), anywhere) for values in (x, alike))
    assert torch.allclose(ours, theirs, rtol=1e-12)
    constant = torch.tensor([[1.0], [1.0 + 2**-50], [1.0]], dtype=torch.float64)
    assert torch.allclose(mapped(learn_normal_scores(constant), constant), constant, rtol=1e-14)


@pytest.mark.parametrize("column", range(4))
def test_outside_the_outermost_slope_goes_on(column: int, sample: Tensor) -> None:
    values = sample[:, column : column + 1]
    scores, ordered = learn_normal_scores(values), values.unique()
    for end, sign in ((ordered[0], -1), (ordered[-1], 1)):
        beyond = torch.stack((end, end + sign, end + 3 * sign, end + 1000 * sign))[:, None]
        first, second, third, far = mapped(scores, beyond)[:, 0]
        assert torch.allclose(third - first, 3 * (second - first), rtol=1e-9)
        assert torch.allclose(far - first, 1000 * (second - first), rtol=1e-9)
        slope = slopes(scores, end[None, None])[0, 0]
        assert torch.allclose(second - first, sign * slope, rtol=1e-9)


@pytest.mark.parametrize("kind", ["points", "diagonal", "full"])
@pytest.mark.parametrize("own", [False, True], ids=["shared", "own"])
def test_a_batch_is_its_members(
    kind: str, own: bool, sample: Tensor, generator: torch.Generator
) -> None:
    members = [learn_normal_scores(part) for part in sample.chunk(3)]

    def measure() -> Measure:
        root = normal(generator, 7, 5, 5)
        variance = {"points": None, "diagonal": root[..., 0].square(), "full": root @ root.mT}
        return Measure(normal(generator, 7, 5), input_variance=variance[kind])

    inputs = [measure() for _ in members] if own else [measure()] * 3
    together = stack_records(members).forward(stack_records(inputs) if own else inputs[0])
    expected = stack_records([one.forward(each) for one, each in zip(members, inputs, strict=True)])
    assert_close(together, expected, 0.0)


def test_single_precision_stays_single(sample: Tensor) -> None:
    scores = learn_normal_scores(sample)
    single = sample.to(torch.float32)
    variance = torch.full_like(single, 0.1)
    ours = scores.forward(Measure(single, input_variance=variance))
    theirs = scores.forward(Measure(single.double(), input_variance=variance.double()))
    assert [tensor.dtype for tensor in ours.tensors()] == [torch.float32] * 2
    assert_close(ours.to(dtype=torch.float64), theirs, 1e-6)


def test_slopes_are_derivatives(sample: Tensor, generator: torch.Generator) -> None:
    scores, x, step = learn_normal_scores(sample), 2 * normal(generator, 200, 5), 1e-7
    difference = (mapped(scores, x + step) - mapped(scores, x - step)) / (2 * step)
    assert torch.allclose(slopes(scores, x), difference, rtol=1e-5, atol=1e-5)
    leaf = x.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(mapped(scores, leaf).sum(), leaf)
    assert torch.allclose(gradient, slopes(scores, x), rtol=1e-14)


def test_small_variances_against_draws(sample: Tensor, generator: torch.Generator) -> None:
    scores = learn_normal_scores(sample[:, :2])
    x = torch.tensor([1.7, -0.3], dtype=torch.float64)
    root = 1e-3 * normal(generator, 2, 2)
    draws = mapped(scores, x + normal(generator, 100_000, 2) @ root.mT)
    full = scores.forward(Measure(x[None], input_variance=(root @ root.mT)[None]))
    assert full.input_variance is not None
    assert torch.allclose(draws.mean(0), full.mean[0], atol=1e-4)
    assert torch.allclose(draws.mT.cov(), full.input_variance[0], rtol=0.05)
    marginal = (root @ root.mT).diagonal()[None]
    diagonal = scores.forward(Measure(x[None], input_variance=marginal)).input_variance
    assert diagonal is not None
    assert torch.allclose(diagonal[0], full.input_variance[0].diagonal(), rtol=1e-12)


def test_the_module_is_the_identity_until_it_is_started(sample: Tensor) -> None:
    module = InputNormalScores(5)
    assert torch.allclose(mapped(module.factors(), sample), sample, rtol=1e-14)
    module.start(sample)
    assert torch.equal(
        mapped(module.factors(), sample), mapped(learn_normal_scores(sample), sample)
    )
    assert not list(module.parameters())
