"""Functions drawn from members by neighbours, and their joint covariances."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from builders.models import normal, small_rows
from builders.neighbours import KERNELS, SCIKIT_LEARN, neighbour_model

from sswim.kernels import Kernel
from sswim.members import NeighbourMember, condition, pathwise
from sswim.rows import Measure, Rows

CASES: dict[str, dict[str, Any]] = {
    **{kernel: {"kernel": kernel} for kernel in KERNELS},
    "one amplitude": {"local_amplitude": False},
    "few neighbours": {"n_neighbors": 6},
    "warped": {"depth": 1, "noise": "input-dependent", "output_warp": "tanh"},
    "uncertain rows": {"uncertain": True},
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


def on(rows: Rows, generator: torch.Generator, **changes: Any) -> NeighbourMember:
    member = condition(neighbour_model(rows, generator, **changes), rows)
    assert isinstance(member, NeighbourMember)
    return member


@pytest.fixture(params=[*CASES.values()], ids=[*CASES.keys()])
def member(
    rows: Rows, generator: torch.Generator, request: pytest.FixtureRequest
) -> NeighbourMember:
    """A member from rows whose inputs are known, or uncertain, some of them hardly."""
    changes = dict(request.param)
    if changes.pop("uncertain", False):
        variance = 0.3 * normal(generator, *rows.inputs.mean.shape).square()
        variance[::3] = 0
        rows = replace(rows, inputs=replace(rows.inputs, input_variance=variance))
    return on(rows, generator, **changes)


def test_draws_have_the_predicted_moments(member: NeighbourMember, inputs: Measure) -> None:
    """They have, up to chance and the error of the draws' kernel."""
    n = 1000
    prediction = member.predict(inputs)
    functions, observations = (
        member.sample(n, torch.Generator().manual_seed(seed), include_noise=seed == 2)
        for seed in (1, 2)
    )
    latent, observed, again = functions(inputs), observations(inputs), observations(inputs)
    for draws, variance in (
        (latent, prediction.latent_variance),
        (observed, prediction.observation_variance),
    ):
        assert ((draws.mean(0) - prediction.mean).abs() < 4.5 * (variance / n).sqrt()).all()
        assert torch.allclose(draws.var(0), variance, rtol=0.25)
        assert abs((draws.var(0) / variance).log().mean().item()) < 0.05
    noise = prediction.observation_variance - prediction.latent_variance
    assert torch.allclose((observed - again).var(0), 2 * noise, rtol=0.25)  # of the same functions
    centred = latent - latent.mean(0)
    errors = torch.einsum("nit,njt->tij", centred, centred) / (n - 1)
    deviation = prediction.latent_variance.mT.sqrt()
    scale = deviation[:, :, None] * deviation[:, None, :]
    unlike = (errors - member.covariance(inputs)) / scale
    assert unlike.abs().max() < 0.25
    assert unlike.square().mean().sqrt() < 0.08


def test_draws_have_the_tails_of_a_student_t(rows: Rows, inputs: Measure) -> None:
    """Each draw has one amplitude, with as many degrees of freedom as the prediction."""
    generator = torch.Generator().manual_seed(0)
    few = rows.map(lambda t: t[:4])
    member = on(few, generator)
    prediction = member.predict(inputs)
    assert prediction.degrees is not None
    assert prediction.degrees.max() < 10
    draws = member.sample(4000, generator)(inputs)
    scale = prediction.latent_variance.sqrt() * prediction.scale_ratio()
    level = torch.special.ndtri(torch.tensor([0.95], dtype=torch.float64))
    stretched = prediction.stretch(level)[0] * prediction.latent_variance.sqrt()
    above = ((draws - prediction.mean) > stretched).double().mean(0)
    assert (above - 0.05).abs().max() < 0.03
    assert (above - 0.05).mean().abs() < 0.01
    assert ((draws - prediction.mean) / scale).abs().max() > 6


def test_the_joint_covariance_has_the_latent_variances_and_is_one(
    member: NeighbourMember, inputs: Measure, monkeypatch: pytest.MonkeyPatch
) -> None:
    covariance = member.covariance(inputs)
    assert covariance.shape == (2, 11, 11)
    diagonal = covariance.diagonal(dim1=-2, dim2=-1).mT
    assert torch.allclose(diagonal, member.predict(inputs).latent_variance, rtol=1e-12)
    assert torch.allclose(covariance, covariance.mT, rtol=1e-9, atol=1e-12)
    values = torch.linalg.eigvalsh(covariance)
    known = member.rows.inputs.input_variance is None
    assert (values.amin(-1) > -(1e-8 if known else 1e-3) * values.amax(-1)).all()
    rtol = 1e-6 if known else 0.03
    assert torch.allclose(covariance[:, 9, 10], covariance[:, 9, 9], rtol=rtol)
    monkeypatch.setattr(pathwise, "BLOCK_ROWS", 7)
    assert torch.allclose(member.covariance(inputs), covariance, rtol=1e-9, atol=1e-12)
    # Uncertain inputs widen the diagonal alone.
    blurred = Measure(inputs.mean, input_variance=torch.full_like(inputs.mean, 0.1))
    wider = member.covariance(blurred)
    off = ~torch.eye(11, dtype=torch.bool)
    assert torch.allclose(wider[:, off], covariance[:, off], rtol=1e-9, atol=1e-12)
    diagonal = wider.diagonal(dim1=-2, dim2=-1).mT
    assert torch.allclose(diagonal, member.predict(blurred).latent_variance, rtol=1e-9)


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_joint_covariance_is_that_of_the_exact_gp(
    kernel: Kernel, rows: Rows, inputs: Measure, generator: torch.Generator
) -> None:
    """It is, if all rows are neighbours: here from a posterior with an unknown constant."""
    model = neighbour_model(rows, generator, kernel=kernel, local_amplitude=False)
    ours = condition(model, rows).covariance(inputs)
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
