"""Where the training of a model starts: its parameters, screening, and directions of the inputs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from builders.models import SMALL, normal, small_model, small_rows
from torch import Tensor
from torch.distributions import MultivariateNormal, Normal

from sswim.base.cholesky import FactorisationError
from sswim.base.record import concatenate
from sswim.members import Architecture, enrich, start, supervised_directions
from sswim.members.model import stack_models, warped_measures
from sswim.members.start import (
    CERTAINTY,
    FEW_ROWS,
    MAX_ROWS,
    MIN_RIDGE_OF_FEW,
    RIDGES,
    Candidate,
    choose,
    evaluate,
    screen,
    starting_points,
)
from sswim.rows import Measure, Rows, as_rows, merge_copies
from sswim.warps.projection import principal_directions


def seeded() -> torch.Generator:
    return torch.Generator().manual_seed(0)


@torch.no_grad()
def test_a_started_model_warps_nothing_and_has_the_given_variances(
    generator: torch.Generator,
) -> None:
    x, values = normal(generator, 40, 3), torch.tensor([0.5, 3.0], dtype=torch.float64)
    architecture = Architecture(depth=2, n_frequencies=8, n_pseudo=6)
    default = start(architecture, x, 2, generator)
    measures = warped_measures(default.factors()[0], Measure(x))
    assert torch.equal(measures[-1].mean, x)
    assert torch.equal(default.signal(), torch.ones(2, dtype=torch.float64))
    assert torch.allclose(default.noise(), torch.full((2,), 0.1, dtype=torch.float64))
    model = start(architecture, x, 2, generator, signal=values, noise=values.flip(0))
    assert torch.allclose(model.signal(), values)
    assert torch.allclose(model.noise(), values.flip(0))
    # Length-scales are in units of the inputs' spread, and a constant column does no harm.
    x = 5 + x * torch.tensor([1.0, 10.0, 0.0], dtype=torch.float64)
    spread = x.std(0, correction=0)
    spread[2] = 1
    model, short = start(SMALL, x, 1, generator), start(SMALL, x, 1, generator, length_scale=0.1)
    assert torch.allclose(model.spectrum.length_scales(), math.sqrt(3) * spread)
    assert torch.allclose(short.spectrum.length_scales(), 0.1 * spread)
    for gp in model.warp_layers()[0].gps():
        assert ((gp.pseudo_inputs[:, 2] - 5).abs() < 1).all()


@torch.no_grad()
def test_a_model_of_normal_scores_starts_from_them(generator: torch.Generator) -> None:
    x = normal(generator, 400, 2).mul(2).exp()
    architecture = Architecture(
        n_frequencies=8, n_pseudo=100, inputs="normal-scores", noise="input-dependent"
    )
    model = start(architecture, x, 1, generator)
    scored, top = warped_measures(model.factors()[0], Measure(x))
    assert torch.allclose(scored.mean.std(0, correction=0), torch.ones(2, dtype=torch.float64))
    assert torch.equal(top.mean, scored.mean)
    root = torch.full((2,), 2.0, dtype=torch.float64).sqrt()
    assert torch.allclose(model.spectrum.log_length_scales.exp(), root)
    assert model.noise_field is not None  # of the raw inputs
    raw = model.noise_field.spectrum.log_length_scales.exp()
    assert torch.allclose(raw, root * x.std(0, correction=0))
    pseudo = model.warp_layers()[0].gps()[1].pseudo_inputs
    assert torch.cdist(pseudo, scored.mean).amin(-1).max() < 0.5


@pytest.mark.parametrize(
    "changes",
    [
        {"depth": 2, "inputs": "normal-scores"},
        {"depth": 1, "n_warp_frequencies": 4, "output_warp": "tanh", "noise": "input-dependent"},
        {"depth": 0},
    ],
    ids=str,
)
@torch.no_grad()
def test_an_enriched_model_differs_in_its_top_features_alone(
    changes: dict[str, Any], generator: torch.Generator
) -> None:
    rows = small_rows(generator)
    model = small_model(rows, generator, **changes)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    richer = enrich(model, 10, generator)
    assert richer.architecture.n_frequencies == 16
    assert richer.architecture.warp_frequencies == model.architecture.warp_frequencies
    state = richer.state_dict()
    assert state.keys() == before.keys()
    for name, tensor in before.items():
        assert torch.equal(model.state_dict()[name], tensor)
        assert torch.equal(state[name][: len(tensor)] if tensor.ndim else state[name], tensor)
    measures = (warped_measures(each.factors()[0], rows.inputs) for each in (model, richer))
    for ours, theirs in zip(*measures, strict=True):
        assert torch.equal(ours.mean, theirs.mean)
    with pytest.raises(ValueError, match="take it apart"):
        enrich(stack_models([model, model]), 3, generator)


# Screening.


def standardised(x: np.ndarray, y: np.ndarray) -> Rows:
    return as_rows((x - x.mean(0)) / x.std(0), (y - y.mean()) / y.std())


@pytest.fixture
def features(generator: torch.Generator) -> Tensor:
    return normal(generator, 30, 8)


@pytest.fixture
def targets(features: Tensor, generator: torch.Generator) -> Tensor:
    return features @ normal(generator, 8, 2) + normal(generator, 30, 2)


def test_the_best_signal_and_ridge_are_those_of_the_dense_evidence(
    features: Tensor, targets: Tensor
) -> None:
    """The evidence is that of z ~ N(0, s²ΦΦᵀ + σ²I), and nothing else that is tried is better."""
    found = evaluate(1.0, features, targets)
    total = 0.0
    for target in range(2):
        column = targets[:, target]

        def evidence(signal: float, ridge: float, column: Tensor = column) -> float:
            covariance = features @ features.mT + ridge * torch.eye(30, dtype=torch.float64)
            model = MultivariateNormal(torch.zeros_like(column), signal * covariance)
            return -model.log_prob(column).item()

        signal, ridge = found.signal[target].item(), found.ridge[target].item()
        best = evidence(signal, ridge)
        total += best
        for factor in (0.5, 0.99, 1.01, 2.0):
            assert evidence(factor * signal, ridge) > best
        for other in RIDGES[RIDGES >= MIN_RIDGE_OF_FEW].tolist():
            assert evidence(signal, other) >= best - 1e-9
    assert found.value == pytest.approx(total, rel=1e-10)


def test_rows_are_predicted_without_themselves(features: Tensor, targets: Tensor) -> None:
    """The densities are those of 30 fits, each without one row."""
    found = evaluate(1.0, features, targets)
    for row in range(30):
        kept = torch.arange(30) != row
        expected = 0.0
        for target in range(2):
            ridge = found.ridge[target]
            noise = found.signal[target] * ridge
            known = features[kept]
            precision = known.mT @ known + ridge * torch.eye(8, dtype=torch.float64)
            mean = features[row] @ torch.linalg.solve(precision, known.mT @ targets[kept, target])
            variance = noise * features[row] @ torch.linalg.solve(precision, features[row])
            deviation = (variance + noise).sqrt()
            expected += Normal(mean, deviation).log_prob(targets[row, target]).item()
        assert found.density[row].item() == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize(("n", "smallest"), [(FEW_ROWS - 1, MIN_RIDGE_OF_FEW), (FEW_ROWS, 1e-10)])
def test_few_rows_cannot_tell_little_noise_from_none(
    n: int, smallest: float, generator: torch.Generator
) -> None:
    features = normal(generator, n, 8)
    found = evaluate(1.0, features, features @ normal(generator, 8, 1))
    assert found.ridge.item() == pytest.approx(smallest)


def candidate(value: float, density: Tensor) -> Candidate:
    one = torch.ones(1, dtype=torch.float64)
    return Candidate(value, value, one, one, density)


@pytest.mark.parametrize("certain", [False, True])
def test_the_evidence_is_believed_if_rows_left_out_agree(
    certain: bool, generator: torch.Generator
) -> None:
    gain = normal(generator, 400)
    gain = (gain - gain.mean()) / gain.std(correction=0)  # with a standard error of 1/20
    gain = gain + (1.01 if certain else 0.99) * CERTAINTY / 20
    usual = candidate(2.0, torch.zeros_like(gain))
    best, other = candidate(1.0, gain), candidate(3.0, gain + 1)
    assert choose([other, usual, best], usual) is (best if certain else usual)
    assert choose([other, usual], usual) is usual


@pytest.mark.parametrize("n", [200, 800])
def test_a_fast_oscillation_on_a_trend_is_found(n: int) -> None:
    random = np.random.default_rng(0)
    x = random.uniform(0, n / 80, (n, 1))
    y = 2 * x[:, 0] + np.sin(8 * math.pi * x[:, 0]) + 0.1 * random.normal(size=n)
    point = screen(standardised(x, y), "matern32", seeded())
    assert point is not None
    period = 0.25 / x.std()
    assert 0.1 * period < point.length_scale < period
    assert point.noise.item() < 0.05


@pytest.mark.parametrize("n", [500, 10 * MAX_ROWS])
def test_targets_without_noise_start_without_any(n: int, generator: torch.Generator) -> None:
    """Of many rows some are enough."""
    x = normal(generator, n, 2)
    point = screen(as_rows(x, x[:, 0].sin()), "rbf", generator)
    assert point is not None
    assert point.noise.item() < 1e-3
    assert point.length_scale > 0.5


@pytest.mark.parametrize("n", [50, 1000])
@pytest.mark.parametrize("d", [1, 10])
def test_noise_alone_has_no_starting_point(n: int, d: int) -> None:
    random = np.random.default_rng(n + d)
    rows = standardised(random.normal(size=(n, d)), random.normal(size=n))
    assert screen(rows, "matern32", seeded()) is None


@pytest.mark.parametrize("times", [2, 5])
def test_copies_are_no_proof_that_there_is_no_noise(times: int) -> None:
    """Copies are merged before, and every distinct row counts once, whatever its weight."""
    random = np.random.default_rng(0)
    x = random.normal(size=(150, 2))
    rows = standardised(x, np.sin(x[:, 0]) + 0.5 * random.normal(size=150))
    copies = merge_copies(concatenate([rows] * times))
    once, again = (screen(each, "matern32", seeded()) for each in (rows, copies))
    assert once is not None
    assert again is not None
    assert again.length_scale == once.length_scale
    assert torch.allclose(again.signal, once.signal, rtol=1e-6)
    assert torch.allclose(again.noise, once.noise, rtol=1e-6)
    assert again.noise.item() > 0.1


@pytest.mark.parametrize(
    ("skew", "forms"), [(1, {"standardised", "normal-scores"}), (6, {"normal-scores"})]
)
def test_each_form_of_the_inputs_that_shows_more_than_noise_has_a_starting_point(
    skew: int, forms: set[str]
) -> None:
    """Standardised, all but a few values of very skewed inputs are alike."""
    random = np.random.default_rng(0)
    x = np.exp(skew * random.normal(size=(400, 1)))
    rows = standardised(x, np.sin(np.log(x[:, 0])) + 0.1 * random.normal(size=400))
    plain, scored = Architecture(), Architecture(inputs="normal-scores")
    points = starting_points([plain, scored, plain], rows, rows.inputs.mean, seeded())
    assert set(points) == forms


# Directions of the inputs along which targets change.


def ridge_rows(generator: torch.Generator, n: int = 300) -> tuple[Rows, Tensor]:
    """Draw targets that change along two directions of eight inputs, three times faster in one."""
    x = normal(generator, n, 8)
    basis = torch.linalg.qr(normal(generator, 8, 2))[0].mT
    y = (1.5 * x @ basis[0]).sin() + 0.3 * x @ basis[1] + 0.05 * normal(generator, n)
    return as_rows(x, y), basis


def directions_of(rows: Rows, n: int) -> Tensor:
    return supervised_directions.supervised_directions(rows, n, torch.Generator().manual_seed(1))


def test_directions_along_which_targets_change_come_first(generator: torch.Generator) -> None:
    rows, basis = ridge_rows(generator)
    found = directions_of(rows, 3)
    sizes = found.norm(dim=-1)
    assert (found[0] @ basis[0]).abs() > 0.97 * sizes[0]
    axes = torch.linalg.qr(found.mT)[0]
    assert (axes @ axes.mT @ basis[1]).norm() > 0.9  # nearly in their span
    assert sizes[0] > 2 * sizes[1]
    assert sizes[1] > sizes[2]


@pytest.mark.parametrize("n", [1, 2, 5])
def test_few_rows_and_constant_columns_have_finite_directions(
    n: int, generator: torch.Generator
) -> None:
    x = normal(generator, n, 3)
    x[:, 1] = 0
    found = directions_of(as_rows(x, torch.zeros(n)), 2)
    assert found.shape == (2, 3)
    assert found.isfinite().all()
    # More directions than inputs are random.
    found = directions_of(ridge_rows(generator, 60)[0], 11)
    assert torch.allclose(found[8:].norm(dim=-1), found[:8].square().sum(-1).mean().sqrt())


def test_principal_directions_stand_in_where_no_model_can_be_trained(
    generator: torch.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise FactorisationError("no")

    spreads = torch.tensor([0.5, 3.0, 1.0], dtype=torch.float64)
    x = spreads * normal(generator, 500, 3)
    expected = principal_directions(x, 3, generator)
    identity = torch.eye(3, dtype=torch.float64)
    assert torch.allclose(expected @ expected.mT, identity, atol=1e-12)
    assert expected.abs().argmax(-1).tolist() == [1, 2, 0]  # the widest first
    monkeypatch.setattr(supervised_directions, "train", fail)
    found = directions_of(as_rows(x, x[:, 0]), 3)
    assert torch.allclose(found.abs(), expected.abs())
