"""Published scores of the data sets (Tompkins, Oliveira and Ramos, NeurIPS 2020)."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

LABELS = {
    "sswim1-paper": "SSWIM1",
    "sswim2-paper": "SSWIM2",
    "dsdgp": "DSDGP",
    "dkl": "DKL",
    "rffns": "RFFNS",
    "svgp": "SVGP",
    "sgpr": "SGPR",
    "rffs": "RFFS",
    "gp": "GP",
    "bwgp": "BWGP",
    "mlwgp3": "MLWGP3",
    "mlwgp20": "MLWGP20",
}
"""The paper's names of methods of the benchmark."""


@dataclass(frozen=True)
class Published:
    """A published score: the mean over repeats of RMSE, MSE or MNLP."""

    set: str
    method: str
    metric: str
    value: float
    std: float
    """Standard deviation over the repeats."""


@cache
def published() -> tuple[Published, ...]:
    """Return all published scores."""
    text = (files("sswim_lab.bench") / "published.csv").read_text(encoding="utf-8")
    return tuple(
        Published(line["set"], line["method"], line["metric"], *map(float, numbers))
        for line in csv.DictReader(text.splitlines())
        for numbers in [(line["value"], line["std"])]
    )


def published_score(name: str, label: str, metric: str) -> Published | None:
    """Return a published score by data set, the paper's name of the method and metric, or None."""
    return _scores().get((name, label, metric))


def best_published(name: str, metric: str) -> Published | None:
    """Return the best published score of a data set, the first of equally good ones."""
    scores = [score for score in published() if (score.set, score.metric) == (name, metric)]
    return min(scores, key=lambda score: score.value, default=None)


@cache
def _scores() -> dict[tuple[str, str, str], Published]:
    return {(score.set, score.method, score.metric): score for score in published()}
