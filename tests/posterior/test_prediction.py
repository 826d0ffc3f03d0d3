from __future__ import annotations

import torch
from builders.models import normal
from scipy.stats import norm

from sswim.posterior.prediction import Prediction


def test_log_density_is_that_of_the_observation(generator: torch.Generator) -> None:
    mean, targets = normal(generator, 15, 2), normal(generator, 15, 2)
    latent = normal(generator, 15, 2).square()
    prediction = Prediction(mean, latent, latent + 0.3)
    expected = norm.logpdf(targets, mean, (latent + 0.3).sqrt())
    assert torch.allclose(prediction.log_density(targets), torch.from_numpy(expected))


def test_members_have_densities_of_their_own(generator: torch.Generator) -> None:
    mean, targets = normal(generator, 3, 15, 2), normal(generator, 15, 2)
    latent = normal(generator, 3, 15, 2).square()
    together = Prediction(mean, latent, latent + 0.3).log_density(targets)
    for member in range(3):
        alone = Prediction(mean[member], latent[member], latent[member] + 0.3)
        assert torch.equal(together[member], alone.log_density(targets))
