from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from builders.models import members_of, normal, random_warp, target_scaling

from sswim.ensemble import Mixture
from sswim.ensemble.mixture import equal_weights, mix
from sswim.members import Prediction
from sswim.members import density as density_module
from sswim.members.density import Density
from sswim.warps.output_warp import OutputMap

UNIT = target_scaling([0.0, 0.0], [1.0, 1.0])
PROBABILITIES = (1e-6, 0.05, 0.5, 0.95, 1 - 1e-6)


def prediction(generator: torch.Generator) -> Prediction:
    latent = normal(generator, 5, 2).square() + 0.1
    return Prediction(3 * normal(generator, 5, 2), latent, latent + 0.3)


def gaussian(generator: torch.Generator) -> Density:
    return Density(prediction(generator), OutputMap(), UNIT)


@pytest.fixture
def mixture(generator: torch.Generator) -> Mixture:
    return mix([gaussian(generator) for _ in range(3)], equal_weights(3))


@pytest.fixture
def warped(generator: torch.Generator) -> Mixture:
    """Members with different kinds of output warps; the first is the identity."""
    scaling = target_scaling([10.0, -3.0], [2.0, 0.5])
    with torch.no_grad():
        maps = [
            OutputMap(),
            random_warp("sinh-arcsinh", 2, generator, n_targets=2, spread=0.4).factors()[0],
            random_warp("tanh", 3, generator, n_targets=2, spread=0.4).factors()[0],
        ]
    members = tuple(Density(prediction(generator), output, scaling) for output in maps)
    return mix(members, equal_weights(len(members)))


def draws(mixture: Mixture, n: int, generator: torch.Generator) -> torch.Tensor:
    """Draw n observations from each member."""
    return torch.cat(
        [
            member.unwarp(
                member.warped.mean
                + member.warped.observation_variance.sqrt() * normal(generator, n, 5, 2)
            )
            for member in members_of(mixture)
        ]
    )


def test_moments_and_quantiles_against_draws(mixture: Mixture, generator: torch.Generator) -> None:
    values = draws(mixture, 300_000, generator)
    assert torch.allclose(values.mean(0), mixture.mean, atol=0.02)
    assert torch.allclose(values.var(0), mixture.observation_variance, rtol=0.02)
    for probability in (0.05, 0.5, 0.95):
        below = (values < mixture.quantile(probability)).double().mean(0)
        assert (below - probability).abs().max() < 0.003


def test_moments_and_quantiles_of_warped_members_against_draws(
    warped: Mixture, generator: torch.Generator
) -> None:
    values = draws(warped, 100_000, generator)
    n = len(values)
    scale = warped.observation_variance.sqrt()
    assert ((values.mean(0) - warped.mean).abs() < 4 * scale / n**0.5).all()
    squares = (values - values.mean(0)).square()
    error = (squares.mean(0) - warped.observation_variance).abs()
    assert (error < 4 * squares.std(0) / n**0.5).all()
    for probability in (0.05, 0.5, 0.95):
        below = (values < warped.quantile(probability)).double().mean(0)
        assert (below - probability).abs().max() < 0.003


def test_the_variance_without_noise_leaves_the_noise_out(mixture: Mixture) -> None:
    difference = mixture.observation_variance - mixture.without_noise().observation_variance
    assert torch.allclose(difference, torch.full_like(difference, 0.3))
    assert torch.allclose(mixture.noise_variance, torch.full_like(difference, 0.3))


def test_variances_of_warped_members(warped: Mixture) -> None:
    function = warped.without_noise()
    for mixture in (warped, function):
        means = torch.stack([member.mean for member in members_of(mixture)])
        within = torch.stack([member.observation_variance for member in members_of(mixture)])
        expected = within.mean(0) + means.var(0, correction=0)
        assert torch.allclose(mixture.observation_variance, expected)
    noise = torch.stack([member.noise_variance for member in members_of(warped)]).mean(0)
    assert torch.allclose(warped.noise_variance, noise)
    assert (function.observation_variance < warped.observation_variance).all()


