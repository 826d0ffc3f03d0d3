"""Scores of ours beside published ones."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sswim.lab.bench.accuracy import Row
from sswim.lab.bench.published import LABELS, Published, published_score
from sswim.lab.bench.runner import LEFT_OUT
from sswim.lab.bench.summary import ORIGINAL_SCALE, Mean, columns, group, mean_of
from sswim.lab.bench.table import number, unit_of

QUICK = "-quick"
"""How the names of small versions of methods end."""
NEAR = 2.0
"""Standard deviations of published scores within which ours are taken for the same."""


@dataclass(frozen=True)
class Score:
    """What a method reaches on a data set in a metric, and what is published of it."""

    set: str
    method: str
    metric: str
    mean: Mean | None
    """Over the repeats that worked, if there are any."""
    failures: tuple[str, ...]
    """What went wrong in the others."""
    published: Published | None

    @property
    def z(self) -> float | None:
        """How many published standard deviations ours is above the published mean."""
        if self.mean is None or self.published is None or self.published.std == 0:
            return None
        return (self.mean.value - self.published.value) / self.published.std

    @property
    def repeats(self) -> str:
        """How many worked; and of how many, if some failed."""
        worked = self.mean.n if self.mean else 0
        if self.failures:
            return f"{worked} of {worked + len(self.failures)}"
        return str(worked) if worked else "–"

    def ours(self) -> list[str]:
        """Mean and standard deviation as far as they are known, or a word in their place."""
        if self.mean is None:
            left_out = all(failure.startswith(LEFT_OUT) for failure in self.failures)
            return ["–" if not self.failures else LEFT_OUT if left_out else "failed"]
        mean, std = self.mean.value, self.mean.std
        texts = [number(self.set, self.metric, mean)]
        return texts if math.isnan(std) else [*texts, number(self.set, self.metric, std, like=mean)]

    def theirs(self) -> list[str]:
        """The same of what is published, with the decimals that it has there."""
        if self.published is None:
            return ["–"]
        decimals = 2 if self.set in ORIGINAL_SCALE else 3
        scale, _ = unit_of(self.set, self.metric)
        values = (self.published.value, self.published.std)
        return [f"{value / scale:.{decimals}f}".replace("-", "−") for value in values]


@dataclass(frozen=True)
class ScoreTable:
    """A table of the paper, made again."""

    title: str
    sets: tuple[str, ...]
    methods: tuple[str, ...]
    scores: dict[tuple[str, str, str], Score]
    """By set, method and metric."""
    notes: tuple[str, ...] = ()
    """What a reader should know of all of it."""

    def metrics(self, name: str) -> tuple[str, str]:
        """The two of a data set: of errors and of densities."""
        (error, _), (density, _) = columns(name)
        return error, density

    def best(self, name: str, metric: str) -> frozenset[str]:
        """The methods that none of ours beats."""
        means = {
            method: score.mean.value
            for method in self.methods
            if (score := self.scores[name, method, metric]).mean is not None
        }
        smallest = min(means.values(), default=math.nan)
        return frozenset(method for method, value in means.items() if value == smallest)


@dataclass(frozen=True)
class Agreement:
    """How the scores of a method lie to the published ones, where both are known."""

    method: str
    within: tuple[Score, ...]
    """At most ``NEAR`` published standard deviations away."""
    better: tuple[Score, ...]
    """Further away, and better."""
    worse: tuple[Score, ...]
    """Further away, and worse."""


def agreements(table: ScoreTable) -> list[Agreement]:
    """Of every method that has a published score with a standard deviation."""
    found = []
    for method in table.methods:
        scores = [score for score in table.scores.values() if score.method == method]
        known = [(score, score.z) for score in scores if score.z is not None]
        if known:
            found.append(
                Agreement(
                    method,
                    tuple(score for score, z in known if abs(z) <= NEAR),
                    tuple(score for score, z in known if z < -NEAR),
                    tuple(score for score, z in known if z > NEAR),
                )
            )
    return found


def make_table(
    title: str,
    rows: Iterable[Row],
    sets: Sequence[str],
    methods: Sequence[str],
    notes: Sequence[str] = (),
) -> ScoreTable:
    """The scores of data sets and methods among the rows of results."""
    groups = group(rows)
    scores = {}
    for name in sets:
        for method in methods:
            tried = groups.get((name, method), [])
            failures = tuple(row.failure for row in tried if row.failure)
            for metric, column in columns(name):
                scores[name, method, metric] = Score(
                    name,
                    method,
                    metric,
                    mean_of(tried, column),
                    failures,
                    published_score(name, label(method), metric),
                )
    return ScoreTable(title, tuple(sets), tuple(methods), scores, tuple(notes))


def label(method: str) -> str:
    """What the paper calls a method, also a small version of it."""
    name = method.removesuffix(QUICK)
    return "our default" if name == "sswim" else LABELS.get(name, name)
