from __future__ import annotations

import torch

from sswim.base.numerics import N_INPUT_NODES, normal_nodes, symmetric_root


def test_nodes_stand_for_normal_draws() -> None:
    for n_inputs in (1, 3, 20):
        nodes = normal_nodes(n_inputs)
        assert nodes.shape == (N_INPUT_NODES, n_inputs)
        assert nodes.mean(0).abs().max() < 1e-12
        assert torch.allclose(nodes.square().mean(0), torch.ones(n_inputs, dtype=torch.float64))


def test_the_root_of_a_singular_covariance() -> None:
    covariance = torch.tensor([[[4.0, 2.0, 0.0], [2.0, 1.0, 0.0], [0.0, 0.0, 0.0]]])
    root = symmetric_root(covariance)
    assert torch.allclose(root @ root, covariance, atol=1e-5)
    assert torch.allclose(root, root.mT, atol=1e-6)