def test_density_integrates_to_one_and_is_that_of_the_quantiles(mixture: Mixture) -> None:
    grid = torch.linspace(-40, 40, 200_001, dtype=torch.float64)
    density = torch.stack([mixture.log_density(value.expand(5, 2)).exp() for value in grid[::100]])
    step = (grid[100] - grid[0]).item()
    assert torch.allclose(density.sum(0) * step, torch.ones(5, 2, dtype=torch.float64), atol=1e-6)


def test_the_log_density_is_that_of_the_cumulatives_slope(warped: Mixture) -> None:
    for probability in PROBABILITIES:
        y = warped.quantile(probability).requires_grad_()
        (slope,) = torch.autograd.grad(warped.cdf(y).sum(), y)
        assert torch.allclose(warped.log_density(y), slope.log(), rtol=1e-9, atol=1e-9)


def test_the_cumulative_is_the_mean_of_the_members(warped: Mixture) -> None:
    y = warped.mean
    expected = torch.stack([member.cdf(y) for member in members_of(warped)]).mean(0)
    assert torch.allclose(warped.cdf(y), expected, rtol=1e-14)
    densities = torch.stack([member.log_density(y).exp() for member in members_of(warped)])
    assert torch.allclose(warped.log_density(y), densities.mean(0).log(), rtol=1e-12)


def test_one_member_is_the_gaussian_itself(generator: torch.Generator) -> None:
    alone = gaussian(generator)
    mixture = mix((alone,), equal_weights(1))
    assert torch.equal(mixture.mean, alone.mean)
    assert torch.equal(mixture.observation_variance, alone.observation_variance)
    normal_of_y = torch.distributions.Normal(alone.mean, alone.observation_variance.sqrt())
    for probability in (0.01, 0.3, 0.9):
        expected = normal_of_y.icdf(torch.tensor(probability, dtype=torch.float64))
        assert torch.allclose(mixture.quantile(probability), expected)


def test_one_warped_member_is_itself(warped: Mixture) -> None:
    for member in members_of(warped):
        alone = mix((member,), equal_weights(1))
        y = member.quantile(0.3)
        assert torch.equal(alone.quantile(0.3), y)
        assert torch.equal(alone.cdf(y), member.cdf(y))
        assert torch.allclose(alone.log_density(y), member.log_density(y), rtol=1e-14)
        for name in ("mean", "observation_variance", "noise_variance"):
            assert torch.equal(getattr(alone, name), getattr(member, name))
        ours, theirs = alone.without_noise(), member.without_noise()
        assert torch.equal(ours.observation_variance, theirs.observation_variance)


def test_quantiles_invert_the_distribution_function(mixture: Mixture) -> None:
    for probability in PROBABILITIES:
        value = mixture.quantile(probability)
        members = [
            torch.distributions.Normal(m.mean, m.observation_variance.sqrt()).cdf(value)
            for m in members_of(mixture)
        ]
        reached = torch.stack(members).mean(0)
        assert torch.allclose(reached, torch.full_like(reached, probability), rtol=1e-6)


@pytest.mark.parametrize("probability", PROBABILITIES)
def test_quantiles_of_warped_members_invert_the_cumulative(
    warped: Mixture, probability: float
) -> None:
    reached = warped.cdf(warped.quantile(probability))
    assert (reached - probability).abs().max() < 1e-8 * min(probability, 1 - probability)


@pytest.fixture
def students(generator: torch.Generator) -> Mixture:
    """A Gaussian member and two Student-t members, one of them with an output warp."""
    with torch.no_grad():
        output = random_warp("sinh-arcsinh", 2, generator, n_targets=2, spread=0.3).factors()[0]
    predictions = [prediction(generator) for _ in range(3)]
    for number, degrees in ((1, 9.0), (2, 30.0)):
        each = torch.full((5, 2), degrees, dtype=torch.float64)
        predictions[number] = replace(predictions[number], degrees=each)
    outputs = (OutputMap(), OutputMap(), output)
    members = (Density(p, o, UNIT) for p, o in zip(predictions, outputs, strict=True))
    return mix(tuple(members), torch.tensor([0.5, 0.2, 0.3], dtype=torch.float64))


