"""Monitoring: comparing new rows with rows that a model held out.

Each target's scores, the distances of the inputs, and the medians that are predicted for them are
a *part*. The evidence of a part (``change_evidence``) ever reaches 1/α' without a change with a
probability of at most α'. The targets have half of the allowed probability of a false alarm, the
distances a quarter and the medians a quarter, so that any false alarm has at most the probability α
(the union bound). An average of the parts' evidences would not do: p-values of different parts
depend on each other, and a martingale in the history of one part need not be one in the history of
all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float64, Int64, Shaped
from scipy import stats
from torch import Tensor

from sswim.base.validation import UserError
from sswim.conformal.change_evidence import find_change, log_evidence, p_values
from sswim.conformal.conformity_scores import ConformityScores

Part = Literal["targets", "distances", "predictions"]
"""What drifted: targets, or inputs by their distances from the rows seen or by what is predicted
for them."""

_CHANGES: dict[Part, dict[str, str]] = {
    "targets": {
        "higher": "higher than predicted",
        "lower": "lower than predicted",
        "wider": "farther from the predictions than expected",
        "narrower": "closer to the predictions than expected",
        "tails": "more outliers than expected",
    },
    "distances": {
        "higher": "farther from the rows seen",
        "lower": "closer to the rows seen",
        "wider": "both farther from the rows seen and closer to them",
        "narrower": "distances from the rows seen vary less",
        "tails": "more inputs very far from the rows seen, or very close",
    },
    "predictions": {
        "higher": "more of those with high predictions",
        "lower": "more of those with low predictions",
        "wider": "more of those with high and with low predictions",
        "narrower": "fewer of those with high and with low predictions",
        "tails": "more of those with very high or very low predictions",
    },
}
"""Changes on which ``change_evidence.Strategy`` bets, in words."""


@dataclass(frozen=True)
class Alarm:
    """A drift that was noticed. Rows are counted from 0."""

    part: Part
    """What drifted."""
    target: int | None
    """Number of the target, or of the prediction, counted from 0, if there are several."""
    row: int
    """First row at which the evidence was enough."""
    since: int
    """Row at which the drift most probably began."""
    change: str
    """How it looks: ``"higher"``, ``"lower"``, ``"wider"``, ``"narrower"`` or ``"tails"``."""

    @property
    def says(self) -> str:
        """One sentence."""
        subject = "The targets" if self.part == "targets" else "The inputs"
        if self.part == "targets" and self.target is not None:
            subject = f"Target {self.target}"
        return (
            f"{subject} drifted ({_CHANGES[self.part][self.change]}): noticed at row "
            f"{self.row:,}, probably since row {self.since:,}."
        )


@dataclass(frozen=True)
class Coverage:
    """Shares of targets within the model's central intervals, all targets together."""

    nominal: Float64[np.ndarray, " L"]
    """Coverage that the model claims."""
    observed: Float64[np.ndarray, " L"]
    """Coverage of the new rows."""
    expected: Float64[np.ndarray, " L"]
    """Coverage of the held-out rows."""
    error: Float64[np.ndarray, " L"]
    """Standard deviation of observed − expected if nothing has changed."""


