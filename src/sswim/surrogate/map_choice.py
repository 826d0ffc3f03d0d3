"""The choice of the map of targets, by the evidence of small models that see targets through each.

Values that span orders of magnitude, such as losses that blow up in a corner, are smooth on a
logarithmic scale and not on their own. The evidence of y, that of z plus Σ log dz/dy, says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from sswim.model.output_warp import OutputMap
from sswim.surrogate.exact_gp import Observed
from sswim.surrogate.logarithmic_map import LogarithmicMap
from sswim.surrogate.member_evidence import MapParts
from sswim.surrogate.member_kind import MemberKind
from sswim.surrogate.member_training import MemberTraining
from sswim.surrogate.members import Members
from sswim.surrogate.target_map import TargetMap, standardise

STRENGTHS = (1.0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6)
"""b of the logarithmic maps, for standardised targets."""

PILOTS = (MemberKind("rbf", monotone=True), MemberKind("rbf", additive=True))
"""Kinds of the models that compare the maps."""

PRIOR = -3.0
"""Log prior probability of each logarithmic map, relative to that of none."""

LARGEST_BEND = 0.3
"""Largest relative change of a map's slope over the deviation of known noise."""

N_BENT, LARGEST_STRETCH = 2, 10.0
"""A map's slope falls by no more than about this factor over the range of so many rows next to the
end, and a tenth of all rows."""

SMALLEST_COMPARED = 8
"""With fewer rows targets are only standardised."""


@torch.no_grad()
def choose_map(rows: Observed, n_steps: int, map_parts: MapParts = map) -> TargetMap:
    """Return the map of targets whose posterior probability is largest.

    Args:
        rows: Rows as members see them, with the targets y.
        n_steps: Number of training steps of the models that compare the maps.
        map_parts: Computes parts of the evidence, perhaps several at once.
    """
    standard = standardise(rows.targets)
    standardised = standard.forward(rows.targets)[0]
    constant = standardised.square().mean() < 0.5  # but for rounding
    if len(rows.targets) < SMALLEST_COMPARED or constant:
        return standard
    noise = 0.0 if rows.variance is None else rows.variance.max().sqrt() / standard.spread
    maps = [replace(standard, warp=warp) for warp in _warps(standardised, float(noise))]
    targets, slopes = (
        torch.stack(each).repeat(len(PILOTS), 1)
        for each in zip(*(each.forward(rows.targets) for each in maps), strict=True)
    )
    variance = None if rows.variance is None else rows.variance * slopes.square()
    kinds = [kind for kind in PILOTS for _ in maps]
    # Kinds without warps draw no random numbers.
    members = Members(kinds, rows.inputs.cpu(), variance is not None, torch.Generator())
    training = MemberTraining(
        members.to(rows.inputs.device),
        rows.inputs,
        targets,
        variance,
        torch.zeros_like(targets, dtype=torch.bool),
        map_parts,
    )
    training.run(n_steps)
    log_densities = slopes.log().sum(-1) - training.negative_log_posteriors()
    by_map = log_densities.reshape(len(PILOTS), len(maps)).logsumexp(0)
    by_map[1:] += PRIOR
    return maps[int(by_map.nan_to_num(nan=-torch.inf).argmax())]


def _warps(standardised: Tensor, noise: float) -> Iterator[OutputMap]:
    """Yield the identity, and logarithmic maps of either direction.

    Maps are nearly straight over the deviation of known noise; else Gaussian noise would not stay
    Gaussian. Nor do they bend before there are some rows: a map that sets the last row apart gives
    it a large density, and says nothing about the others.
    """
    yield OutputMap()
    some = 1 + N_BENT + len(standardised) // 10
    for direction in (1.0, -1.0):
        distances = (direction * standardised).sort(descending=True).values
        nearest = float(distances[0] - distances[min(some, len(distances)) - 1])
        for strength in STRENGTHS:
            if strength * noise <= LARGEST_BEND and strength * nearest <= LARGEST_STRETCH:
                yield LogarithmicMap.of(standardised, direction, strength)
