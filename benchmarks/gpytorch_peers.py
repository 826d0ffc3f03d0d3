"""Sparse Gaussian processes of GPyTorch, as its documentation builds them.

Imported where they are needed only, because GPyTorch need not be installed.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it warns under a new PyTorch
    import gpytorch

    from sswim.lab.peers.sgpr import sparse_process
    from sswim.lab.peers.svgp import VariationalProcess

BATCH = 1024
"""Rows of a mini-batch of stochastic training."""
LEARNING_RATE = 0.01
PREDICTED_ROWS = 4096
"""Test rows at a time, as many as the predictions of this package."""


def sgpr_step(x: Tensor, y: Tensor, n_inducing: int) -> Callable[[], None]:
    """One step of Adam on the evidence, as a function; the inducing points are learnt too."""
    model = sparse_process(x, y, n_inducing)
    evidence = gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model)
    optimiser = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)
    model.train()

    def step() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of added jitter
            optimiser.zero_grad()
            loss = -evidence(model(x), y)
            loss.backward()
            optimiser.step()

    return step


@dataclass(frozen=True)
class SVGP:
    """Stochastic variational inference by mini-batches, between its epochs."""

    model: VariationalProcess
    optimiser: torch.optim.Adam
    generator: torch.Generator
    """On the CPU; of the order of rows."""

    @classmethod
    def start(cls, x: Tensor, n_inducing: int, seed: int = 0) -> SVGP:
        """Before training: the inducing points are rows, chosen at random."""
        generator = torch.Generator().manual_seed(seed)
        chosen = torch.randperm(len(x), generator=generator)[:n_inducing].to(x.device)
        model = VariationalProcess(x[chosen].clone()).to(x)
        optimiser = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)
        return cls(model, optimiser, generator)

    def epoch(self, x: Tensor, y: Tensor) -> None:
        """See every row once."""
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
        """Means and variances of new observations, on the CPU."""
        self.model.eval()
        device = next(self.model.parameters()).device
        means, variances = [], []
        for rows in x.split(PREDICTED_ROWS):
            prediction = self.model.likelihood(self.model(rows.to(device)))
            means.append(prediction.mean.cpu())
            variances.append(prediction.variance.cpu())
        return torch.cat(means), torch.cat(variances)
