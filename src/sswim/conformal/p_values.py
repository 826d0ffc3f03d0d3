"""Online conformal p-values: the rank of every new score among all scores before it.

With n reference scores and t − 1 earlier new ones,

    u_t = (#{s_i < s_t} + τ_t #{s_i = s_t}) / (n + t),    τ_t uniform on (0, 1),

where i runs over all of these scores and s_t itself. If all scores are exchangeable, the u_t are
independent and uniform on (0, 1), exactly and for any number of rows (Vovk, Gammerman and Shafer,
Algorithmic Learning in a Random World, 2005). A reference score of weight w counts as w scores.
"""

from __future__ import annotations

import torch
from jaxtyping import Float64, Int64
from torch import Tensor


def p_values(
    reference: Float64[Tensor, " n"],
    weight: Float64[Tensor, " n"],
    new: Float64[Tensor, " m"],
    generator: torch.Generator,
) -> Float64[Tensor, " m"]:
    """Return the p-values of new scores in their order; large scores have p-values near one.

    Args:
        reference: Scores of rows that were held out.
        weight: How many times each of these scores counts.
        new: Scores of new rows, in the order of time.
        generator: Breaks ties.
    """
    ordered, order = reference.sort()
    before = torch.nn.functional.pad(weight[order].cumsum(0), (1, 0))
    below = before[torch.searchsorted(ordered, new)]
    up_to = before[torch.searchsorted(ordered, new, right=True)]
    earlier_below, earlier_equal = count_earlier(new)
    tau = torch.rand(len(new), generator=generator, dtype=torch.float64)
    places = below + earlier_below + tau * (up_to - below + earlier_equal + 1)
    return places / (before[-1] + torch.arange(1, len(new) + 1))


def count_earlier(
    values: Float64[Tensor, " m"],
) -> tuple[Int64[Tensor, " m"], Int64[Tensor, " m"]]:
    """Return how many earlier values are below each value, and how many are equal to it.

    Neighbouring runs of 1, 2, 4, … values are compared, as in a merge sort: each value of the right
    run of a pair is looked up in the sorted left run. All pairs of one length are looked up at
    once, in keys that order values by their pair first. The cost is O(m log² m).
    """
    distinct, rank = values.unique(return_inverse=True)
    place = torch.arange(len(values))
    below, equal = torch.zeros_like(place), torch.zeros_like(place)
    length = 1
    while length < len(values):
        first_key = place // (2 * length) * len(distinct)
        is_right = place // length % 2 == 1
        keys = first_key + rank
        left, right = keys[~is_right].sort().values, keys[is_right]
        start = torch.searchsorted(left, first_key[is_right])
        end = torch.searchsorted(left, right)
        below[is_right] += end - start
        equal[is_right] += torch.searchsorted(left, right, right=True) - end
        length *= 2
    return below, equal
