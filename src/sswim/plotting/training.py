"""Figures of training."""

from __future__ import annotations

from matplotlib.axes import Axes
from sklearn.utils.validation import check_is_fitted

from sswim.estimator.regressor import SSWIMRegressor
from sswim.plotting.style import CYCLE, add_legend, axes


def plot_history(regressor: SSWIMRegressor, *, ax: Axes | None = None) -> Axes:
    """Plot the objective at every training step, one line for each member."""
    check_is_fitted(regressor)
    ax = axes(ax)
    for member, values in enumerate(regressor.history_):
        color = CYCLE[member % len(CYCLE)]
        ax.plot(values, color=color, lw=1.2, label=f"member {member + 1}")
    ax.set(xlabel="step", ylabel="objective, nats per row")
    if len(regressor.history_) > 1:
        add_legend(ax)
    return ax
