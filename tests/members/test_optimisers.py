from __future__ import annotations

import pytest

from sswim.base.validation import UserError
from sswim.members.training import LBFGS, Adam


@pytest.mark.parametrize(
    "settings",
    [{"steps": -1}, {"learning_rate": 0.0}, {"noise_rate": 0.0}, {"noise_rate": -1.0}],
    ids=str,
)
def test_impossible_settings_of_adam_are_refused(settings: dict[str, float]) -> None:
    message = "steps must not be negative, learning_rate and noise_rate positive"
    with pytest.raises(UserError, match=message):
        Adam(**settings)  # type: ignore[arg-type]


@pytest.mark.parametrize("settings", [{"steps": -1}, {"memory": 0}], ids=str)
def test_impossible_settings_of_lbfgs_are_refused(settings: dict[str, int]) -> None:
    with pytest.raises(UserError, match="steps must not be negative, memory at least 1"):
        LBFGS(**settings)


def test_no_steps_are_possible() -> None:
    assert Adam(steps=0).steps == LBFGS(steps=0).steps == 0
