"""Architectures, parameters, and what a model makes of rows."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from builders.models import normal, observations, small_model, small_rows, unchecked
from torch import Tensor

from sswim.base.cholesky import FactorisationError
from sswim.kernels.features import expected_features
from sswim.members import SSWIM, Architecture
from sswim.members.model import check_parameters, require_converged, row_features, warped_measures
from sswim.rows import Measure

MODEL = SSWIM(Architecture(depth=1, n_frequencies=4, n_pseudo=2, inputs="normal-scores"), 2, 1)
STATE = MODEL.state_dict()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"depth": -1}, "at least"),
        ({"n_frequencies": 0}, "at least"),
        ({"n_pseudo": 0}, "at least"),
        ({"n_output_terms": 0}, "n_output_terms must be an integer of at least 1. Got 0"),
        ({"n_noise_frequencies": 0}, "n_noise_frequencies must be .* of at least 1. Got 0"),
        ({"output_warp": "log"}, r"output_warp must be one of .*'tanh'.* Got 'log'"),
        ({"noise": "none"}, r"noise must be one of .*'input-dependent'.* Got 'none'"),
        ({"kernel": "cosine"}, "kernel must be one of"),
        ({"pseudo_prior": "flat"}, r"pseudo_prior must be one of .*'whitened'.* Got 'flat'"),
        ({"inputs": "ranked"}, r"inputs must be one of .*'normal-scores'.* Got 'ranked'"),
        ({"n_warp_frequencies": 0}, "n_warp_frequencies must be an integer of at least 1. Got 0"),
        ({"warp_dim": 0}, "warp_dim must be an integer of at least 1. Got 0"),
        ({"warp_dim": 10**9}, "warp_dim must be at most 10000. Got 1000000000"),
        ({"warp_dim": 2}, "diagonal matrix keeps the dimension .* Got .* with warp_dim=2"),
        ({"warp_matrix": "dense"}, r"warp_matrix must be one of .*'projected'.* Got 'dense'"),
        ({"warp_matrix": "full", "depth": 0}, "without warps has none. Got warp_matrix='full'"),
        ({"depth": 10**9 * 10}, "depth must be at most"),
        ({"depth": 1.5}, "depth must be an integer"),
        ({"depth": True}, "depth must be an integer"),
        ({"n_neighbors": -1}, "n_neighbors must be an integer of at least 0"),
        ({"local_amplitude": 1}, "local_amplitude must be True or False"),
    ],
)
def test_impossible_architectures_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        unchecked(Architecture, **change)


@pytest.mark.parametrize("depth", [0, 1, 3])
@torch.no_grad()
def test_there_is_a_measure_after_every_warp(depth: int, generator: torch.Generator) -> None:
    rows = small_rows(generator)
    model = small_model(rows, generator, depth=depth, n_warp_frequencies=4)
    factors, prior = model.factors()
    measures = warped_measures(factors, rows.inputs)
    assert len(measures) == depth + 1
    assert measures[0] is rows.inputs
    for measure in measures[1:]:
        assert measure.variance is not None
        assert (measure.variance >= 0).all()
    for layer in model.warp_layers():
        assert {len(gp.spectrum.unit_frequencies) for gp in layer.gps()} == {4}
    if depth == 0:  # the stationary SSGP
        assert prior.warps == prior.density == 0
        expected = expected_features(model.spectrum.frequencies(), rows.inputs)
        assert torch.equal(row_features(factors, rows.inputs), expected)
    with pytest.raises(ValueError, match=r"Rows must have the model's 3 inputs\. Got 2\."):
        warped_measures(factors, Measure(normal(generator, 4, 2)))


def test_weights_are_multiplicities_times_tempered_precisions(generator: torch.Generator) -> None:
    rows = normal(generator, 5, 4), normal(generator, 5, 2)
    times, precision = normal(generator, 5).exp(), normal(generator, 5, 2)
    temper = torch.tensor([0.5, 0.0], dtype=torch.float64)
    cases: list[tuple[tuple[Tensor | None, ...], Tensor | None]] = [
        ((), None),
        ((times,), times[:, None]),
        ((None, precision), precision.exp()),
        ((times, precision, temper), times[:, None] * precision.exp() ** temper),
    ]
    for given, expected in cases:
        weight = observations(*rows, *given).weight()
        assert (weight is None) == (expected is None)
        if weight is not None and expected is not None:
            assert torch.allclose(weight, expected, rtol=1e-14)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("log_noise", 301.0, "at most 300"),
        ("log_noise", torch.nan, "NaN"),
        ("layers.0.parts.0.pseudo_inputs", 1e151, "at most 1e.150"),
        ("normal_scores.knots", 0.0, "must increase"),
        ("normal_scores.knots", 1e-30 * STATE["normal_scores.knots"], "slopes of normal_scores"),
        ("more", 1.0, "which nothing needs"),
    ],
)
def test_parameters_that_cannot_be_are_refused(
    name: str, value: float | Tensor, words: str
) -> None:
    tensor = torch.as_tensor(value, dtype=torch.float64)
    tensor = tensor.expand_as(STATE.get(name, torch.zeros(1)))
    with pytest.raises(ValueError, match=words):
        check_parameters({**STATE, name: tensor}, MODEL)
    with pytest.raises(ValueError, match="there is no tensor"):
        check_parameters({}, MODEL)
    check_parameters(STATE, MODEL)


def test_training_that_diverged_is_an_error() -> None:
    require_converged(MODEL)
    model = copy.deepcopy(MODEL)
    with torch.no_grad():
        model.log_noise.fill_(-400)
    with pytest.raises(FactorisationError, match="Lower the learning rate"):
        require_converged(model)
