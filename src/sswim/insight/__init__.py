"""What a fitted ensemble has learnt: relevance of inputs, effects and local metrics."""

from sswim.insight.effect import (
    Effect,
    InputColumn,
    NumberInput,
    average_function,
    check_numbers,
    common_levels,
    require_axis,
    spaced_grid,
)
from sswim.insight.local_metric import LocalMetric, local_metric
from sswim.insight.relevance import Relevance, relevance_of

__all__ = [
    "Effect",
    "InputColumn",
    "LocalMetric",
    "NumberInput",
    "Relevance",
    "average_function",
    "check_numbers",
    "common_levels",
    "local_metric",
    "relevance_of",
    "require_axis",
    "spaced_grid",
]
