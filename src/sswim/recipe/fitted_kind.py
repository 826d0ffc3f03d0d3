"""A kind of members after a fit: its weight, its members and their steps."""

from __future__ import annotations

from dataclasses import dataclass

from sswim.recipe.plan import Kind


@dataclass(frozen=True)
class FittedKind:
    """A kind of members after a fit; see :class:`sswim.recipe.plan.Kind`."""

    name: str
    n_members: int
    """Number of its members that were trained."""
    weight: float
    """Weight of all its members together; zero if it was left out."""
    depth: int
    kernel: str
    inputs: str
    output_warp: str
    n_features: int
    """F while training; 0 for members that predict by neighbours."""
    n_neighbors: int
    n_steps: int
    """Number of training steps of the member that took most."""


def describe_kind(kind: Kind, n_members: int, n_steps: int, weight: float) -> FittedKind:
    """Describe what became of a kind."""
    architecture = kind.architecture
    return FittedKind(
        name=kind.name,
        n_members=n_members,
        weight=weight,
        depth=architecture.depth,
        kernel=architecture.kernel,
        inputs=architecture.inputs,
        output_warp=architecture.output_warp,
        n_features=0 if kind.by_neighbours else 2 * architecture.n_frequencies,
        n_neighbors=architecture.n_neighbors,
        n_steps=n_steps,
    )
