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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float64
from scipy import stats
from torch import Tensor

from sswim.base.errors import UserError
from sswim.conformal.change_evidence import find_change, log_evidence
from sswim.conformal.monitor_report import Alarm, Coverage, MonitorReport, Part
from sswim.conformal.p_values import p_values
from sswim.conformal.scored import Scored

LEVELS = (0.5, 0.8, 0.9, 0.95)
"""Coverages of the intervals whose coverage is counted."""

N_FARTHEST = 10
"""Largest number of far rows that are named."""


@dataclass(frozen=True)
class _PartEvidence:
    """The p-values of a part, and its evidence times its share of false alarms, in logarithms."""

    part: Part
    target: int | None
    """Number of the target, if there are several."""
    u: Float64[Tensor, " m"]
    log_evidence: Float64[Tensor, " m"]


def monitor_rows(
    reference: Scored, new: Scored, generator: torch.Generator, *, false_alarm: float = 0.01
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
    parts = _parts(reference, new, generator)
    found = [alarm for part in parts if (alarm := _alarm(part, -math.log(false_alarm)))]
    evidence = np.stack([part.log_evidence.numpy() for part in parts], axis=1)
    n_targets = new.median.shape[1]
    has_targets = new.scores.shape[1] > 0
    pit_distance, pit_p_value = _compare_pit(reference, new) if has_targets else (None, None)
    distance_95, distance_99 = _distance_quantiles(reference, (0.95, 0.99))
    distance = new.distance.numpy()
    return MonitorReport(
        n_rows=len(distance),
        false_alarm=false_alarm,
        alarms=_first_alarms(found),
        log_evidence=evidence.max(1),
        target_log_evidence=evidence[:, 1 + n_targets :] if has_targets else None,
        input_log_evidence=evidence[:, : 1 + n_targets].max(1),
        pit=_drop_single(new.pit.numpy()) if has_targets else None,
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


def _parts(reference: Scored, new: Scored, generator: torch.Generator) -> list[_PartEvidence]:
    """Return the evidence of distances, of each target's medians, and of each target."""
    n_targets = new.median.shape[1]
    of_inputs = 0.5 if new.scores.shape[1] else 1.0

    def evidence(
        part: Part, share: float, old: Float64[Tensor, "n _"], now: Float64[Tensor, "m _"]
    ) -> Iterator[_PartEvidence]:
        for number, (reference_values, values) in enumerate(
            zip(old.unbind(1), now.unbind(1), strict=False)  # none of targets that are not known
        ):
            u = _p_values_of_folds(reference, new, reference_values, values, generator)
            target = number if n_targets > 1 and part != "distances" else None
            log_share = math.log(share / now.shape[1])
            yield _PartEvidence(part, target, u, log_evidence(u) + log_share)

    distances = reference.distance[:, None], new.distance[:, None]
    return [
        *evidence("distances", 0.5 * of_inputs, *distances),
        *evidence("predictions", 0.5 * of_inputs, reference.median, new.median),
        *evidence("targets", 0.5, reference.scores, new.scores),
    ]


def _first_alarms(found: Sequence[Alarm]) -> tuple[Alarm, ...]:
    """Return the alarms in the order of their rows, of the inputs only the first."""
    kept: dict[tuple[bool, int | None], Alarm] = {}
    for alarm in sorted(found, key=lambda alarm: alarm.row):
        is_target = alarm.part == "targets"
        kept.setdefault((is_target, alarm.target if is_target else None), alarm)
    return tuple(kept.values())


def _p_values_of_folds(
    reference: Scored,
    new: Scored,
    old_scores: Float64[Tensor, " n"],
    scores: Float64[Tensor, " m"],
    generator: torch.Generator,
) -> Float64[Tensor, " m"]:
    """Return the p-values of scores of new rows, each among the scores of its own fold."""
    u = torch.empty_like(scores)
    for fold in new.fold.unique():
        old, inside = reference.fold == fold, new.fold == fold
        u[inside] = p_values(old_scores[old], reference.weight[old], scores[inside], generator)
    return u


def _alarm(part: _PartEvidence, threshold: float) -> Alarm | None:
    """Return the alarm of a part, or None if its evidence never reaches the threshold."""
    rows = (part.log_evidence >= threshold).nonzero()
    if len(rows) == 0:
        return None
    row = int(rows[0])
    found = find_change(part.u[: row + 1])
    return Alarm(part.part, part.target, row, found.row, found.change)


def _compare_pit(reference: Scored, new: Scored) -> tuple[float, float]:
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


def _coverage(reference: Scored, new: Scored) -> Coverage:
    """Count the targets within central intervals."""
    nominal = torch.tensor(LEVELS, dtype=torch.float64)
    # A target lies in every central interval of at least this coverage.
    old, now = (2 * (each.pit - 0.5).abs() for each in (reference, new))
    weight = reference.weight / reference.weight.sum()
    expected = weight @ (old[:, :, None] <= nominal).double().mean(1)
    observed = (now[:, :, None] <= nominal).double().mean((0, 1))
    # Targets of one row may be missed together, so that only rows count as independent.
    n_old = 1 / weight.square().sum()  # rows of equal weight that would say as much
    variance = expected * (1 - expected) * (1 / len(now) + 1 / n_old)
    return Coverage(nominal.numpy(), observed.numpy(), expected.numpy(), variance.sqrt().numpy())


def _distance_quantiles(reference: Scored, levels: Sequence[float]) -> list[float]:
    """Return the distances within which given shares of the held-out rows lie."""
    distance, order = reference.distance.sort()
    up_to = reference.weight[order].cumsum(0)
    wanted = torch.tensor(levels, dtype=torch.float64) * up_to[-1]
    places = torch.searchsorted(up_to, wanted).clamp(max=len(distance) - 1)
    return distance[places].tolist()


def _drop_single(values: Float64[np.ndarray, "N T"]) -> np.ndarray:
    """Return a vector if there is a single target."""
    return values[:, 0] if values.shape[1] == 1 else values
