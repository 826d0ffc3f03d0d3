from __future__ import annotations

import pytest
import torch
from builders.models import move_gp, normal, observations
from scipy.stats import multivariate_normal
from torch import Tensor

from sswim.kernels import expected_features
from sswim.members.linear_regression import posterior, statistics
from sswim.rows import Measure
from sswim.warps import PseudoGP, PseudoPrior, pseudo_gp_moments

PRIORS: tuple[PseudoPrior, ...] = ("whitened", "evidence")


def small_gp(generator: torch.Generator, prior: PseudoPrior = "evidence") -> PseudoGP:
    return move_gp(PseudoGP(3, 3, 1, n_frequencies=10, n_pseudo=7, prior=prior), generator)


def pseudo_covariance(gp: PseudoGP) -> Tensor:
    features = expected_features(gp.spectrum.frequencies(), Measure(gp.pseudo_inputs))
    identity = torch.eye(len(features), dtype=torch.float64)
    signal, noise = gp.log_signal.exp(), gp.log_noise.exp()
    return (signal * features @ features.mT + noise * identity).detach()


@pytest.fixture
def uncertain(generator: torch.Generator) -> Measure:
    return Measure(normal(generator, 12, 3), 0.3 * normal(generator, 12, 3).square())


@torch.no_grad()
def test_the_dual_form_equals_weight_space(uncertain: Measure, generator: torch.Generator) -> None:
    """Compared with linear regression on the pseudo-data, which has tests of its own."""
    gp = small_gp(generator)
    frequencies = gp.spectrum.frequencies()
    pseudo = expected_features(frequencies, Measure(gp.pseudo_inputs))
    ones = torch.ones(3, dtype=torch.float64)
    weights = posterior(
        statistics(observations(pseudo, gp.pseudo_targets)),
        gp.log_noise.exp() * ones,
        gp.log_signal.exp() * ones,
    )
    for measure in (Measure(uncertain.mean), uncertain):
        expected = weights.predict(expected_features(frequencies, measure))
        moments = pseudo_gp_moments(gp.factors()[0], measure)
        assert torch.allclose(moments.mean, expected.mean, rtol=1e-10, atol=1e-10)
        assert torch.allclose(moments.variance.expand(-1, 3), expected.latent_variance, atol=1e-10)


@torch.no_grad()
def test_the_prior_is_the_log_evidence_of_the_pseudo_targets(generator: torch.Generator) -> None:
    gp = small_gp(generator)
    covariance = pseudo_covariance(gp).numpy()
    expected = -sum(
        multivariate_normal.logpdf(gp.pseudo_targets[:, output].numpy(), cov=covariance)
        for output in range(3)
    )
    assert gp.factors()[1].item() == pytest.approx(expected, rel=1e-10)


@torch.no_grad()
def test_both_priors_describe_the_same_gp(uncertain: Measure, generator: torch.Generator) -> None:
    """With Y = Cε the moments are equal, and the priors differ by the Jacobian of ε ↦ Y."""
    literal = small_gp(generator, "evidence")
    whitened = PseudoGP(3, 3, 1, 10, 7, "whitened")
    whitened.load_state_dict(literal.state_dict())
    root = torch.linalg.cholesky(pseudo_covariance(literal))  # C
    whitened.pseudo_targets.copy_(torch.linalg.solve(root, literal.pseudo_targets))
    factors, prior = literal.factors()
    whitened_factors, whitened_prior = whitened.factors()
    ours, theirs = (pseudo_gp_moments(f, uncertain) for f in (whitened_factors, factors))
    assert torch.allclose(ours.mean, theirs.mean, atol=1e-12)
    assert torch.equal(ours.variance, theirs.variance)
    jacobian = 3 * root.diagonal().log().sum()
    assert (prior - whitened_prior).item() == pytest.approx(jacobian.item(), rel=1e-10)


@torch.no_grad()
def test_functions_of_one_gp_equal_gps_with_the_same_pseudo_inputs(
    uncertain: Measure, generator: torch.Generator
) -> None:
    """Each function has its own prior variance, and noise in proportion to it."""
    for prior in PRIORS:
        joint = move_gp(PseudoGP(3, 3, 2, n_frequencies=10, n_pseudo=7, prior=prior), generator)
        joint.log_signal.copy_(torch.tensor([0.4, 1.7]).log())
        factors, negative_log_prior = joint.factors()
        together = pseudo_gp_moments(factors, uncertain)
        total = torch.zeros((), dtype=torch.float64)
        for number in range(2):
            outputs = slice(3 * number, 3 * number + 3)
            alone = PseudoGP(3, 3, 1, n_frequencies=10, n_pseudo=7, prior=prior)
            state = dict(joint.state_dict())
            state["log_signal"] = joint.log_signal[number : number + 1]
            state["log_noise"] = joint.log_noise + joint.log_signal[number] - joint.log_signal[0]
            state["pseudo_targets"] = joint.pseudo_targets[:, outputs]
            alone.load_state_dict(state)
            own_factors, own_prior = alone.factors()
            moments = pseudo_gp_moments(own_factors, uncertain)
            assert torch.allclose(moments.mean, together.mean[:, outputs], rtol=1e-10)
            assert torch.allclose(moments.variance[:, 0], together.variance[:, number], rtol=1e-10)
            total += own_prior
        assert negative_log_prior.item() == pytest.approx(total.item(), rel=1e-12)


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("n_functions", [1, 2])
def test_gradients(
    prior: PseudoPrior, n_functions: int, uncertain: Measure, generator: torch.Generator
) -> None:
    gp = move_gp(PseudoGP(3, 2, n_functions, n_frequencies=3, n_pseudo=4, prior=prior), generator)

    def run() -> tuple[Tensor, ...]:
        factors, negative_log_prior = gp.factors()
        return *pseudo_gp_moments(factors, uncertain).tensors(), negative_log_prior

    def moments(*values: Tensor) -> tuple[Tensor, ...]:
        return torch.func.functional_call(gp, dict(zip(names, values, strict=True)), ())

    gp.forward = run
    names, parameters = zip(*gp.named_parameters(), strict=True)
    torch.autograd.gradcheck(
        moments, [each.detach().clone().requires_grad_() for each in parameters]
    )
