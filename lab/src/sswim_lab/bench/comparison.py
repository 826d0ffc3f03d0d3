"""Comparison of a method with its peers over all data sets, in standardised scores."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

NEAR = 0.01
"""Relative difference to the best RMSE up to which an RMSE counts as near."""
GOOD_COVERAGE = (0.87, 0.93)
"""Smallest and largest fraction of targets in 90 % intervals that counts as good."""


@dataclass(frozen=True)
class SetScores:
    """Scores on one data set, each by method."""

    set: str
    rmse: Mapping[str, float]
    mnlp: Mapping[str, float]
    crps: Mapping[str, float]
    coverage: Mapping[str, float]
    """Fraction of targets in 90 % intervals."""


@dataclass(frozen=True)
class Comparison:
    """Numbers of data sets on which a method is better than its peers, or as good."""

    near: int
    """Number of data sets on which the RMSE is at most ``NEAR`` above that of the best peer."""
    mnlp: int
    """Number of data sets on which the MNLP is smaller than that of every peer."""
    crps: int
    """Number of data sets on which the CRPS is smaller than that of every peer."""
    covered: int
    """Number of data sets on which the 90 % intervals have a ``GOOD_COVERAGE``."""
    n_sets: int
    """Number of data sets with a CRPS of the method and of a peer."""
    gap: float
    """Largest relative difference to the RMSE of the best peer, zero if no peer is better."""
    gap_set: str
    """Data set with that difference; empty if no peer is better."""


def compare(method: str, peers: Collection[str], sets: Iterable[SetScores]) -> Comparison | None:
    """Compare a method with its peers on the data sets on which both have a CRPS, if any."""

    def best_peer(scores: Mapping[str, float]) -> float:
        return min(value for name, value in scores.items() if name in peers)

    compared = [
        scores
        for scores in sets
        if method in scores.crps and not scores.crps.keys().isdisjoint(peers)
    ]
    if not compared:
        return None
    gaps = {scores.set: scores.rmse[method] / best_peer(scores.rmse) - 1 for scores in compared}
    worst = max(gaps, key=lambda name: gaps[name])
    low, high = GOOD_COVERAGE
    return Comparison(
        near=sum(gap <= NEAR for gap in gaps.values()),
        mnlp=sum(scores.mnlp[method] < best_peer(scores.mnlp) for scores in compared),
        crps=sum(scores.crps[method] < best_peer(scores.crps) for scores in compared),
        covered=sum(low <= scores.coverage[method] <= high for scores in compared),
        n_sets=len(compared),
        gap=max(gaps[worst], 0.0),
        gap_set=worst if gaps[worst] > 0 else "",
    )


def describe_comparison(found: Comparison) -> str:
    """Return a sentence about a comparison."""
    gap = f"{found.gap:.1%}".replace("%", " %")
    low, high = (f"{100 * value:.0f}" for value in GOOD_COVERAGE)
    return (
        f"Compared with every other method here on {found.n_sets} sets: RMSE best or within "
        f"{100 * NEAR:.0f} % of the best on {found.near}, MNLP best on {found.mnlp}, CRPS best on "
        f"{found.crps}, coverage of 90 % intervals between {low} and {high} % on {found.covered}; "
        f"largest gap to the best RMSE {gap}{f' ({found.gap_set})' if found.gap_set else ''}."
    )
