"""Published scores of the data sets (Tompkins, Oliveira and Ramos, NeurIPS 2020)."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from importlib.resources import files


@dataclass(frozen=True)
class Published:
    """A score that was published: RMSE, MSE or MNLP, the mean over repeats."""

    set: str
    method: str
    metric: str
    value: float
    std: float
    """Over the repeats."""


@cache
def published() -> tuple[Published, ...]:
    """All that is known of the named data sets."""
    text = (files("sswim.bench") / "published.csv").read_text(encoding="utf-8")
    return tuple(
        Published(line["set"], line["method"], line["metric"], *map(float, numbers))
        for line in csv.DictReader(text.splitlines())
        for numbers in [(line["value"], line["std"])]
    )


def best_published(name: str, metric: str) -> Published | None:
    """The best of a data set; the first of those that are equally good."""
    scores = [score for score in published() if (score.set, score.metric) == (name, metric)]
    return min(scores, key=lambda score: score.value, default=None)
