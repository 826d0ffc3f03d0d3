from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from builders.models import OUTPUT_WARPS, normal, random_warp
from scipy.stats import norm
from torch import Tensor

from sswim.warps import OutputMap, OutputWarp, OutputWarpName, SinhArcsinhMap, TanhMap

SPREADS = [1.0, 10.0]
"""Standard deviations of the parameters: that of the prior, and one that reaches their bounds."""


of_all_kinds = pytest.mark.parametrize(("kind", "n_terms"), OUTPUT_WARPS)
near_and_far = pytest.mark.parametrize("far", [False, True])


@torch.no_grad()
def many_maps(
    kind: OutputWarpName, n_terms: int, generator: torch.Generator, spread: float
) -> OutputMap:
    """Make random maps for forty targets."""
    return random_warp(kind, n_terms, generator, n_targets=40, spread=spread).factors()[0]


def values(*, far: bool) -> Tensor:
    """Return the same values for forty targets: near those of the data, or up to a million."""
    if far:
        column = torch.logspace(1, 6, 50, dtype=torch.float64)
        column = torch.cat((-column.flip(0), column))
    else:
        column = torch.linspace(-6, 6, 601, dtype=torch.float64)
    return column[:, None].expand(-1, 40)


def slopes(function: Callable[[Tensor], Tensor], at: Tensor) -> Tensor:
    """Return slopes by autograd; zero where a hyperbolic sine was kept from overflowing."""
    leaf = at.clone().requires_grad_()
    return torch.autograd.grad(function(leaf).sum(), leaf)[0]


@pytest.mark.parametrize(("kind", "n_terms"), [*OUTPUT_WARPS, (None, 0)])
@near_and_far
@torch.no_grad()
def test_zero_and_no_map_are_the_identity(
    kind: OutputWarpName | None, n_terms: int, far: bool
) -> None:
    output = OutputMap() if kind is None else OutputWarp(kind, n_terms, 40).factors()[0]
    y = values(far=far)
    z, log_slope = output.forward(y)
    for found in (z, output.inverse(y)):
        assert ((found - y).abs() <= (1e-14 if kind else 0) * (1 + y.abs())).all()
    assert log_slope.abs().max() <= (1e-14 if kind else 0)


@torch.no_grad()
def test_the_maps_against_their_formulas(generator: torch.Generator) -> None:
    y = normal(generator, 7, 1)
    a, b, e, d = (normal(generator, 2, 1) for _ in range(4))
    expected = y
    for k in range(2):
        angle = e[k] + d[k].exp() * (a[k] + b[k].exp() * expected).asinh()
        expected = angle.sinh()
    end = torch.full((1,), torch.inf, dtype=torch.float64)
    ours = SinhArcsinhMap(a, b, e, d, -end, end).forward(y)[0]
    assert torch.allclose(ours, expected, rtol=1e-13)
    shift, location, log_steepness = normal(generator, 1), normal(generator, 3, 1), e[:1] / 2
    slope = torch.tensor([[-0.3], [0.1], [2.0]], dtype=torch.float64)
    steepness = log_steepness.exp().expand(3, 1)
    expected = shift + y
    for k in range(3):
        expected = expected + slope[k] / steepness[k] * (steepness[k] * (y - location[k])).tanh()
    ours = TanhMap(shift, location, log_steepness.expand(3, 1), slope).forward(y)[0]
    assert torch.allclose(ours, expected, rtol=1e-13)


@of_all_kinds
@pytest.mark.parametrize("spread", SPREADS)
@near_and_far
def test_maps_increase_with_the_slope_that_they_say(
    kind: OutputWarpName, n_terms: int, spread: float, far: bool, generator: torch.Generator
) -> None:
    """Strictly below the limit of overflow; beyond it they do not decrease."""
    output, y = many_maps(kind, n_terms, generator, spread), values(far=far)
    z, log_slope = output.forward(y)
    slope = slopes(lambda y: output.forward(y)[0], y)
    moving = slope > 0
    if kind == "tanh" or n_terms == 1 or (spread == 1 and not far):
        assert moving.all()
    assert moving.double().mean() > 0.5
    assert (z.diff(dim=0)[moving[1:] & moving[:-1]] > 0).all()
    assert (z.diff(dim=0) >= 0).all()
    assert torch.allclose(log_slope[moving], slope.log()[moving], rtol=1e-9, atol=1e-9)


