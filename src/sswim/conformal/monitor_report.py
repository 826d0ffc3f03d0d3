"""What a monitor found out about new rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float64, Int64, Shaped

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
