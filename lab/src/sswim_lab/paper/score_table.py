"""A table of the paper: our scores beside the published ones."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sswim_lab.bench.accuracy import Row
from sswim_lab.bench.methods import QUICK_SUFFIX
from sswim_lab.bench.runner import LEFT_OUT
from sswim_lab.bench.summary import (
    LABELS,
    ORIGINAL_SCALE,
    Mean,
    Published,
    best_methods,
    group_rows,
    mean_score,
    metric_columns,
    published_score,
)
from sswim_lab.bench.table import format_published, format_repeats, format_score

NEAR = 2.0
"""Number of published standard deviations within which our score counts as the published one."""


@dataclass(frozen=True)
class Score:
    """Score of a method on a data set in a metric, beside the published one."""

    set: str
    method: str
    metric: str
    mean: Mean | None
    """Mean over the repeats that did not fail; None if there are none."""
    failures: tuple[str, ...]
    """Failure messages of the other repeats."""
    published: Published | None

    @property
    def z(self) -> float | None:
        """Difference to the published mean, in published standard deviations."""
        if self.mean is None or self.published is None or self.published.std == 0:
            return None
        return (self.mean.value - self.published.value) / self.published.std

    @property
    def repeats(self) -> str:
        """Number of repeats that worked, and the total if some failed."""
        return format_repeats(self.mean.n if self.mean else 0, len(self.failures))

    def ours(self) -> list[str]:
        """Return our mean and standard deviation as texts, or a word if there is no mean."""
        if self.mean is None:
            left_out = all(failure.startswith(LEFT_OUT) for failure in self.failures)
            return ["–" if not self.failures else LEFT_OUT if left_out else "failed"]
        mean, std = self.mean.value, self.mean.std
        texts = [format_score(self.set, self.metric, mean)]
        if not math.isnan(std):
            texts.append(format_score(self.set, self.metric, std, like=mean))
        return texts

    def theirs(self) -> list[str]:
        """Return the published mean and standard deviation as texts, with their decimals."""
        if self.published is None:
            return ["–"]
        form = ".2f" if self.set in ORIGINAL_SCALE else ".3f"
        values = (self.published.value, self.published.std)
        return [format_published(self.set, self.metric, value, form) for value in values]


@dataclass(frozen=True)
class ScoreTable:
    """A reproduced table of the paper."""

    title: str
    sets: tuple[str, ...]
    methods: tuple[str, ...]
    scores: dict[tuple[str, str, str], Score]
    """Scores by data set, method and metric."""
    notes: tuple[str, ...] = ()
    """Sentences about the whole table."""

    def metrics(self, name: str) -> tuple[str, str]:
        """Return the two metrics of a data set: of errors and of densities."""
        (error, _), (density, _) = metric_columns(name)
        return error, density

    def method_scores(self, method: str, position: int) -> list[Score]:
        """Return a method's errors (position 0) or densities (position 1) on all data sets."""
        return [self.scores[name, method, self.metrics(name)[position]] for name in self.sets]

    def best(self, name: str, metric: str) -> frozenset[str]:
        """Return the methods with our best score."""
        means = {method: self.scores[name, method, metric].mean for method in self.methods}
        return best_methods({method: mean.value for method, mean in means.items() if mean})


@dataclass(frozen=True)
class Agreement:
    """Comparison of a method's scores with the published ones, where both are known."""

    method: str
    within: tuple[Score, ...]
    """Scores at most ``NEAR`` published standard deviations away."""
    better: tuple[Score, ...]
    """Scores further away, and better."""
    worse: tuple[Score, ...]
    """Scores further away, and worse."""


def agreements(table: ScoreTable) -> list[Agreement]:
    """Compare every method that has a published score with a standard deviation."""
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
    """Make the table of some data sets and methods from rows of results."""
    groups = group_rows(rows)
    scores = {}
    for name in sets:
        for method in methods:
            tried = groups.get((name, method), [])
            failures = tuple(row.failure for row in tried if row.failure)
            for metric, column in metric_columns(name):
                scores[name, method, metric] = Score(
                    name,
                    method,
                    metric,
                    mean_score(tried, column),
                    failures,
                    published_score(name, method_label(method), metric),
                )
    return ScoreTable(title, tuple(sets), tuple(methods), scores, tuple(notes))


def method_label(method: str) -> str:
    """Return the paper's name of a method or of its quick version."""
    name = method.removesuffix(QUICK_SUFFIX)
    return "our default" if name == "sswim" else LABELS.get(name, name)