@of_all_kinds
@pytest.mark.parametrize(("spread", "least"), [(1.0, 0.9), (10.0, 0.5)])
@near_and_far
def test_the_inverse_undoes_the_map_and_the_map_the_inverse(
    kind: OutputWarpName,
    n_terms: int,
    spread: float,
    least: float,
    far: bool,
    generator: torch.Generator,
) -> None:
    """Also at the limits of the parameters, with slopes far below one, or far above.

    Where T is flat, one rounding error of z equals many of y, and where T is steep one of y equals
    many of z: no inverse can do better. So the smaller of the two errors counts.
    """
    output = many_maps(kind, n_terms, generator, spread)

    def assert_small(y: Tensor, z: Tensor, y_error: Tensor, z_error: Tensor) -> None:
        moving = slopes(lambda y: output.forward(y)[0], y) != 0
        moving &= slopes(output.inverse, z) != 0
        assert moving.double().mean() > least
        error = torch.fmin(y_error.abs() / (1 + y.abs()), z_error.abs() / (1 + z.abs()))
        assert (error[moving] < 1e-10).all()

    y = values(far=far)
    z, log_slope = output.forward(y)
    error = output.inverse(z) - y
    assert_small(y, z, error, error * log_slope.exp())
    back = output.inverse(y)
    again, log_slope = output.forward(back)
    assert_small(back, y, (again - y) * (-log_slope).exp(), again - y)


@of_all_kinds
def test_gradients_of_the_inverse(
    kind: OutputWarpName, n_terms: int, generator: torch.Generator
) -> None:
    with torch.no_grad():
        output = random_warp(kind, n_terms, generator, spread=0.5).factors()[0]
    z = normal(generator, 2, 3)
    assert torch.autograd.gradcheck(output.inverse, z.clone().requires_grad_())
    assert torch.equal(output.inverse(z.clone().requires_grad_()), output.inverse(z))


@of_all_kinds
@pytest.mark.parametrize("spread", SPREADS)
def test_gradients(
    kind: OutputWarpName, n_terms: int, spread: float, generator: torch.Generator
) -> None:
    """With respect to the targets and the parameters, through their prior and bound.

    Finite differences of a steep map are accurate only for its arcsinh, and at the bounds only for
    its log slope.
    """
    module = random_warp(kind, n_terms, generator, n_targets=2, spread=spread)

    def run(y: Tensor) -> tuple[Tensor, ...]:
        output, prior = module.factors()
        z, log_slope = output.forward(y)
        return (z.asinh(), log_slope, prior) if spread == 1 else (log_slope, prior)

    check_gradients(module, run, normal(generator, 4, 2))