@dataclass(frozen=True)
class MonitorReport:
    """Whether new rows still look like the rows that a model held out.

    ``alarms`` is the verdict, with a guarantee on false alarms; the other numbers describe the
    rows. Rows are counted from 0, in the order in which they were given. What concerns targets is
    None if they were not given.
    """

    n_rows: int
    false_alarm: float
    """Largest probability of any alarm if nothing has changed."""
    alarms: tuple[Alarm, ...]
    """Drifts that were noticed, the first noticed first: at most one of inputs and of each target.
    """
    log_evidence: Float64[np.ndarray, " N"]
    """Logarithm of the evidence of drift after each row; the alarm is at −log(false_alarm)."""
    target_log_evidence: Float64[np.ndarray, "N T"] | None
    """The part of each target in the evidence: ``log_evidence`` is the largest of all parts."""
    input_log_evidence: Float64[np.ndarray, " N"]
    """The part of the inputs in the evidence: by distances or by predictions, whichever is larger.
    """
    pit: Shaped[np.ndarray, "N ..."] | None
    """Predicted probabilities of smaller targets, (N,) or (N, T)."""
    pit_distance: float | None
    """Largest difference between the distribution functions of the PIT of new rows and of held-out
    rows (Kolmogorov and Smirnov), over all targets."""
    pit_p_value: float | None
    """Probability of such a distance if nothing has changed, corrected for several targets."""
    coverage: Coverage | None
    input_distance: Float64[np.ndarray, " N"]
    """Distances of the inputs from the rows that the model has seen."""
    distance_95: float
    """Distance within which 95 % of the held-out rows lie."""
    distance_99: float
    """Distance within which 99 % of the held-out rows lie."""
    share_beyond_95: float
    """Share of new rows beyond ``distance_95``; 0.05 is expected."""
    share_beyond_99: float
    """Share of new rows beyond ``distance_99``; 0.01 is expected."""
    farthest_rows: Int64[np.ndarray, " F"]
    """Numbers of the rows whose inputs are farthest from those seen, the farthest first."""

    @property
    def alarm_row(self) -> int | None:
        """Row at which the first drift was noticed; None if there is none."""
        return self.alarms[0].row if self.alarms else None

    @property
    def change_row(self) -> int | None:
        """Row at which that drift most probably began; None if there is none."""
        return self.alarms[0].since if self.alarms else None

    @property
    def says(self) -> str:
        """The verdict in words, one sentence for each drift."""
        if self.alarms:
            return " ".join(alarm.says for alarm in self.alarms)
        return f"No sign of drift in {self.n_rows:,} row{'s' * (self.n_rows != 1)}."


LEVELS = (0.5, 0.8, 0.9, 0.95)
"""Coverages of the intervals whose coverage is counted."""

N_FARTHEST = 10
"""Largest number of far rows that are named."""


def monitor_rows(
    reference: ConformityScores,
    new: ConformityScores,
    generator: torch.Generator,
    *,
    false_alarm: float = 0.01,
) -> MonitorReport:
    """Compare new rows with held-out rows.

    Args:
        reference: Held-out rows, each scored by the ensemble of its fold.
        new: New rows in the order of time, each scored by the ensemble of some fold; without
            columns of scores and PIT (T = 0) if their targets are not known.
        generator: Breaks ties.
        false_alarm: Largest probability of an alarm, ever, if new rows are exchangeable with
            held-out rows.
    """
    if not 0 < false_alarm < 1:
        raise UserError(f"false_alarm must lie between 0 and 1. Got {false_alarm!r}.")
    cpu = torch.device("cpu")
    reference, new = reference.to(device=cpu), new.to(device=cpu)
    evidence, alarms = _find_drifts(reference, new, generator, -math.log(false_alarm))
    n_targets = new.median.shape[1]
    has_targets = new.scores.shape[1] > 0
    pit_distance, pit_p_value = _compare_pit(reference, new) if has_targets else (None, None)
    # The distances within which shares of the held-out rows lie.
    ordered, order = reference.distance.sort()
    up_to = reference.weight[order].cumsum(0)
    wanted = up_to[-1] * torch.tensor((0.95, 0.99), dtype=torch.float64)
    places = torch.searchsorted(up_to, wanted).clamp(max=len(ordered) - 1)
    distance_95, distance_99 = ordered[places].tolist()
    distance = new.distance.numpy()
    pit = new.pit.numpy() if has_targets else None
    return MonitorReport(
        n_rows=len(distance),
        false_alarm=false_alarm,
        alarms=alarms,
        log_evidence=evidence.max(1),
        target_log_evidence=evidence[:, 1 + n_targets :] if has_targets else None,
        input_log_evidence=evidence[:, : 1 + n_targets].max(1),
        pit=pit if n_targets > 1 or pit is None else pit[:, 0],
        pit_distance=pit_distance,
        pit_p_value=pit_p_value,
        coverage=_coverage(reference, new) if has_targets else None,
        input_distance=distance,
        distance_95=distance_95,
        distance_99=distance_99,
        share_beyond_95=float(np.mean(distance > distance_95)),
        share_beyond_99=float(np.mean(distance > distance_99)),
        farthest_rows=np.argsort(-distance, kind="stable")[:N_FARTHEST],
    )


