from __future__ import annotations

import copy

import pytest
import torch

from sswim.base.cholesky import FactorisationError
from sswim.members import SSWIM, Architecture
from sswim.members.model import check_parameters, require_converged

MODEL = SSWIM(Architecture(depth=1, n_frequencies=4, n_pseudo=2, inputs="normal-scores"), 2, 1)


def test_new_parameters_are_right() -> None:
    check_parameters(MODEL.state_dict(), MODEL)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("log_noise", 301.0, "at most 300"),
        ("log_noise", torch.nan, "NaN"),
        ("layers.0.parts.0.pseudo_inputs", 1e151, "at most 1e.150"),
        ("normal_scores.knots", 0.0, "must increase"),
    ],
)
def test_numbers_beyond_their_limits_are_refused(name: str, value: float, words: str) -> None:
    state = MODEL.state_dict()
    with pytest.raises(ValueError, match=words):
        check_parameters({**state, name: torch.full_like(state[name], value)}, MODEL)


def test_steep_normal_scores_are_refused() -> None:
    state = MODEL.state_dict()
    steep = {**state, "normal_scores.knots": 1e-30 * state["normal_scores.knots"]}
    with pytest.raises(ValueError, match="slopes of normal_scores"):
        check_parameters(steep, MODEL)


def test_names_are_those_of_the_model() -> None:
    with pytest.raises(ValueError, match="which nothing needs"):
        check_parameters({**MODEL.state_dict(), "more": torch.zeros(1)}, MODEL)
    with pytest.raises(ValueError, match="there is no tensor"):
        check_parameters({}, MODEL)


def test_training_that_diverged_is_an_error() -> None:
    require_converged(MODEL)
    model = copy.deepcopy(MODEL)
    with torch.no_grad():
        model.log_noise.fill_(-400)
    with pytest.raises(FactorisationError, match="Lower the learning rate"):
        require_converged(model)
