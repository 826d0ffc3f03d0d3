"""Guarantees from rows that a model has not seen: conformal intervals, and signs of drift.

``conformity_scores`` says how unusual rows are to ensembles that have not seen them, ``intervals``
makes quantiles of the scores, and ``monitoring`` compares the scores of new rows with them by the
``change_evidence`` of their ranks.
"""

from sswim.conformal.change_evidence import (
    STRATEGIES,
    TAIL,
    Strategy,
    find_change,
    log_evidence,
    p_values,
)
from sswim.conformal.conformity_scores import (
    NEAREST,
    ConformityScores,
    Spreads,
    input_distance,
    spreads,
)
from sswim.conformal.intervals import (
    Calibration,
    ConformalPredictor,
    calibrate,
    conformal_predictor,
    cross_quantiles,
    fold_ensembles,
    least_rows,
)
from sswim.conformal.monitoring import Alarm, Coverage, MonitorReport, monitor_rows

__all__ = [
    "NEAREST",
    "STRATEGIES",
    "TAIL",
    "Alarm",
    "Calibration",
    "ConformalPredictor",
    "ConformityScores",
    "Coverage",
    "MonitorReport",
    "Spreads",
    "Strategy",
    "calibrate",
    "conformal_predictor",
    "cross_quantiles",
    "find_change",
    "fold_ensembles",
    "input_distance",
    "least_rows",
    "log_evidence",
    "monitor_rows",
    "p_values",
    "spreads",
]