def check_gradients(module: OutputWarp, run: Callable[[Tensor], Any], y: Tensor) -> None:
    """Check derivatives in the targets and the parameters."""

    def called(coordinates: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        return torch.func.functional_call(module, {"coordinates": coordinates}, (y,))

    module.forward = run
    start = module.coordinates.detach().clone().requires_grad_()
    torch.autograd.gradcheck(called, (start, y.requires_grad_()))


@of_all_kinds
@torch.no_grad()
def test_the_prior_is_standard_normal_and_targets_are_those_apart(
    kind: OutputWarpName, n_terms: int, generator: torch.Generator
) -> None:
    module = random_warp(kind, n_terms, generator, n_targets=3)
    output, prior = module.factors()
    expected = -norm.logpdf(module.coordinates.numpy()).sum()
    assert prior.item() == pytest.approx(expected, rel=1e-12)
    y = normal(generator, 2, 11, 3)  # draws of rows
    together = *output.forward(y), output.inverse(y)
    for t in range(3):
        alone = OutputWarp(kind, n_terms, 1)
        alone.coordinates.copy_(module.coordinates[:, t : t + 1])
        assert_same(
            alone.factors()[0], y[..., t : t + 1], [part[..., t : t + 1] for part in together]
        )


def assert_same(output: OutputMap, y: Tensor, expected: Sequence[Tensor]) -> None:
    """Check the map, its log slope and its inverse."""
    for ours, theirs in zip((*output.forward(y), output.inverse(y)), expected, strict=True):
        assert ours.shape == theirs.shape
        assert torch.allclose(ours, theirs, rtol=1e-12, atol=1e-14)


@of_all_kinds
@pytest.mark.parametrize("spread", SPREADS)
@torch.no_grad()
def test_no_target_is_too_large_for_an_answer(
    kind: OutputWarpName, n_terms: int, spread: float, generator: torch.Generator
) -> None:
    """Powers of 1e30 would overflow; results stay finite, huge, and of the right sign."""
    output = many_maps(kind, n_terms, generator, spread)
    y = torch.tensor([[-1e30], [1e30]], dtype=torch.float64).expand(-1, 40)
    z, log_slope = output.forward(y)
    back = output.inverse(y)
    for finite in (z, log_slope, back):
        assert finite.isfinite().all()
    for low, high in (z, back):
        assert (low < high).all()
    if kind == "tanh":  # its tails are those of the identity
        assert torch.allclose(z, y, rtol=1e-15)
        assert not log_slope.any()


@of_all_kinds
@pytest.mark.parametrize("sign", [-1, 1])
def test_parameters_have_a_limit(kind: OutputWarpName, n_terms: int, sign: int) -> None:
    module = OutputWarp(kind, n_terms, 2)
    with torch.no_grad():
        module.coordinates.fill_(sign * 1e6)
    output, prior = module.factors()
    if isinstance(output, TanhMap):
        assert output.shift.abs().max() <= 4
        assert output.log_steepness.abs().max() <= 4
        assert output.location.abs().max() <= 4 + 2  # 2 for the quantiles they start from
        assert (n_terms * output.slope > -1).all()
    else:
        assert isinstance(output, SinhArcsinhMap)
        parameters = output.shift, output.log_scale, output.skewness, output.log_tail
        assert all(tensor.abs().max() <= 4 for tensor in parameters)
        assert output.log_tail.exp().max() <= 4
        assert output.log_tail.exp().min() >= 1 / 4
    _, log_slope = output.forward(torch.zeros(1, 2, dtype=torch.float64))
    (log_slope.sum() + prior).backward()
    assert module.coordinates.grad is not None
    assert module.coordinates.grad.isfinite().all()


def ranged(n_terms: int, generator: torch.Generator, n_targets: int) -> tuple[OutputWarp, Tensor]:
    """Make a warp with a range, and targets that fill it exactly."""
    module = random_warp("sinh-arcsinh", n_terms, generator, n_targets, spread=0.5)
    y = normal(generator, 50, n_targets)
    module.set_range(y.amin(0), y.amax(0))
    return module, y


@pytest.mark.parametrize("n_terms", [1, 2])
def test_within_the_range_of_the_targets_nothing_changes(
    n_terms: int, generator: torch.Generator
) -> None:
    """Neither values nor gradients change, not even at the ends of the range."""
    module, y = ranged(n_terms, generator, 3)

    def results() -> list[Tensor]:
        output, _ = module.factors()
        z, log_slope = output.forward(y)
        gradients = torch.autograd.grad((z.square() + log_slope).sum(), module.coordinates)
        return [*gradients, z.detach(), log_slope.detach(), output.inverse(z).detach()]

    bounded = results()
    everything = torch.full((3,), torch.inf, dtype=torch.float64)
    module.set_range(-everything, everything)
    for one, other in zip(bounded, results(), strict=True):
        assert torch.allclose(one, other, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("n_terms", [1, 2])
@torch.no_grad()
def test_beyond_the_targets_a_map_is_its_tangent_and_has_an_inverse(
    n_terms: int, generator: torch.Generator
) -> None:
    module, _ = ranged(n_terms, generator, 3)
    output = module.factors()[0]
    for edge, sign in ((module.low, -1), (module.high, 1)):
        value, log_slope = output.forward(edge[None])
        for distance in (1e-3, 1.0, 1e3, 1e30):
            z, its_log_slope = output.forward(edge[None] + sign * distance)
            assert torch.allclose(z, value + sign * distance * log_slope.exp(), rtol=1e-12)
            assert torch.equal(its_log_slope, log_slope)
            back = output.inverse(value + sign * distance)
            expected = edge + sign * distance * (-log_slope).exp()
            assert torch.allclose(back, expected, rtol=1e-10)
    y = torch.linspace(-30, 30, 2001, dtype=torch.float64)[:, None].expand(-1, 3)
    z, back = output.forward(y)[0], output.inverse(y)
    for increasing, same in ((z, output.inverse(z)), (back, output.forward(back)[0])):
        assert (increasing.diff(dim=0) > 0).all()
        assert torch.allclose(same, y, rtol=1e-10, atol=1e-10)


def test_tangents_have_gradients(generator: torch.Generator) -> None:
    module, _ = ranged(2, generator, 2)

    def run(y: Tensor) -> tuple[Tensor, ...]:
        output, _ = module.factors()
        return *output.forward(y), output.inverse(y)

    y = torch.tensor([[-7.0, -5.0], [0.1, 0.2], [6.0, 9.0]], dtype=torch.float64)
    check_gradients(module, run, y)
