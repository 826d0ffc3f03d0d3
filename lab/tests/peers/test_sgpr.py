"""The sparse GP whose inducing points are learnt."""

from __future__ import annotations

import numpy as np
import torch
from lab_builders.peers import predicted, rows
from sswim_lab.peers.gpytorch_models import quiet
from sswim_lab.peers.gpytorch_peers import SGPR, ExactGP
from sswim_lab.peers.protocol import standardise


def test_inducing_points_at_all_rows_give_the_exact_gp() -> None:
    exact, sparse = predicted(ExactGP(steps=0)), predicted(SGPR(n_inducing=150, steps=0))
    assert np.allclose(sparse.mean, exact.mean, rtol=1e-6)
    assert np.allclose(sparse.variance, exact.variance, rtol=1e-4)
    few = predicted(SGPR(n_inducing=5, steps=0))
    assert not np.allclose(few.variance, exact.variance, rtol=1e-2)


def test_inducing_points_move_and_rows_do_not() -> None:
    with quiet():
        from sswim_lab.peers.gpytorch_models import fit_sgpr  # noqa: PLC0415

        training = standardise(*rows(), "cpu")
        x = training.x.clone()
        model = fit_sgpr(training, 0, n_inducing=20, steps=2, learning_rate=0.1).model
    assert torch.equal(training.x, x)
    assert torch.equal(model.train_inputs[0], x)
    assert not torch.equal(model.covar_module.inducing_points, x[:20])
