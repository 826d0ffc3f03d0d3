"""Directions of the inputs in which the projection P of a general warp starts."""

from __future__ import annotations

import torch
from jaxtyping import Float64
from torch import Tensor, nn


def principal_directions(
    sample: Float64[Tensor, "S D"], n_directions: int, generator: torch.Generator
) -> Float64[Tensor, "Q D"]:
    """Return the unit directions in which a sample varies most, and random ones beyond D."""
    centred = sample - sample.mean(0)
    _, vectors = torch.linalg.eigh(centred.mT @ centred)
    return with_random_directions(vectors.mT.flip(0), n_directions, generator)


def with_random_directions(
    directions: Float64[Tensor, "E D"], n_directions: int, generator: torch.Generator
) -> Float64[Tensor, "Q D"]:
    """Return the first directions, and random ones of a typical length if they are too few."""
    n_found, n_inputs = directions.shape
    n_more = max(0, n_directions - n_found)
    drawn = torch.randn(n_more, n_inputs, generator=generator, dtype=torch.float64)
    size = directions.square().sum(-1).mean().sqrt()
    return torch.cat((directions, size * nn.functional.normalize(drawn, dim=-1)))[:n_directions]
