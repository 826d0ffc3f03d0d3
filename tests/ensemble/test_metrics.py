from __future__ import annotations

import pytest
import torch
from builders.models import normal

from sswim.ensemble import mnlp, rmse
from sswim.members import Prediction


def test_against_the_formulas_of_the_paper(generator: torch.Generator) -> None:
    mean, targets = normal(generator, 20, 1), normal(generator, 20, 1)
    latent = normal(generator, 20, 1).square()
    observed = latent + 0.3
    prediction = Prediction(mean, latent, observed)
    assert rmse(prediction, targets) == pytest.approx((targets - mean).square().mean() ** 0.5)
    two_pi = torch.tensor(2 * torch.pi, dtype=torch.float64)
    nats = ((targets - mean) / observed.sqrt()).square() + observed.log() + two_pi.log()
    assert mnlp(prediction, targets) == pytest.approx(0.5 * nats.mean().item())
