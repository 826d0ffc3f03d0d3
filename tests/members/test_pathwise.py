from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from builders.models import normal, small_rows
from builders.neighbours import KERNELS, SCIKIT_LEARN, neighbour_model, row_of

from sswim.kernels.features import Kernel
from sswim.members import NeighbourMember
from sswim.members.pathwise import BLOCK_ROWS, draw_prior
from sswim.rows import Measure, Rows

CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "one amplitude": {"local_amplitude": False},
    "few neighbours": {"n_neighbors": 6},
    "warped": {"depth": 1, "noise": "input-dependent", "output_warp": "tanh"},
}


@pytest.fixture
def rows(generator: torch.Generator) -> Rows:
    return small_rows(generator, n_targets=2, weighted=True)


@pytest.fixture
def inputs(generator: torch.Generator) -> Measure:
    """Eleven inputs, of which the first two are near each other, and the last two equal."""
    x = normal(generator, 11, 3)
    x[1] = x[0] + 0.05
    x[10] = x[9]
    return Measure(x)


@pytest.fixture(params=[*CASES.values()], ids=[*CASES.keys()])
def predictor(
    rows: Rows, generator: torch.Generator, request: pytest.FixtureRequest
) -> NeighbourMember:
    return NeighbourMember.condition_on(neighbour_model(rows, generator, **request.param), rows)


@pytest.fixture
def uncertain(rows: Rows, generator: torch.Generator) -> NeighbourMember:
    """A predictor from rows whose inputs are uncertain, some of them hardly."""
    variance = 0.3 * normal(generator, *rows.inputs.mean.shape).square()
    variance[::3] = 0
    blurred = replace(rows, inputs=replace(rows.inputs, input_variance=variance))
    return NeighbourMember.condition_on(neighbour_model(rows, generator), blurred)


def test_a_drawn_function_is_the_same_wherever_it_is_evaluated(
    predictor: NeighbourMember, inputs: Measure, generator: torch.Generator
) -> None:
    functions = predictor.sample(5, generator)
    together = functions(inputs)
    assert together.shape == (5, 11, 2)
    apart = [functions(row_of(inputs, row)) for row in range(11)]
    assert torch.allclose(torch.cat(apart, dim=1), together, rtol=1e-9, atol=1e-12)
    backwards = functions(inputs.map(lambda t: t.flip(0))).flip(1)
    assert torch.allclose(backwards, together, rtol=1e-9, atol=1e-12)
    assert torch.allclose(together[:, 9], together[:, 10], rtol=1e-9)
    assert not torch.allclose(together[0], together[1], atol=1e-3)


def test_many_inputs_are_cut_into_chunks(
    rows: Rows, inputs: Measure, generator: torch.Generator
) -> None:
    predictor = NeighbourMember.condition_on(neighbour_model(rows, generator, n_neighbors=4), rows)
    functions = predictor.sample(2, generator)
    many = functions(inputs.map(lambda t: t.repeat(100, 1)))
    assert torch.allclose(many[:, -11:], functions(inputs), rtol=1e-9, atol=1e-12)


def errors_of(draws: torch.Tensor) -> torch.Tensor:
    """Return the covariances of draws, (T, N, N)."""
    centred = draws - draws.mean(0)
    return torch.einsum("nit,njt->tij", centred, centred) / (len(draws) - 1)


def assert_moments(predictor: NeighbourMember, inputs: Measure, n: int = 1000) -> None:
    """Compare draws with predictions, up to chance and the error of the draws' kernel."""
    draws = predictor.sample(n, torch.Generator().manual_seed(1))(inputs)
    prediction = predictor.predict(inputs)
    standard_error = (prediction.latent_variance / n).sqrt()
    assert ((draws.mean(0) - prediction.mean).abs() < 4.5 * standard_error).all()
    assert torch.allclose(draws.var(0), prediction.latent_variance, rtol=0.25)
    ratio = draws.var(0) / prediction.latent_variance
    assert abs(ratio.log().mean().item()) < 0.05
    covariance = predictor.covariance(inputs)
    deviation = prediction.latent_variance.mT.sqrt()
    unlike = (errors_of(draws) - covariance) / (deviation[:, :, None] * deviation[:, None, :])
    assert unlike.abs().max() < 0.25
    assert unlike.square().mean().sqrt() < 0.08


def test_drawn_functions_have_the_predicted_moments(
    predictor: NeighbourMember, inputs: Measure
) -> None:
    assert_moments(predictor, inputs)


def test_draws_from_rows_with_uncertain_inputs_have_the_predicted_moments(
    uncertain: NeighbourMember, inputs: Measure
) -> None:
    assert_moments(uncertain, inputs)


@pytest.mark.parametrize("kernel", KERNELS)
def test_every_kernel_is_drawn_from(
    kernel: Kernel, rows: Rows, inputs: Measure, generator: torch.Generator
) -> None:
    assert_moments(
        NeighbourMember.condition_on(neighbour_model(rows, generator, kernel=kernel), rows), inputs
    )


def test_drawn_observations_have_the_predicted_moments(
    predictor: NeighbourMember, inputs: Measure
) -> None:
    n = 1000
    functions = predictor.sample(n, torch.Generator().manual_seed(2), include_noise=True)
    draws, again = functions(inputs), functions(inputs)
    prediction = predictor.predict(inputs)
    standard_error = (prediction.observation_variance / n).sqrt()
    assert ((draws.mean(0) - prediction.mean).abs() < 4.5 * standard_error).all()
    assert torch.allclose(draws.var(0), prediction.observation_variance, rtol=0.25)
    noise = prediction.observation_variance - prediction.latent_variance
    assert torch.allclose((draws - again).var(0), 2 * noise, rtol=0.25)  # new noise, same functions


