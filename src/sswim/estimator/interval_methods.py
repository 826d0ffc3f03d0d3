"""The methods of a fitted estimator that predict intervals and quantiles, and watch new rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeVar

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor

from sswim.base.validation import (
    RandomState,
    UserError,
    draw_generator,
    require_choice,
    require_coverage,
    require_flag,
    require_tail,
)
from sswim.conformal import (
    Calibration,
    ConformalPredictor,
    MonitorReport,
    calibrate,
    conformal_predictor,
    monitor_rows,
)
from sswim.estimator.inputs import finite, first_places, group_numbers, read_labels
from sswim.estimator.prediction_methods import Array, PredictionMethods
from sswim.rows.rows import Measure
from sswim.rows.summary import require_like_targets

IntervalMethod = Literal["model", "conformal"]

EstimatorT = TypeVar("EstimatorT", bound="IntervalMethods")


class IntervalMethods(PredictionMethods):
    """Intervals and quantiles: those of the model, and conformal ones, which have a guarantee."""

    _calibration: Calibration | None
    _conformal: ConformalPredictor | None
    """Follows from the ensemble and the calibration; None until it is needed."""

    def predict_interval(
        self,
        X: Any,
        coverage: float = 0.9,
        *,
        X_std: Any = None,
        include_noise: bool = True,
        method: str = "model",
        groups: Any = None,
    ) -> tuple[Array, Array]:
        """Return the ends of central intervals that cover a new observation, or the function.

        Args:
            X: Inputs, (N, D).
            coverage: Probability that an interval covers.
            X_std: Known standard deviation of the inputs: a number, (D,) or (N, D).
            include_noise: Whether the interval is that of a new observation, or of the function.
            method: ``"model"``: as the predictive density says. ``"conformal"``: by the errors of
                rows that the model has not seen, so that observations are covered even if the model
                is wrong; the default ensemble held such rows out, and ``calibrate`` gives them to
                any model.
            groups: The group of each row, if intervals must cover within each group that
                ``calibrate`` got, and not only over all rows. Or the name of a column, whose values
                are the groups of the rows that the default ensemble held out; rare categories are
                one group.
        """
        require_coverage(coverage)
        levels = [0.5 * (1 + sign * coverage) for sign in (-1, 1)]
        ends = self._quantiles(X, levels, X_std, include_noise, method, groups)
        lower, upper = ends.unbind(-1)
        return self._as_output(lower), self._as_output(upper)

    def predict_quantiles(
        self,
        X: Any,
        probabilities: Any = (0.05, 0.5, 0.95),
        *,
        X_std: Any = None,
        include_noise: bool = True,
        method: str = "model",
        groups: Any = None,
    ) -> Array:
        """Return quantiles of a new observation, or of the function: (N, Q) or (N, T, Q).

        The quantile of probability one half is the median. The other arguments are those of
        :meth:`predict_interval`.
        """
        levels = np.atleast_1d(np.asarray(probabilities, dtype=np.float64))
        if levels.ndim != 1 or len(levels) == 0 or not np.all((levels > 0) & (levels < 1)):
            raise UserError(
                f"probabilities must be one or more numbers between 0 and 1. Got {probabilities}."
            )
        for level in levels.tolist():
            require_tail("probabilities", min(level, 1 - level), level)
        found = self._quantiles(X, levels.tolist(), X_std, include_noise, method, groups)
        return self._as_output(found)

    def calibrate(
        self: EstimatorT,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        groups: Any = None,
        out_of_fold: bool = False,
        X_std: Any = None,
    ) -> EstimatorT:
        """Learn the sizes of conformal intervals from rows that ``fit`` did not get.

        ``predict_interval(X, coverage, method="conformal")`` then covers new observations with at
        least that probability, on average over the rows given here, whatever the model and the
        distribution, if old and new rows are exchangeable. ``partial_fit`` changes the model and
        forgets the calibration.

        Args:
            X: Inputs, (N, D).
            y: Targets, (N,) or (N, T).
            sample_weight: How many times each row counts, (N,).
            groups: The group of each row, (N,), to have the coverage within each group.
            out_of_fold: Whether these are rows of ``fit``, given again for their groups: those that
                members of the default ensemble held out count, by the members that did so.
            X_std: Known standard deviation of the columns: a number, (D,) or (N, D).
        """
        require_flag("out_of_fold", out_of_fold)
        rows = self._check_rows(X, y, X_std, sample_weight)
        require_like_targets(rows, self.scaling_)
        known, numbers = None, None
        if groups is not None:
            labels = read_labels(groups, len(rows))
            known = tuple(sorted(set(labels)))
            numbers = group_numbers(labels, known)
        calibration = calibrate(
            self._ensemble,
            rows,
            known,
            numbers,
            torch.from_numpy(self._reader.level_means).to(self._device),
            out_of_fold=out_of_fold,
        )
        self.__dict__.update(_calibration=calibration, _conformal=None)
        return self

    def monitor(
        self,
        X: Any,
        y: Any = None,
        *,
        X_std: Any = None,
        false_alarm: float = 0.01,
        random_state: RandomState = 0,
    ) -> MonitorReport:
        """Say whether new rows still look like those that the model has learnt from.

        They are compared with the rows that the default ensemble held out, or that ``calibrate``
        got: where their targets lie in the predicted densities, and how far their inputs are from
        what was seen. :func:`sswim.plotting.plot_monitor` shows the report.

        Args:
            X: Inputs of new rows in the order of time, (N, D).
            y: Their targets, (N,) or (N, T); None to watch the inputs alone.
            X_std: Known standard deviation of the inputs: a number, (D,) or (N, D).
            false_alarm: Largest probability of an alarm, however many rows there are, if nothing
                has changed.
            random_state: Breaks ties.
        """
        if y is None:
            inputs, targets = self._check_inputs(X, X_std), None
        else:
            rows = self._check_rows(X, y, X_std)
            require_like_targets(rows, self.scaling_)
            inputs, targets = rows.inputs, rows.targets
        predictor = self._conformal_predictor()
        new = predictor.score_new(inputs, targets)
        generator = draw_generator(random_state)
        return monitor_rows(predictor.held_out, new, generator, false_alarm=false_alarm)

    @property
    def n_held_out_(self) -> float:
        """Number of rows whose errors set the sizes of conformal intervals, each by its weight."""
        return self._conformal_predictor().n_rows()

    def _quantiles(
        self,
        X: Any,
        levels: Sequence[float],
        X_std: Any,
        include_noise: bool,
        method: str,
        groups: Any,
    ) -> Float64[Tensor, "N T Q"]:
        require_choice("method", method, IntervalMethod)
        if method == "model":
            if groups is not None:
                raise UserError('groups are for method="conformal" alone.')
            mixture = self.predict_distribution(X, X_std=X_std, include_noise=include_noise)
            return finite(mixture.quantiles(levels))
        if not include_noise:
            raise UserError(
                "Conformal intervals are about observations, noise and all. Got "
                'include_noise=False; use method="model" for intervals of the function.'
            )
        inputs = self._check_inputs(X, X_std)
        if isinstance(groups, str):
            return self._quantiles_by_column(inputs, levels, groups)
        predictor = self._conformal_predictor()
        if groups is None:
            predictor.require_rows(levels)
            return predictor.quantiles(inputs, levels)
        known = None if self._calibration is None else self._calibration.labels
        if known is None:
            raise UserError("groups need a model that calibrate(X, y, groups=...) was called on.")
        numbers = group_numbers(read_labels(groups, len(inputs.mean)), known)
        for number in numbers.unique().tolist():
            predictor.require_rows(levels, number, f" of the group {known[number]!r}")
        return predictor.quantiles(inputs, levels, numbers.to(inputs.mean.device))

    def _quantiles_by_column(
        self, inputs: Measure, levels: Sequence[float], column: str
    ) -> Float64[Tensor, "N T Q"]:
        """Return conformal quantiles within groups of rows with equal values of a column."""
        if self._calibration is not None:
            raise UserError(
                f"After calibrate, groups must be labels, one for each row. Got {column!r}."
            )
        places = self._reader.inputs_of(column)
        if not places.any():
            raise UserError(
                "A group must be a column that became inputs other than mean targets of its "
                f"levels. Got {column!r}; call calibrate(X, y, groups=...) with labels."
            )
        predictor, group = self._conformal_predictor().grouped_by(
            self._ensemble, inputs, torch.from_numpy(places).to(self._device)
        )
        for number, row in first_places(group):
            which = f" in the group of row {row}, by {column!r}"
            predictor.require_rows(levels, number, which)
        return predictor.quantiles(inputs, levels, group)

    def _conformal_predictor(self) -> ConformalPredictor:
        """Return the conformal predictor, which is computed once."""
        ensemble = self._ensemble_of_fit()
        if self._conformal is None:
            self._conformal = conformal_predictor(ensemble, self._calibration)
        return self._conformal
