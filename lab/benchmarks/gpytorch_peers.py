"""Shared by the scripts: sparse GPs of GPyTorch, built as in its documentation.

The scripts import this module only when they need it, because GPyTorch may not be installed.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # GPyTorch warns of new versions of PyTorch
    import gpytorch
    from sswim_lab.peers.gpytorch_models import VariationalGPModel, sparse_gp_model

BATCH = 1024
"""Number of rows in a mini-batch of stochastic training."""
LEARNING_RATE = 0.01
CHUNK_ROWS = 4096
"""Number of rows predicted at a time, the same as in sswim."""


def sgpr_step(x: Tensor, y: Tensor, n_inducing: int) -> Callable[[], None]:
    """Return a function that does one step of Adam on the evidence, inducing points included."""
    model = sparse_gp_model(x, y, n_inducing)
    evidence = gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model)
    optimiser = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)
    model.train()

    def step() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # warnings about added jitter
            optimiser.zero_grad()
            loss = -evidence(model(x), y)
            loss.backward()
            optimiser.step()

    return step


@dataclass(frozen=True)
class SVGP:
    """State of stochastic variational inference by mini-batches."""

    model: VariationalGPModel
    optimiser: torch.optim.Adam
    generator: torch.Generator
    """Random generator, on the CPU, of the order of the rows."""

    @classmethod
    def start(cls, x: Tensor, n_inducing: int, seed: int = 0) -> SVGP:
        """Return the state before training, with random rows as inducing points."""
        generator = torch.Generator().manual_seed(seed)
        chosen = torch.randperm(len(x), generator=generator)[:n_inducing].to(x.device)
        model = VariationalGPModel(x[chosen].clone()).to(x)
        optimiser = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)
        return cls(model, optimiser, generator)

    def epoch(self, x: Tensor, y: Tensor) -> None:
        """Train on every row once."""
        self.model.train()
        bound = gpytorch.mlls.VariationalELBO(self.model.likelihood, self.model, num_data=len(y))
        order = torch.randperm(len(y), generator=self.generator).to(x.device)
        for rows in order.split(BATCH):
            self.optimiser.zero_grad()
            loss = -bound(self.model(x[rows]), y[rows])
            loss.backward()
            self.optimiser.step()

    @torch.no_grad()
    def predict(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return means and variances of new observations, on the CPU."""
        self.model.eval()
        device = next(self.model.parameters()).device
        means, variances = [], []
        for rows in x.split(CHUNK_ROWS):
            prediction = self.model.likelihood(self.model(rows.to(device)))
            means.append(prediction.mean.cpu())
            variances.append(prediction.variance.cpu())
        return torch.cat(means), torch.cat(variances)
