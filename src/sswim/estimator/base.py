"""The base of all estimators: fitting, predictions, intervals, insight, posteriors and files.

An estimator has settings and, once it is fitted, one record of all that it has learnt
(:class:`~sswim.estimator.fitted.Fitted`). Its methods check their arguments and call functions on
that record. A class of estimators adds its settings, the rules for them, and the plan of a fit.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from jaxtyping import Float
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.exceptions import NotFittedError
from sklearn.metrics import r2_score
from sklearn.utils.metadata_routing import UNUSED
from torch import Tensor

from sswim.base.validation import (
    RandomState,
    UserError,
    as_bytes,
    draw_generator,
    require_choice,
    require_flag,
    require_integer,
    require_level,
    require_tail,
)
from sswim.conformal import MonitorReport, monitor_rows
from sswim.distributed.processes import ALONE, Processes
from sswim.ensemble.ensemble import Ensemble
from sswim.ensemble.joint_posterior import JointPosterior
from sswim.ensemble.mixture import Mixture
from sswim.ensemble.plan import FittedKind
from sswim.estimator import insight, model_file
from sswim.estimator.fitted import Array, Fitted, IntervalMethod, find_deadline, learn
from sswim.estimator.inputs import (
    NO_COVARIANCE,
    InputReader,
    as_numpy,
    as_source,
    check_rows,
    finite,
    finite_algebra,
    require_dense,
)
from sswim.estimator.settings import Auto, DType, check_settings, refuse_unknown, stored_settings
from sswim.insight import Effect, LocalMetric, Relevance
from sswim.members.checkpoints import Checkpoints, MemberCallback
from sswim.members.kinds import Plan
from sswim.members.member import Member
from sswim.rows.rows import Measure, Rows, as_rows, marginal_variance
from sswim.rows.scaling import Scaling
from sswim.rows.summary import Summary, require_like_targets

if TYPE_CHECKING:
    from sswim.estimator.evaluation import Importance
    from sswim.tables import Schema

RegressorT = TypeVar("RegressorT", bound="BaseRegressor")

SamplePaths = Callable[[Tensor], Tensor]
"""Drawn functions: X (…, q, D) to their values (n_samples, …, q), or (n_samples, …, q, T)."""


class BaseRegressor(MultiOutputMixin, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """A scikit-learn estimator whose predictions are densities.

    Inputs and targets are standardised internally; predictions are in the units of the targets.
    """

    coordinates: Any
    device: str
    dtype: DType | Auto
    random_state: RandomState
    verbose: bool
    callback: MemberCallback | None

    # Only sample_weight and X_std describe rows; scikit-learn does not route the other arguments.
    __metadata_request__fit = dict.fromkeys(
        ("memory", "time_limit", "checkpoints", "processes"), UNUSED
    )
    __metadata_request__predict = dict.fromkeys(
        ("return_std", "return_cov", "include_noise"), UNUSED
    )

    def __new__(cls: type[RegressorT], *args: Any, **settings: Any) -> RegressorT:
        """Refuse settings of other estimators, and say where they belong."""
        refuse_unknown(cls, settings)
        return super().__new__(cls)

    def _plan(self, summary: Summary) -> Plan:
        """Make the plan of a fit."""
        raise NotImplementedError

    def _check_settings(self) -> None:
        """Raise unless the settings keep their rules."""
        check_settings(self)

    @cached_property
    def _fitted(self) -> Fitted:
        """Everything that the last fit has learnt, which replaces this error."""
        raise NotFittedError(
            f"This {type(self).__name__} instance is not fitted yet. Call 'fit' with appropriate "
            "arguments before using this estimator."
        )

    @property
    def _precision(self) -> torch.dtype:
        """Precision of features outside training."""
        return torch.float32 if self.dtype == "float32" else torch.float64

    # Fitting

    def fit(
        self: RegressorT,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        X_std: Any = None,
        memory: int | str = "2GiB",
        time_limit: int | float | None = None,
        checkpoints: Checkpoints | None = None,
        processes: Processes = ALONE,
    ) -> RegressorT:
        """Learn from rows.

        Args:
            X: Inputs, (N, D): an array or tensor; or a data frame (pandas, polars, Arrow,
                geopandas), whose columns may hold numbers, text, categories, dates and times. Or
                the path of a table: a Parquet or CSV file, or a folder of them. Or a source of rows
                (see :mod:`sswim.rows`). Missing values are imputed.
            y: Targets, (N,) or (N, T); the name of the target column of a frame or table; None for
                a source.
            sample_weight: How many times each row counts, (N,).
            X_std: Known standard deviation of the columns: a number, (D,) or (N, D).
            memory: Memory for the rows of a table or source; larger ones are read in every pass,
                and a model that keeps its rows keeps a random sample of them.
            time_limit: About how many seconds the fit may take. The members that take least time
                are trained first, and when most of the time is over, training ends; members that
                have not begun are left out. ``kinds_`` says what was trained.
            checkpoints: Where the training is saved as it goes, and resumed from.
            processes: The processes that call this together with the same arguments to share the
                work; see :func:`sswim.distributed.join_processes`.
        """
        self._check_settings()
        deadline = find_deadline(time_limit)
        settings = stored_settings(self)
        processes.require_same("settings", settings)
        held_bytes = as_bytes(memory)
        source = as_source(self, X, y, sample_weight, X_std, held_bytes, processes)
        self._fitted = learn(self, settings, source, held_bytes, deadline, checkpoints, processes)
        return self

    def partial_fit(
        self: RegressorT, X: Any, y: Any, sample_weight: Any = None, *, X_std: Any = None
    ) -> RegressorT:
        """Condition on more rows, exactly and without the old ones; hyper-parameters are kept.

        Rows in many small pieces are the same as all of them at once, up to rounding. A small piece
        is copied and waits for others; the model is conditioned on all of them when it is next
        used, or when they are many.

        A model that was saved without its rows is conditioned on the new rows alone. The first call
        on an estimator that has not been fitted is a ``fit``.
        """
        if not self.__sklearn_is_fitted__():
            return self.fit(X, y, sample_weight, X_std=X_std)
        rows = self._check_rows(X, y, X_std, sample_weight)
        require_like_targets(rows, self.scaling_)
        updates = self._fitted.updates.add(rows)
        self._fitted = replace(self._fitted, updates=updates, rows=None, calibration=None)
        return self

    # Predictions

    def predict(
        self,
        X: Any,
        return_std: bool = False,
        return_cov: bool = False,
        *,
        include_noise: bool = True,
        X_std: Any = None,
    ) -> Array | tuple[Array, Array]:
        """Predict the targets of rows.

        Args:
            X: Inputs, (N, D).
            return_std: Also return standard deviations, in the shape of the mean.
            return_cov: Also return the joint covariance, (N, N) or (N, N, T).
            include_noise: Whether the spread is that of a new observation, or of the function.
            X_std: Known standard deviation of the inputs: a number, (D,) or (N, D).
        """
        if return_std and return_cov:
            raise UserError("At most one of return_std and return_cov can be True. Got both.")
        inputs = self._check_inputs(X, X_std)
        fitted, ensemble = self._fitted, self._ensemble
        if not (return_std or return_cov):
            with finite_algebra():
                return fitted.as_output(finite(ensemble.predict_mean(inputs)))
        mixture = self.predict_distribution(inputs)
        mean = fitted.as_output(finite(mixture.mean))
        if return_std:
            spread = mixture if include_noise else mixture.without_noise()
            return mean, fitted.as_output(finite(spread.standard_deviation))
        covariance = ensemble.covariance(inputs, include_noise=include_noise)
        joint = finite(covariance, NO_COVARIANCE).permute(1, 2, 0).cpu().numpy()
        return mean, joint[..., 0] if fitted.flat_targets else joint

    def predict_distribution(
        self, X: Any, *, X_std: Any = None, include_noise: bool = True
    ) -> Mixture:
        """Predict whole densities: those of new observations, or of the function.

        The result has ``mean``, ``observation_variance``, ``quantile(p)``, ``cdf(y)`` and
        ``log_density(y)``, all as tensors of shape (N, T) on the model's device. Features are
        computed once, however many of these are used.
        """
        inputs = self._check_inputs(X, X_std)
        with finite_algebra():
            mixture = self._ensemble.predict(inputs)
        return mixture if include_noise else mixture.without_noise()

    def predict_noise(self, X: Any, *, X_std: Any = None) -> Array:
        """Return the standard deviation of the noise alone, in the shape of the mean."""
        mixture = self.predict_distribution(X, X_std=X_std)
        return self._fitted.as_output(mixture.noise_deviation)

    def log_density(self, X: Any, y: Any, *, X_std: Any = None) -> Array:
        """Return log p(y) of observations, in the shape of y."""
        rows = self._check_rows(X, y, X_std)
        mixture = self._ensemble.predict(rows.inputs)
        return self._fitted.as_output(mixture.log_density(rows.targets))

    def cdf(self, X: Any, y: Any, *, X_std: Any = None) -> Array:
        """Return the probability that a new observation is at most y, in the shape of y.

        If the densities are right, it is uniform over rows with known targets.
        """
        rows = self._check_rows(X, y, X_std)
        return self._fitted.as_output(self._ensemble.predict(rows.inputs).cdf(rows.targets))

    def loo_predict(self, return_std: bool = False) -> Array | tuple[Array, Array]:
        """Predict the rows given to ``fit``, each from all the others."""
        fitted = self._fitted
        if fitted.rows is None:
            raise UserError(
                "loo_predict needs the arrays given to fit. They are not kept after partial_fit, "
                "in a model file, in a pickle or in a copy, and the rows of tables and sources "
                "never are. Call it right after a fit of arrays."
            )
        mixture = fitted.ensemble.leave_one_out(fitted.rows)
        mean = fitted.as_output(mixture.mean)
        return (mean, fitted.as_output(mixture.standard_deviation)) if return_std else mean

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, X_std: Any = None) -> float:
        """Return R², the share of the targets' variance that the predicted means explain."""
        predicted = self.predict(X, X_std=X_std)
        return float(r2_score(as_numpy(y), predicted, sample_weight=as_numpy(sample_weight)))

    # Intervals, quantiles and drift

    def predict_interval(
        self,
        X: Any,
        level: float = 0.9,
        *,
        X_std: Any = None,
        include_noise: bool = True,
        method: str = "model",
        groups: Any = None,
    ) -> tuple[Array, Array]:
        """Return the ends of central intervals that cover a new observation, or the function.

        Args:
            X: Inputs, (N, D).
            level: Probability that an interval covers.
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
        require_level(level)
        tails = [0.5 * (1 + sign * level) for sign in (-1, 1)]
        ends = self._quantiles(X, tails, X_std, include_noise, method, groups)
        return ends[..., 0], ends[..., 1]

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
        checked = np.atleast_1d(np.asarray(probabilities, dtype=np.float64))
        if checked.ndim != 1 or len(checked) == 0 or not np.all((checked > 0) & (checked < 1)):
            raise UserError(
                f"probabilities must be one or more numbers between 0 and 1. Got {probabilities}."
            )
        for probability in checked.tolist():
            require_tail("probabilities", min(probability, 1 - probability), probability)
        return self._quantiles(X, checked.tolist(), X_std, include_noise, method, groups)

    def calibrate(
        self: RegressorT,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        groups: Any = None,
        out_of_fold: bool = False,
        X_std: Any = None,
    ) -> RegressorT:
        """Learn the sizes of conformal intervals from rows that ``fit`` did not get.

        ``predict_interval(X, level, method="conformal")`` then covers new observations with at
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
        self._fitted = self._fitted.calibrated(rows, groups, out_of_fold=out_of_fold)
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
        predictor = self._fitted.conformal
        new = predictor.score_new(inputs, targets)
        generator = draw_generator(random_state)
        return monitor_rows(predictor.held_out, new, generator, false_alarm=false_alarm)

    # Draws and posteriors

    def sample_y(
        self,
        X: Any,
        n_samples: int = 1,
        random_state: RandomState = 0,
        *,
        include_noise: bool = False,
    ) -> Array:
        """Return values of functions drawn from the posterior: (N, n_samples) or (N, T, n_samples).

        The same random state draws the same functions, wherever they are evaluated. With
        ``include_noise`` the values are observations of those functions.
        """
        require_integer("n_samples", n_samples, 1)
        inputs = self._check_inputs(X)
        generator = draw_generator(random_state)
        functions = self._ensemble.sample(n_samples, generator, include_noise=include_noise)
        draws = functions(inputs).permute(1, 2, 0).cpu().numpy()
        return draws[:, 0] if self._fitted.flat_targets else draws

    def sample_paths(self, n_samples: int, random_state: RandomState = 0) -> SamplePaths:
        """Draw functions from the posterior.

        Args:
            n_samples: Number of functions.
            random_state: An integer draws the same functions again.

        Returns:
            A function of inputs X, (…, q, D), that returns the values of the draws there,
            (n_samples, …, q) or (n_samples, …, q, T), in the units of the targets and with
            gradients in X. It can be called any number of times: all calls evaluate the same
            functions. They are those of ``sample_y`` with the same random state.
        """
        require_integer("n_samples", n_samples, 1)
        fitted = self._fitted
        functions = fitted.ensemble.sample(n_samples, draw_generator(random_state))

        def paths(X: Tensor) -> Tensor:
            points = self._check_points(X)
            rows = points.reshape(-1, points.shape[-1])
            shape = (*points.shape[:-1], self.n_targets_)
            if points.numel() == 0:  # no values, with a graph if the points have one
                values = rows.to(torch.float64).sum() * points.new_zeros(n_samples, *shape)
            else:
                with finite_algebra():
                    values = finite(functions(Measure(rows)))
            values = values.reshape(n_samples, *shape).to(X.device)
            return values[..., 0] if fitted.flat_targets else values

        return paths

    def posterior(self, X: Tensor, *, include_noise: bool = False) -> JointPosterior:
        """Return the joint posterior of the function at q points, or of observations there.

        The result has ``mean``, ``covariance``, ``variance`` and ``standard_deviation``, in the
        units of the targets, in float64 and on the device of X. With flat targets the mean has
        shape (…, q) and the covariance (…, q, q); with several, (…, q, T) and (…, T, q, q).
        Gradients are recorded if X requires them.

        With an output warp the mean of the function is not that of observations; ``predict``
        returns the latter. A member's Student-t prediction counts there as the Gaussian with the
        same mean and variance of the warped target.

        Args:
            X: Inputs in the units of ``fit``, (…, q, D), with any batch shape.
            include_noise: Whether the posterior is that of new observations, or of the function.
        """
        require_flag("include_noise", include_noise)
        points = self._check_points(X)
        with finite_algebra():
            found = self._ensemble.posterior(points, include_noise=include_noise)
        finite(found.mean)
        finite(found.covariance, NO_COVARIANCE)
        found = found.to(device=X.device)
        return found.of_flat_targets() if self._fitted.flat_targets else found

    # What was learnt

    def relevance(self, X: Any = None) -> Relevance:
        """Return how much each column matters to the function, as shares that add up to one.

        A column matters as much as the posterior mean changes, in the mean square, when a row gets
        the column's value of another row: by the variance that the column makes, by itself and
        together with others. See ``sswim.insight.relevance``.

        Args:
            X: Rows, (N, D); by default rows that the model holds. Of many, a sample is used.
        """
        given = None if X is None else self._check_inputs(X).mean
        return insight.find_relevance(self._fitted, given)

    def local_metric(self, X: Any) -> LocalMetric:
        """Return where, and along which input, the function may vary fast.

        For each row this is the metric of the warps in the units of the inputs, the mean over
        members by their weights; see ``sswim.insight.local_metric``. A column that became
        several inputs has one length-scale for each of these.

        Args:
            X: Rows, (N, D).
        """
        return insight.find_local_metric(self._fitted, self._check_inputs(X).mean)

    def effect(
        self,
        columns: Any,
        X: Any = None,
        *,
        grid: Any = None,
        level: float = 0.9,
        max_rows: int = 100,
    ) -> Effect:
        """Return the function averaged over rows, for each value of one or two columns.

        This is partial dependence, with bands of the averaged function: its variance includes how
        errors at different rows are correlated. See ``sswim.insight.effect``.

        Args:
            columns: A column by its name, or by its number in an array; or a pair of columns.
            X: Rows to average over, (N, D); by default rows that the model holds.
            grid: Number of values of each column; or the values themselves, for a pair as a pair of
                lists. By default 20, or 10 for each column of a pair; all levels of a category.
            level: Probability of the bands.
            max_rows: Largest number of rows to average over; of more, a random sample is used.
        """
        require_level(level)
        require_integer("max_rows", max_rows, 1)
        fitted = self._fitted
        chosen = insight.chosen_columns(fitted.reader, columns)
        given = None if X is None else self._check_inputs(X).mean
        return insight.find_effect(fitted, chosen, given, grid, level, max_rows)

    def permutation_importance(
        self, X: Any, y: Any, *, n_repeats: int = 5, random_state: int = 0
    ) -> Importance:
        """Shuffle each column among rows in turn, and return how much worse predictions become.

        Args:
            X: Inputs, (N, D): an array, a data frame or the path of a table.
            y: Targets, (N,) or (N, T), or the name of the target column of a frame or table.
            n_repeats: Number of times that each column is shuffled.
            random_state: Seed of the shuffles.
        """
        from sswim.estimator.evaluation import importance_of_rows  # noqa: PLC0415 (loads pyarrow)

        return importance_of_rows(self, X, y, n_repeats=n_repeats, random_state=random_state)

    def warp(
        self, X: Any, *, X_std: Any = None, member: int | None = None
    ) -> list[tuple[Array, Array]]:
        """Return mean and variance of the inputs after each warp of a member.

        They are in the units of the inputs, or in normal scores for a member that uses these. After
        a projection they are coordinates without units, as many as ``warp_dim``. The default is
        the one with most weight of the deepest members that use the inputs as they are.
        """
        inputs = self._check_inputs(X, X_std)
        member = self._fitted.shown_member if member is None else member
        self._fitted.require_member(member)
        warped = self._ensemble.warp(inputs, member)[1:]
        return [
            (measure.mean.cpu().numpy(), variance.cpu().numpy())
            for measure, variance in zip(warped, map(marginal_variance, warped), strict=True)
            if variance is not None
        ]

    def warp_targets(self, y: Any, *, member: int = 0) -> Array:
        """Return targets mapped by a member's output warp, (N,) or (N, T).

        Without an output warp these are the standardised targets.
        """
        fitted = self._fitted
        fitted.require_member(member)
        values = np.atleast_1d(as_numpy(y))
        targets = as_rows(np.zeros((len(values), 1)), values).targets.to(fitted.device)
        if targets.shape[1] != self.n_targets_:
            raise UserError(f"y must have {self.n_targets_} targets. Got {targets.shape[1]}.")
        output = fitted.ensemble.members[member].factors.output
        return fitted.as_output(output.forward(fitted.ensemble.scaling.targets(targets))[0])

    # Attributes of a fit

    @property
    def members_(self) -> tuple[Member, ...]:
        """The members of the ensemble, which predict standardised rows."""
        return self._fitted.ensemble.members

    @property
    def weights_(self) -> Array:
        """The weights of the members, which add up to one."""
        return self._fitted.ensemble.weights.cpu().numpy()

    @property
    def kinds_(self) -> tuple[FittedKind, ...]:
        """Every kind of members that was trained, with its weight."""
        return self._fitted.kinds

    @property
    def history_(self) -> list[Array]:
        """The objective at every step of each member, in nats per row."""
        return self._fitted.history

    @property
    def n_iter_(self) -> int:
        """Number of training steps of the member that took most."""
        return max(len(values) - 1 for values in self.history_)

    @property
    def log_marginal_likelihood_(self) -> float:
        """The log evidence of all rows seen, in the units of the targets."""
        fitted = self._fitted
        if any(member.needs_rows for member in fitted.ensemble.members):
            raise AttributeError(
                "A model that predicts by neighbours is trained on the density of each row given "
                "its neighbours, and has no evidence of all rows. Compare models by log_density of "
                "rows left out."
            )
        return fitted.ensemble.log_evidence().item()

    @property
    def scaling_(self) -> Scaling:
        """Means and spreads by which inputs and targets are standardised, on the model's device."""
        return self._fitted.updates.base.scaling

    @property
    def n_samples_seen_(self) -> float:
        """Number of rows that the model is conditioned on, each counted by its weight."""
        ensemble = self._fitted.ensemble
        return (ensemble.members[0].count * ensemble.scaling.weight_unit).item()

    @property
    def keeps_rows_(self) -> bool:
        """Whether the model and its file hold the rows it was trained on.

        They do if a member predicts by neighbours, or if there are so few rows that a file with
        them is smaller than one with sums over them.
        """
        return self._fitted.ensemble.rows is not None

    @property
    def n_held_out_(self) -> float:
        """Number of rows whose errors set the sizes of conformal intervals, each by its weight."""
        return self._fitted.conformal.n_rows()

    @property
    def n_targets_(self) -> int:
        """T, the number of targets."""
        return len(self.scaling_.target_mean)

    @property
    def n_features_in_(self) -> int:
        """Number of columns of X, as in scikit-learn."""
        return self._fitted.reader.n_columns

    @property
    def feature_names_in_(self) -> np.ndarray:
        """Names of the columns of X, as in scikit-learn; arrays have none."""
        columns = self._fitted.reader.columns
        if columns is None:
            raise AttributeError("A model of arrays has no names of columns.")
        return np.array(columns, dtype=object)

    @property
    def input_names_(self) -> list[str]:
        """Names of the inputs that the columns became, if these have names."""
        inputs = self._fitted.reader.inputs
        if inputs is None:
            raise AttributeError("The inputs of a model of arrays have no names.")
        return list(inputs)

    @property
    def table_schema_(self) -> Schema:
        """How the columns of frames and tables become inputs."""
        schema = self._fitted.reader.schema
        if schema is None:
            raise AttributeError("A model of arrays has no schema of tables.")
        return schema

    # Files

    def save(self, path: str | os.PathLike[str], *, include_rows: bool = True) -> None:
        """Write the model to one file.

        Members that predict by neighbours need the rows, and of few rows the other members are
        computed again from them, which makes the file small. Else the file holds no rows.

        Args:
            path: The file.
            include_rows: Whether the file may hold rows. Without them, members that predict by
                neighbours are left out, and the others have their weight. If there are no others,
                the model can predict again after ``partial_fit`` with rows.
        """
        model_file.MODEL.write(path, *model_file.pack(self, include_rows=include_rows))

    @staticmethod
    def load(path: str | os.PathLike[str]) -> BaseRegressor:
        """Read a model that ``save`` wrote, of any estimator. Nothing in the file is executed."""
        return model_file.load(path)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for pickles and copies: parameters, and the bytes of a model file.

        An estimator that is not fitted has its parameters only. The arrays of ``fit`` are left out.
        """
        state = dict(super().__getstate__())
        state.pop("_fitted", None)
        if self.__sklearn_is_fitted__():
            parts = model_file.pack(self, include_rows=True)
            state[model_file.MODEL_BYTES] = model_file.MODEL.to_bytes(*parts)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore what ``__getstate__`` returned."""
        state = dict(state)
        content = state.pop(model_file.MODEL_BYTES, None)
        super().__setstate__(state)
        if content is not None:
            self._fitted = model_file.from_bytes(content, self.device)

    # What scikit-learn and other rooms ask

    def __sklearn_is_fitted__(self) -> bool:
        return "_fitted" in vars(self)

    def __sklearn_tags__(self) -> Any:
        """Say that inputs may be categories, text and missing."""
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.input_tags.allow_nan = True
        return tags

    @property
    def _reader(self) -> InputReader:
        """Reads the inputs of rows like those of the fit."""
        return self._fitted.reader

    @property
    def _ensemble(self) -> Ensemble:
        """The ensemble, conditioned on all rows."""
        return self._fitted.ensemble

    def _check_rows(self, X: Any, y: Any, X_std: Any, sample_weight: Any = None) -> Rows:
        """Check rows against those of ``fit``, and move them to the model's device."""
        rows = check_rows(self, X, y, sample_weight, X_std, dtype=self._precision)
        return rows.to(device=self._fitted.device)

    def _check_inputs(self, X: Any, X_std: Any = None) -> Measure:
        """Check inputs against those of ``fit``, and move them to the model's device."""
        inputs = self._reader.read(self, X, X_std, self._precision)
        return inputs.to(device=self._fitted.device)

    def _check_points(self, X: Any) -> Float[Tensor, "*batch q D"]:
        """Check a tensor of inputs; return it in the model's precision and on its device."""
        fitted, n_inputs = self._fitted, self.n_features_in_
        if not isinstance(X, Tensor):
            raise UserError(
                f"X must be a torch tensor here. Got {type(X).__name__}; use torch.as_tensor(X), "
                "or predict(X, return_cov=True) and sample_y(X) for arrays, frames and tables."
            )
        fitted.reader.require_plain()
        require_dense(X)
        if X.is_complex():
            raise UserError(f"X must hold real numbers. Got a tensor of {X.dtype}; use X.real.")
        if X.ndim < 2 or X.shape[-1] != n_inputs:
            raise UserError(
                f"X must have shape (…, q, D), with the D = {n_inputs} inputs of fit along its "
                f"last axis. Got X.shape={tuple(X.shape)}."
            )
        if not X.isfinite().all():
            raise UserError(
                "X must be finite. Got NaN or infinite values; predict(X) fills in missing ones "
                "(NaN)."
            )
        return X.to(device=fitted.device, dtype=self._precision)

    def _quantiles(
        self,
        X: Any,
        probabilities: list[float],
        X_std: Any,
        include_noise: bool,
        method: str,
        groups: Any,
    ) -> Array:
        """Return quantiles by the model or conformal ones: (N, Q) or (N, T, Q)."""
        require_choice("method", method, IntervalMethod)
        if method == "model":
            if groups is not None:
                raise UserError('groups are for method="conformal" alone.')
            mixture = self.predict_distribution(X, X_std=X_std, include_noise=include_noise)
            return self._fitted.as_output(finite(mixture.quantiles(probabilities)))
        if not include_noise:
            raise UserError(
                "Conformal intervals are about observations, noise and all. Got "
                'include_noise=False; use method="model" for intervals of the function.'
            )
        inputs, fitted = self._check_inputs(X, X_std), self._fitted
        return fitted.as_output(fitted.conformal_quantiles(inputs, probabilities, groups))