def test_a_mixture_of_gaussians_and_student_ts(
    students: Mixture, generator: torch.Generator
) -> None:
    for probability in (1e-5, 0.05, 0.5, 0.95, 1 - 1e-5):
        value = students.quantile(probability)
        assert torch.allclose(
            students.cdf(value), torch.full((5, 2), probability, dtype=torch.float64), rtol=1e-6
        )
        step = 1e-4
        slope = (students.cdf(value + step) - students.cdf(value - step)) / (2 * step)
        assert torch.allclose(students.log_density(value).exp(), slope, rtol=1e-4, atol=1e-9)
    # Draws by the quantile function of each member.
    random = np.random.default_rng(0)
    values = []
    for member, weight in zip(members_of(students), students.weights.tolist(), strict=True):
        n = round(400_000 * weight)
        z = torch.from_numpy(random.standard_normal((n, 5, 2)))
        warped = member.warped
        if warped.degrees is not None:
            chi = random.chisquare(warped.degrees.numpy(), size=(n, 5, 2))
            z = z / torch.from_numpy(chi / (warped.degrees.numpy() - 2)).sqrt()
        values.append(member.unwarp(warped.mean + warped.observation_variance.sqrt() * z))
    drawn = torch.cat(values)
    deviation = students.observation_variance.sqrt()
    assert ((drawn.mean(0) - students.mean).abs() < 0.01 * deviation).all()
    assert torch.allclose(drawn.std(0), deviation, rtol=0.02)


def test_the_function_of_a_student_t_member_has_its_degrees(students: Mixture) -> None:
    function = students.without_noise()
    for ours, theirs in zip(function.densities, students.densities, strict=True):
        assert ours.warped.degrees is theirs.warped.degrees
    assert (function.observation_variance < students.observation_variance).all()
    assert (students.noise_variance > 0).all()


N_ROWS = 7
SCALING = target_scaling([10.0, -3.0], [2.0, 0.5])


def row_prediction(generator: torch.Generator, degrees: float | None = None) -> Prediction:
    latent = normal(generator, N_ROWS, 2).square() + 0.1
    many = None if degrees is None else torch.full((N_ROWS, 2), degrees, dtype=torch.float64)
    return Prediction(normal(generator, N_ROWS, 2), latent, latent + 0.3, many)


@pytest.fixture
def densities(generator: torch.Generator) -> list[Density]:
    """Members of every form, those of the same form not next to each other."""
    with torch.no_grad():
        maps = [
            random_warp(kind, 2, generator, n_targets=2, spread=0.4).factors()[0]
            for kind in ("sinh-arcsinh", "tanh", "sinh-arcsinh", "tanh")
        ]
    outputs = [*maps, OutputMap(), OutputMap(), maps[0]]
    degrees = [None, None, None, None, 9.0, None, 30.0]
    return [
        Density(row_prediction(generator, nu), output, SCALING)
        for nu, output in zip(degrees, outputs, strict=True)
    ]


@pytest.fixture
def weights(densities: list[Density], generator: torch.Generator) -> torch.Tensor:
    weights = torch.rand(len(densities), generator=generator, dtype=torch.float64)
    return weights / weights.sum()


@pytest.fixture
def batches(densities: list[Density], weights: torch.Tensor) -> Mixture:
    return mix(densities, weights)


def test_members_of_the_same_form_are_in_one_batch(batches: Mixture) -> None:
    shapes = [tuple(density.warped.mean.shape) for density in batches.densities]
    assert shapes == [(n_members, N_ROWS, 2) for n_members in (2, 2, 1, 1, 1)]


def test_batches_are_the_members_one_by_one(
    batches: Mixture,
    densities: list[Density],
    weights: torch.Tensor,
    generator: torch.Generator,
) -> None:
    def average(values: list[torch.Tensor]) -> torch.Tensor:
        return torch.einsum("m,mnt->nt", weights, torch.stack(values))

    y = SCALING.original_targets(normal(generator, N_ROWS, 2))
    mean = average([each.mean for each in densities])
    spread = [each.observation_variance + (each.mean - mean).square() for each in densities]
    assert torch.allclose(batches.mean, mean, rtol=1e-12)
    assert torch.allclose(batches.observation_variance, average(spread), rtol=1e-12)
    noise = average([each.noise_variance for each in densities])
    assert torch.allclose(batches.noise_variance, noise, rtol=1e-12)
    assert torch.allclose(batches.cdf(y), average([d.cdf(y) for d in densities]), rtol=1e-12)
    density = average([each.log_density(y).exp() for each in densities])
    assert torch.allclose(batches.log_density(y), density.log(), rtol=1e-10)


