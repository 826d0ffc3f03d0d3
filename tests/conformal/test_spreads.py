from __future__ import annotations

import math

import torch
from builders.models import normal

from sswim.conformal.scoring import Spreads, spreads
from sswim.ensemble.mixture import Mixture
from sswim.members.density import Density
from sswim.members.linear_regression import Prediction
from sswim.rows.rows import as_rows
from sswim.rows.scaling import no_scaling
from sswim.warps.output_warp import OutputMap


def test_values_undo_scores(generator: torch.Generator) -> None:
    below, above = normal(generator, 2, 6, 2).exp()
    each = Spreads(normal(generator, 6, 2), below, above)
    targets = 3 * normal(generator, 6, 2)
    assert torch.allclose(each.values(each.scores(targets)), targets, rtol=1e-13)


def gaussian(mean: float, variance: float) -> Mixture:
    rows = as_rows([[0.0]], [0.0])
    mean_, variance_ = (torch.full((1, 1), each).double() for each in (mean, variance))
    prediction = Prediction(mean_, variance_, variance_)
    density = Density(prediction, OutputMap(), no_scaling(rows))
    return Mixture((density,), torch.ones(1, dtype=torch.float64))


def test_scores_of_a_gaussian_are_residuals_in_standard_deviations() -> None:
    found = spreads(gaussian(1.0, 4.0)).scores(torch.tensor([[5.0]]).double())
    assert math.isclose(found.item(), 2.0, rel_tol=1e-9)


def test_a_density_without_width_has_finite_scores() -> None:
    found = spreads(gaussian(1.0, 1e-300)).scores(torch.tensor([[5.0]]).double())
    assert bool(found.isfinite().all())
