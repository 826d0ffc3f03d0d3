"""Nodes that stand for an uncertain input: points spread like a normal distribution."""

from __future__ import annotations

import torch
from jaxtyping import Float, Float64
from torch import Tensor

N_NODES = 32
"""Number of inputs that stand for an uncertain input."""


def normal_nodes(n_inputs: int) -> Float64[Tensor, "nodes D"]:
    """Return nodes whose mean over any function approximates that over N(0, I).

    They come in pairs ±ξ and have unit variances, so that linear functions are exact.
    """
    engine = torch.quasirandom.SobolEngine(n_inputs, scramble=True, seed=0)
    half = torch.special.ndtri(engine.draw(N_NODES // 2, dtype=torch.float64).clamp(1e-6, 1 - 1e-6))
    nodes = torch.cat((half, -half))
    return nodes / nodes.square().mean(0).sqrt()


def symmetric_root(covariance: Float[Tensor, "N D D"]) -> Float[Tensor, "N D D"]:
    """Return the symmetric root of covariances, some of whose variances may be zero."""
    values, vectors = torch.linalg.eigh(covariance)
    return (vectors * values.clamp(min=0).sqrt()[:, None]) @ vectors.mT
