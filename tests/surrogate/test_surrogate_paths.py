from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from builders.models import normal
from builders.surrogates import (
    KINDS,
    bent_map,
    fitted_surrogate,
    small_gp,
    small_rows,
    small_surrogate,
    uniform,
)

from sswim.surrogate import surrogate as paths_module
from sswim.surrogate.surrogate import Surrogate


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.fixture
def few_frequencies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make draws cheap; averages over functions, which have their own frequencies, stay exact."""
    monkeypatch.setattr(paths_module, "N_FREQUENCIES", 16)


@pytest.mark.usefixtures("few_frequencies")
@pytest.mark.parametrize("known", [False, True])
@torch.no_grad()
def test_draws_have_the_moments_of_the_posterior(known: bool, generator: torch.Generator) -> None:
    surrogate = small_surrogate(small_gp(generator, n_rows=4, known=known))
    surrogate = surrogate.update(uniform(generator, 1, 2), normal(generator, 1))
    points = uniform(generator, 3, 2)
    n = 4000
    draws = surrogate.draw_paths(n, generator)(points[None])
    mean, covariance = surrogate.joint(points)
    assert draws.shape == (n, 3)
    assert ((draws.mean(0) - mean).abs() < 4 * draws.std(0) / n**0.5).all()
    centred = draws - mean
    products = centred[:, :, None] * centred[:, None]
    error = (products.mean(0) - covariance).abs()
    assert (error < 4 * products.std(0) / n**0.5).all()


@torch.no_grad()
def test_draws_pass_through_rows_without_noise(generator: torch.Generator) -> None:
    surrogate = small_surrogate(small_gp(generator, n_rows=5, noise=1e-12), bent_map(generator))
    rows = surrogate.gp.rows
    values = surrogate.draw_paths(7, generator)((rows.inputs + 0.5)[None])
    expected = surrogate.target_map.inverse(rows.targets)
    assert torch.allclose(values, expected.expand(7, -1), atol=1e-4)


@torch.no_grad()
def test_functions_do_not_depend_on_how_they_are_evaluated(generator: torch.Generator) -> None:
    functions = fitted_surrogate().draw_paths(6, generator)
    points = uniform(generator, 4, 6, 3, 2)
    each = functions(points)
    assert each.shape == (4, 6, 3)
    assert torch.equal(functions(points), each)
    assert torch.allclose(functions(points[2]), each[2], atol=1e-10)
    for number in range(6):
        shared = functions(points[:, number, None])
        assert shared.shape == (4, 6, 3)
        assert torch.allclose(shared[:, number], each[:, number], atol=1e-10)


@torch.no_grad()
def test_members_have_functions_by_their_weights(generator: torch.Generator) -> None:
    surrogate = small_surrogate(small_gp(generator))  # weights 1/36, 2/36, …
    drawn = surrogate.draw_paths(36, generator)
    lengths = surrogate.gp.factors.length_scales
    own = [(lengths == each).all(-1).nonzero().item() for each in drawn.gp.factors.length_scales]
    counts = [own.count(member) for member in range(len(KINDS))]
    assert sum(counts) == 36
    assert all(abs(count - member - 1) <= 1 for member, count in enumerate(counts))
    assert sorted(drawn.order.tolist()) == list(range(36))


@torch.no_grad()
def test_a_member_without_weight_has_no_function(generator: torch.Generator) -> None:
    surrogate = small_surrogate(small_gp(generator))
    for member in (0, 3, 5):
        weights = torch.zeros(len(KINDS), dtype=torch.float64)
        weights[member] = 1
        single = replace(surrogate, weights=weights)
        drawn = single.draw_paths(5, generator).gp.factors.length_scales
        assert torch.equal(drawn, surrogate.gp.factors.length_scales[member].expand(5, -1))


@torch.no_grad()
def test_seeds_repeat_draws(generator: torch.Generator) -> None:
    points = uniform(generator, 1, 4, 2)
    surrogate = fitted_surrogate()
    one, same, other = (surrogate.draw_paths(3, seeded(seed))(points) for seed in (1, 1, 2))
    assert torch.equal(one, same)
    assert not torch.allclose(one, other, atol=1e-6)


@pytest.mark.usefixtures("few_frequencies")
def test_gradients_are_exact(generator: torch.Generator) -> None:
    surrogate = small_surrogate(small_gp(generator), bent_map(generator))
    functions = surrogate.draw_paths(3, generator)
    for shape in ((1, 2, 2), (3, 2, 2), (2, 3, 2, 2)):
        points = uniform(generator, *shape).requires_grad_()
        assert torch.autograd.gradcheck(functions, (points,))


@torch.no_grad()
def test_functions_follow_new_rows(generator: torch.Generator) -> None:
    surrogate: Surrogate = small_surrogate(small_gp(generator, noise=1e-10))
    rows = small_rows(generator, 2)
    updated = surrogate.update(rows.inputs + 0.5, rows.targets)
    values = updated.draw_paths(4, generator)((rows.inputs + 0.5)[None])
    assert torch.allclose(values, rows.targets.expand(4, -1), atol=1e-3)