def test_draws_have_the_tails_of_a_student_t(rows: Rows, inputs: Measure) -> None:
    """Each draw has one amplitude, with as many degrees of freedom as the prediction."""
    generator = torch.Generator().manual_seed(0)
    few = rows.map(lambda t: t[:4])
    predictor = NeighbourMember.condition_on(neighbour_model(few, generator), few)
    prediction = predictor.predict(inputs)
    assert prediction.degrees is not None
    assert prediction.degrees.max() < 10
    draws = predictor.sample(4000, generator)(inputs)
    scale = prediction.latent_variance.sqrt() * prediction.scale_ratio()
    level = torch.special.ndtri(torch.tensor([0.95], dtype=torch.float64))
    stretched = prediction.stretch(level)[0] * prediction.latent_variance.sqrt()
    above = ((draws - prediction.mean) > stretched).double().mean(0)
    assert (above - 0.05).abs().max() < 0.03
    assert (above - 0.05).mean().abs() < 0.01
    assert ((draws - prediction.mean) / scale).abs().max() > 6


def test_the_joint_covariance_has_the_latent_variances_and_is_one(
    predictor: NeighbourMember, inputs: Measure
) -> None:
    covariance = predictor.covariance(inputs)
    assert covariance.shape == (2, 11, 11)
    diagonal = covariance.diagonal(dim1=-2, dim2=-1).mT
    assert torch.allclose(diagonal, predictor.predict(inputs).latent_variance, rtol=1e-12)
    assert torch.allclose(covariance, covariance.mT, rtol=1e-9, atol=1e-12)
    values = torch.linalg.eigvalsh(covariance)
    assert (values.amin(-1) > -1e-8 * values.amax(-1)).all()
    assert torch.allclose(covariance[:, 9, 10], covariance[:, 9, 9], rtol=1e-6)


def test_the_joint_covariance_from_rows_with_uncertain_inputs_is_one(
    uncertain: NeighbourMember, inputs: Measure
) -> None:
    covariance = uncertain.covariance(inputs)
    values = torch.linalg.eigvalsh(covariance)
    assert (values.amin(-1) > -1e-3 * values.amax(-1)).all()
    assert torch.allclose(covariance[:, 9, 10], covariance[:, 9, 9], rtol=0.03)


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_joint_covariance_is_that_of_the_exact_gp(
    kernel: Kernel, rows: Rows, inputs: Measure, generator: torch.Generator
) -> None:
    """It is, if all rows are neighbours: here from a posterior with an unknown constant."""
    model = neighbour_model(rows, generator, kernel=kernel, local_amplitude=False)
    ours = NeighbourMember.condition_on(model, rows).covariance(inputs)
    known, points = (
        each.mean / model.spectrum.length_scales().detach() for each in (rows.inputs, inputs)
    )
    of = SCIKIT_LEARN[kernel](1.0)
    own, towards, rest = (
        torch.from_numpy(of(a.numpy(), b.numpy()))
        for a, b in ((known, known), (known, points), (points, points))
    )
    assert rows.weight is not None
    for target in range(2):
        ridge = model.noise()[target] / model.signal()[target] / rows.weight
        inverse = (own + ridge.diag()).inverse().detach()
        missing = 1 - inverse.sum(0) @ towards  # 1 − 1ᵀK⁻¹k
        unit = rest - towards.T @ inverse @ towards
        unit = unit + missing[:, None] * missing[None] / inverse.sum()
        expected = unit * model.signal()[target].detach()
        assert torch.allclose(ours[target], expected, rtol=1e-7, atol=1e-9)


def test_blocks_of_rows_change_nothing(
    predictor: NeighbourMember,
    uncertain: NeighbourMember,
    inputs: Measure,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for each in (predictor, uncertain):
        at_once = each.covariance(inputs)
        with monkeypatch.context() as patch:
            patch.setattr("sswim.members.pathwise.BLOCK_ROWS", 7)
            assert torch.allclose(each.covariance(inputs), at_once, rtol=1e-9, atol=1e-12)
    assert BLOCK_ROWS > 7


def test_uncertain_inputs_widen_the_diagonal_alone(
    predictor: NeighbourMember, inputs: Measure
) -> None:
    exact = predictor.covariance(inputs)
    blurred = Measure(inputs.mean, input_variance=torch.full_like(inputs.mean, 0.1))
    covariance = predictor.covariance(blurred)
    off = ~torch.eye(11, dtype=torch.bool)
    assert torch.allclose(covariance[:, off], exact[:, off], rtol=1e-9)
    diagonal = covariance.diagonal(dim1=-2, dim2=-1).mT
    assert torch.allclose(diagonal, predictor.predict(blurred).latent_variance, rtol=1e-9)


def test_scales_of_draws_have_the_law_of_an_amplitude(generator: torch.Generator) -> None:
    draws = draw_prior("rbf", 2000, 1, 1, 1, generator)
    degrees = torch.tensor([[8.0, 30.0], [torch.inf, 8.0]], dtype=torch.float64)
    scales = draws.scales(degrees)
    assert scales.shape == (2000, 2, 2)
    assert (scales[:, 1, 0] == 1).all()
    assert torch.equal(scales[:, 0, 0], scales[:, 1, 1])
    expected = degrees / (degrees - 2)
    assert torch.allclose(scales.square().mean(0)[0], expected[0], rtol=0.05)
