"""Evidence that scores have changed at some unknown row: conformal p-values and a test martingale.

The p-value of a new score is its rank among all scores before it. With n reference scores and
t − 1 earlier new ones,

    u_t = (#{s_i < s_t} + τ_t #{s_i = s_t}) / (n + t),    τ_t uniform on (0, 1),

where i runs over all of these scores and s_t itself. If all scores are exchangeable, the u_t are
independent and uniform on (0, 1), exactly and for any number of rows (Vovk, Gammerman and Shafer,
Algorithmic Learning in a Random World, 2005). A reference score of weight w counts as w scores.

A strategy bets on uniform p-values by a density f on (0, 1): its capital is multiplied by
e_t = f(u_t), whose expectation is one as long as nothing has changed. It starts at an unknown row
with prior weights w_t, which leave R_t = (1 + t)^{−1/4} for later rows:

    S_t = (S_{t−1} + w_t) e_t,    w_t = R_{t−1} − R_t,    evidence_t = average of S_t + R_t,

where the average is over strategies. The evidence starts at one, and without a change its
expectation stays one. By Ville's inequality the probability that it *ever* reaches 1/α is at most
α. The heavy tail of the prior keeps the cost of a late change small: 1.25 log t. Strategies and
prior are the quickest of those that docs/monitoring.md compares.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float64, Int64
from torch import Tensor

TAIL = 0.25
"""Exponent of the prior over the row of the change."""

_SMALLEST = 1e-15
"""Smallest p-value: 1 − u is not resolved any better."""


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
    earlier_below, earlier_equal = _count_earlier(new)
    tau = torch.rand(len(new), generator=generator, dtype=torch.float64)
    places = below + earlier_below + tau * (up_to - below + earlier_equal + 1)
    return places / (before[-1] + torch.arange(1, len(new) + 1))


def _count_earlier(
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


@dataclass(frozen=True)
class Strategy:
    """A bet against uniform p-values."""

    change: str
    """What it bets on: ``"higher"``, ``"lower"``, ``"wider"``, ``"narrower"`` or ``"tails"``."""
    log_bet: Callable[[Float64[Tensor, " m"]], Float64[Tensor, " m"]]
    """log f(u)"""


def shift(size: float) -> Strategy:
    """Bet that normal scores z = Φ⁻¹(u) are N(size, 1): f = exp(size·z − size²/2)."""
    change = "higher" if size > 0 else "lower"
    return Strategy(change, lambda u: size * _normal_scores(u) - 0.5 * size**2)


def spread(scale: float) -> Strategy:
    """Bet that normal scores are N(0, scale²)."""
    change = "wider" if scale > 1 else "narrower"
    gain = 0.5 * (1 - scale**-2)
    return Strategy(change, lambda u: gain * _normal_scores(u).square() - math.log(scale))


def tails(share: float, power: float) -> Strategy:
    """Bet that a share of rows are outliers: f = 1 − share + share·power·v^{power − 1}.

    v = 2 min(u, 1 − u) is the two-sided p-value.
    """

    def log_bet(u: Float64[Tensor, " m"]) -> Float64[Tensor, " m"]:
        v = 2 * torch.minimum(u, 1 - u).clamp(min=_SMALLEST)
        return (1 - share + share * power * v.pow(power - 1)).log()

    return Strategy("tails", log_bet)


STRATEGIES = (
    *(shift(size) for size in (-1.2, -0.5, -0.2, 0.2, 0.5, 1.2)),
    *(spread(scale) for scale in (0.7, 1.4, 2.0)),
    tails(0.1, 0.2),
)


def log_evidence(u: Float64[Tensor, " m"]) -> Float64[Tensor, " m"]:
    """Return the logarithm of the evidence after every p-value."""
    log_weight, log_left = _log_prior(len(u))
    log_bets = _log_bets(u)
    after = log_bets.cumsum(1)
    # S_t = Σ_{j ≤ t} w_j Π_{i=j}^{t} e_i
    started = after + torch.logcumsumexp(log_weight - (after - log_bets), 1)
    return torch.logaddexp(started.logsumexp(0) - math.log(len(STRATEGIES)), log_left)


def find_change(u: Float64[Tensor, " m"]) -> tuple[int, str]:
    """Return the row and the change that explain the evidence after all p-values best.

    They are those of the start and the strategy that contribute most to it.
    """
    log_weight, _ = _log_prior(len(u))
    log_bets = _log_bets(u)
    from_here = log_bets.flip(1).cumsum(1).flip(1)  # log Π_{i ≥ j} e_i
    strategy, row = divmod(int((log_weight + from_here).argmax()), len(u))
    return row, STRATEGIES[strategy].change


def _log_bets(u: Float64[Tensor, " m"]) -> Float64[Tensor, "S m"]:
    return torch.stack([strategy.log_bet(u) for strategy in STRATEGIES])


def _log_prior(n_rows: int) -> tuple[Float64[Tensor, " m"], Float64[Tensor, " m"]]:
    """Return log w_t and log R_t for t = 1, …, n_rows."""
    log_left = -TAIL * torch.arange(n_rows + 1, dtype=torch.float64).log1p()
    before, after = log_left[:-1], log_left[1:]
    return before + (-(after - before).expm1()).log(), after


def _normal_scores(u: Float64[Tensor, " m"]) -> Float64[Tensor, " m"]:
    return torch.special.ndtri(u.clamp(_SMALLEST, 1 - _SMALLEST))
