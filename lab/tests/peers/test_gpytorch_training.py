"""Training of the GPs of GPyTorch."""

from __future__ import annotations

import torch
from lab_builders.peers import rows
from sswim_lab.peers.gpytorch_models import mini_batches, seeded
from sswim_lab.peers.protocol import standardise


def test_every_epoch_has_all_rows_in_another_order() -> None:
    training = standardise(*rows(100), "cpu")
    batches = list(mini_batches(training, size=40, epochs=2, seed=0))
    assert [len(y) for _, y in batches] == [40, 40, 20] * 2
    epochs = [torch.cat([y for _, y in part]) for part in (batches[:3], batches[3:])]
    assert all(torch.equal(epoch.sort().values, training.y.sort().values) for epoch in epochs)
    assert not torch.equal(*epochs)
    x, y = batches[0]
    [(row,)] = [torch.where(training.y == y[0])]
    assert torch.equal(training.x[row[0]], x[0])


def test_the_random_state_is_seeded_and_restored() -> None:
    before = torch.get_rng_state()
    with seeded(3, torch.device("cpu")):
        drawn = torch.randn(2)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(drawn, torch.randn(2, generator=torch.Generator().manual_seed(3)))