@pytest.mark.parametrize("n_members", [9, 42, 57])
def test_no_probability_is_above_one(n_members: int, densities: list[Density]) -> None:
    weights = torch.full((n_members,), 1 / n_members, dtype=torch.float64)  # a sum above one
    batches = mix(densities[5:6] * n_members, weights)
    for far, probability in ((-1e300, 0.0), (1e300, 1.0)):
        cdf = batches.cdf(torch.full((N_ROWS, 2), far, dtype=torch.float64))
        assert ((cdf >= 0) & (cdf <= 1)).all()
        assert cdf[0, 0].item() == pytest.approx(probability)


def test_quantiles_invert_the_cumulative(batches: Mixture) -> None:
    levels = torch.tensor([1e-12, 1e-6, 0.05, 0.5, 0.95, 1 - 1e-6], dtype=torch.float64)
    values = batches.quantiles(levels.tolist()).unbind(-1)
    for value, level in zip(values, levels.tolist(), strict=True):
        error = (batches.cdf(value) - level).abs().max().item()
        assert error < 1e-9 * min(level, 1 - level)


def test_quantiles_of_the_upper_tail_are_as_accurate_as_of_the_lower(
    densities: list[Density],
) -> None:
    """A symmetric mixture, whose quantiles lie symmetrically around its mean."""
    plain = replace(densities[5], scaling=target_scaling([0.0, 0.0], [1.0, 1.0]))
    mirrored = replace(plain, warped=replace(plain.warped, mean=-plain.warped.mean))
    both = mix([plain, mirrored], equal_weights(2))
    levels = torch.tensor([2.0**-33, 2.0**-20, 0.25], dtype=torch.float64)
    lower, upper = both.quantiles(levels.tolist()), both.quantiles((1 - levels).tolist())
    assert torch.allclose(lower, -upper, rtol=1e-11)


def test_quantiles_are_in_order(batches: Mixture) -> None:
    levels = torch.linspace(1e-4, 1 - 1e-4, 500, dtype=torch.float64)
    assert (batches.quantiles(levels.tolist()).diff(dim=-1) > 0).all()


def test_quantiles_between_far_modes() -> None:
    """Between the modes the density is zero to rounding, and no Newton step leads anywhere."""
    mean = torch.tensor([[0.0], [0.0]], dtype=torch.float64)
    narrow = Prediction(mean, 0 * mean + 1e-6, 0 * mean + 1e-6)
    scaling = target_scaling([0.0], [1.0])
    members = [
        Density(replace(narrow, mean=mean + place), OutputMap(), scaling) for place in (0.0, 1000.0)
    ]
    mixture = mix(members, torch.tensor([0.4, 0.6], dtype=torch.float64))
    levels = torch.tensor([0.1, 0.4, 0.41, 0.7], dtype=torch.float64)
    found = mixture.quantiles(levels.tolist())[0, 0]
    for level, value in zip(levels.tolist(), found, strict=True):
        assert mixture.cdf(value.expand(2, 1))[0, 0].item() == pytest.approx(level, abs=1e-10)
    assert found[0] < 0 < found[1] < found[2] < found[3]


def test_chunks_of_rows_do_not_change_results(
    densities: list[Density],
    weights: torch.Tensor,
    generator: torch.Generator,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def ask() -> list[torch.Tensor]:
        fresh: list[Density] = [replace(density) for density in densities]  # nothing is cached
        mixture = mix(fresh, weights)
        y = SCALING.original_targets(torch.zeros(N_ROWS, 2, dtype=torch.float64))
        return [
            mixture.mean,
            mixture.observation_variance,
            mixture.noise_variance,
            mixture.log_density(y),
            mixture.cdf(y),
            mixture.quantiles([0.1, 0.9]),
            fresh[0].mean,
            fresh[1].observation_variance,
        ]

    whole = ask()
    monkeypatch.setattr(density_module, "NODE_VALUES", {"cpu": 21 * 2 * 7 * 3})
    for ours, theirs in zip(ask(), whole, strict=True):
        assert torch.allclose(ours, theirs, rtol=1e-11)