def _find_drifts(
    reference: ConformityScores,
    new: ConformityScores,
    generator: torch.Generator,
    threshold: float,
) -> tuple[Float64[np.ndarray, "N parts"], tuple[Alarm, ...]]:
    """Return the logarithm of the evidence of every part after each row, and the alarms.

    The parts are the distances, the medians of each target, and each target. Evidence is multiplied
    by the part's share of false alarms. Of the inputs only the first alarm is kept.
    """
    n_targets = new.median.shape[1]
    input_share = 0.25 if new.scores.shape[1] else 0.5
    parts: tuple[tuple[Part, float, Tensor, Tensor], ...] = (
        ("distances", input_share, reference.distance[:, None], new.distance[:, None]),
        ("predictions", input_share, reference.median, new.median),
        ("targets", 0.5, reference.scores, new.scores),
    )
    evidence, alarms = [], []
    for part, share, held_out, scores in parts:
        for number in range(scores.shape[1]):  # unknown targets have no columns
            u = torch.empty_like(scores[:, number])
            for fold in new.fold.unique():  # p-values are ranks among the scores of the same fold
                old, inside = reference.fold == fold, new.fold == fold
                weight, values = reference.weight[old], scores[inside, number]
                u[inside] = p_values(held_out[old, number], weight, values, generator)
            path = log_evidence(u) + math.log(share / scores.shape[1])
            evidence.append(path.numpy())
            over = (path >= threshold).nonzero()
            if len(over):
                row = int(over[0])
                target = number if n_targets > 1 and part != "distances" else None
                alarms.append(Alarm(part, target, row, *find_change(u[: row + 1])))
    first: dict[int | str | None, Alarm] = {}
    for alarm in sorted(alarms, key=lambda alarm: alarm.row):
        first.setdefault(alarm.target if alarm.part == "targets" else "inputs", alarm)
    return np.stack(evidence, axis=1), tuple(first.values())


def _compare_pit(reference: ConformityScores, new: ConformityScores) -> tuple[float, float]:
    """Return the largest distance of distributions of the PIT, and its p-value.

    New rows are compared with held-out rows rather than with the uniform distribution, from which
    every model departs a little, as enough rows would show.
    """
    tests = [
        stats.ks_2samp(old.numpy(), now.numpy(), method="asymp")
        for old, now in zip(reference.pit.unbind(1), new.pit.unbind(1), strict=True)
    ]
    smallest = min(float(test.pvalue) for test in tests)
    return max(float(test.statistic) for test in tests), min(1.0, len(tests) * smallest)


def _coverage(reference: ConformityScores, new: ConformityScores) -> Coverage:
    """Count the targets within central intervals."""
    nominal = torch.tensor(LEVELS, dtype=torch.float64)
    # A target lies in every central interval of at least this coverage.
    old, now = (2 * (rows.pit - 0.5).abs() for rows in (reference, new))
    weight = reference.weight / reference.weight.sum()
    expected = weight @ (old[:, :, None] <= nominal).double().mean(1)
    observed = (now[:, :, None] <= nominal).double().mean((0, 1))
    # Targets of one row may be missed together, so that only rows count as independent.
    n_old = 1 / weight.square().sum()  # rows of equal weight that would say as much
    variance = expected * (1 - expected) * (1 / len(now) + 1 / n_old)
    return Coverage(nominal.numpy(), observed.numpy(), expected.numpy(), variance.sqrt().numpy())
