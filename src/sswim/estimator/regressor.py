"""The scikit-learn estimator."""

from __future__ import annotations

import math
from dataclasses import asdict, replace
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils.metadata_routing import UNUSED

from sswim.base.devices import resolve_device
from sswim.base.validation import RandomState, UserError, as_bytes
from sswim.distributed.processes import ALONE, Processes, local_device
from sswim.ensemble.draws import members_per_process
from sswim.ensemble.ensemble import PendingUpdates, make_ensemble
from sswim.ensemble.fit import fit_members
from sswim.ensemble.plan import Plan, Recipe
from sswim.estimator.inputs import Coordinates, as_numpy, as_source, learn_reader
from sswim.estimator.insight_methods import InsightMethods
from sswim.estimator.persistence import Persistence
from sswim.estimator.posterior_methods import PosteriorMethods
from sswim.estimator.progress import show_progress
from sswim.estimator.settings import Auto, DType, ObjectiveName, check_settings, make_fit_plan
from sswim.kernels.spectrum import Kernel
from sswim.members.architecture import InputsName, NoiseName, WarpsName
from sswim.members.checkpoints import Checkpoints, begin_fit
from sswim.members.history import MemberCallback
from sswim.rows.source import MemorySource
from sswim.rows.summary import (
    Summary,
    describe,
    has_ties,
    require_like_targets,
    summarise,
    warn_about_targets,
)
from sswim.rows.training_rows import read_training_rows
from sswim.warps.output_warp import OutputWarpName
from sswim.warps.warp import WarpMatrix

TRAINING_SHARE = 0.75
"""Share of a limited time after which training ends; weighing and conditioning need the rest."""


class SSWIMRegressor(
    MultiOutputMixin,  # type: ignore[misc]
    RegressorMixin,  # type: ignore[misc]
    PosteriorMethods,
    InsightMethods,
    Persistence,
):
    """Nonstationary probabilistic regression by sparse spectrum warped input measures.

    Inputs and targets are standardised internally; predictions are in the units of the targets.

    By default an ensemble of members of several depths and kinds is trained, and weighted by its
    predictions of held-out rows. Everything is chosen from the data, and any argument overrides its
    part. With a number for ``depth``, one model of that depth is trained instead, on all rows and
    as the other arguments say; their defaults are then those in parentheses.

    Args:
        depth: ``"auto"``, or the number of warps between the inputs and the regression; 0 is a
            stationary model.
        n_neighbors: 0, or the number of nearest rows, in the warped space, that a prediction by one
            model is conditioned on, under the exact kernel: finer detail than features resolve,
            at the same cost per training step whatever the number of rows. Predictions are then
            Student-t, and the model keeps its rows. 64 is a good number.
        local_amplitude: Whether each neighbourhood has an amplitude of its own: function and noise
            may be strong here and weak there. Else predictions are Gaussian.
        n_components: Number of Fourier features, rounded up to an even number because they come in
            pairs of cosine and sine. More features resolve more detail. (512; with neighbours 256,
            for the warps.)
        n_pseudo: Number of pseudo-points of each warp. (128; with neighbours 64.)
        warps: ``"joint"``: the two functions of a warp share frequencies and pseudo-inputs, as in
            the ensemble; ``"separate"``: each has its own, as published, at twice the cost.
            (``"separate"``; with neighbours ``"joint"``.)
        warp_matrix: Form of the matrix G of a warp G(x) x + h(x). ``"diagonal"``: each input is
            scaled and shifted. ``"projected"``: the inputs are first mapped to ``warp_dim``
            coordinates by a learnt linear map, which may also be as many as the inputs, and each
            coordinate is scaled and shifted. ``"full"``: all entries of the matrix depend on x.
            ``"auto"`` is ``"projected"`` if ``warp_dim`` is given, else ``"diagonal"``.
        warp_dim: Dimension of the warped space; None for the number of inputs. A few coordinates
            are faster than many inputs, and may be as good.
        inputs: ``"standardised"``, or ``"normal-scores"`` to map each input to normal scores first.
            (``"standardised"``.)
        kernel: ``"rbf"``, ``"matern12"``, ``"matern32"`` or ``"matern52"``. (``"matern32"``.)
        n_members: Number of models of each kind. More are slower and more robust. (1.)
        output_warp: Monotone map of the target for skewed or heavy-tailed noise: ``"none"``,
            ``"sinh-arcsinh"`` or ``"tanh"``. (``"none"``.)
        n_output_terms: Number of terms of that map.
        noise: ``"constant"``, or ``"input-dependent"`` for noise that varies over the inputs.
            (``"constant"``.)
        objective: ``"map"`` (the evidence with a prior on the warps), ``"evidence"`` (without it,
            as published) or ``"leave-one-out"``. (``"map"``.)
        max_iter: Number of training steps. (150; with neighbours 200.)
        growing: Whether the first steps use few of the rows, chosen at random: the same error
            sooner if there are many rows and few steps.
        learning_rate: Largest learning rate of the schedule. (0.03; with neighbours 0.1.)
        length_scale: Start of all length-scales, in units of each input's spread. (The square root
            of the number of inputs; in the ensemble, chosen from the data.)
        dtype: ``"float64"``, or ``"float32"`` for features in single precision. (``"float64"``; the
            ensemble trains in single precision where that is enough, and predicts in double.)
        device: ``"auto"`` (CUDA where there is one), ``"cpu"``, ``"cuda"``, …
        random_state: An integer for reproducible results.
        verbose: Whether to show progress.
        callback: Called as ``callback(member, step)`` after every training step of every member;
            if it returns True, training ends. Members that have not begun are then left out.
        recipe: The ingredients of the default ensemble, to leave some of them out.
        coordinates: Names (or places, for arrays) of two columns, longitude and latitude in
            degrees, which become a point on the sphere: the date line and the poles are nothing
            special. A GeoDataFrame of longitudes and latitudes needs no such setting.

    Attributes:
        members_: The members: models, predictors and weights.
        weights_: The weights of the members.
        history_: For each member, the objective at every step, in nats per row.
        n_iter_: Number of training steps of the member that took most.
        log_marginal_likelihood_: The log evidence of the targets, in their units, under the mixture
            of the members. Where the noise depends on the input, it is the evidence under the
            noise that the regression weights rows by. A model that predicts by neighbours has none.
        recipe_: What "auto" came to: every kind of members that was trained, with its weight.
        n_samples_seen_: Number of rows that the model is conditioned on.
        scaling_: Means and spreads of inputs and targets.
        n_features_in_, feature_names_in_: As in scikit-learn.
        input_names_: Names of the inputs that the columns became, if these have names.
        table_schema_: How the columns of frames and tables become inputs.
    """

    # Only sample_weight and X_std describe rows; scikit-learn does not route the other arguments.
    __metadata_request__fit = dict.fromkeys(
        ("memory", "time_limit", "checkpoints", "processes"), UNUSED
    )
    __metadata_request__predict = dict.fromkeys(
        ("return_std", "return_cov", "include_noise"), UNUSED
    )

    def __init__(
        self,
        *,
        depth: int | Auto = "auto",
        n_neighbors: int = 0,
        local_amplitude: bool = True,
        n_components: int | Auto = "auto",
        n_pseudo: int | Auto = "auto",
        warps: WarpsName | Auto = "auto",
        warp_matrix: WarpMatrix | Auto = "auto",
        warp_dim: int | None = None,
        inputs: InputsName | Auto = "auto",
        kernel: Kernel | Auto = "auto",
        n_members: int | Auto = "auto",
        output_warp: OutputWarpName | Auto = "auto",
        n_output_terms: int = 2,
        noise: NoiseName | Auto = "auto",
        objective: ObjectiveName | Auto = "auto",
        max_iter: int | Auto = "auto",
        growing: bool = False,
        learning_rate: float | Auto = "auto",
        length_scale: float | Auto = "auto",
        dtype: DType | Auto = "auto",
        device: str = "auto",
        random_state: RandomState = None,
        verbose: bool = False,
        callback: MemberCallback | None = None,
        recipe: Recipe | None = None,
        coordinates: Coordinates = None,
    ) -> None:
        self.depth = depth
        self.n_neighbors = n_neighbors
        self.local_amplitude = local_amplitude
        self.n_components = n_components
        self.n_pseudo = n_pseudo
        self.warps = warps
        self.warp_matrix = warp_matrix
        self.warp_dim = warp_dim
        self.inputs = inputs
        self.kernel = kernel
        self.n_members = n_members
        self.output_warp = output_warp
        self.n_output_terms = n_output_terms
        self.noise = noise
        self.objective = objective
        self.max_iter = max_iter
        self.growing = growing
        self.learning_rate = learning_rate
        self.length_scale = length_scale
        self.dtype = dtype
        self.device = device
        self.random_state = random_state
        self.verbose = verbose
        self.callback = callback
        self.recipe = recipe
        self.coordinates = coordinates

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        X_std: Any = None,
        memory: int | str = "2GiB",
        time_limit: int | float | None = None,
        checkpoints: Checkpoints | None = None,
        processes: Processes = ALONE,
    ) -> SSWIMRegressor:
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
                have not begun are left out. ``recipe_`` says what was trained.
            checkpoints: Where the training is saved as it goes, and resumed from.
            processes: The processes that call this together with the same arguments to share the
                work; see :func:`sswim.distributed.join_processes`.
        """
        check_settings(self)
        deadline = _deadline(time_limit)
        processes.require_same("settings", self._settings())
        held_bytes = as_bytes(memory)
        device = local_device(resolve_device(self.device))
        dtype = self._precision
        source = as_source(
            self,
            X,
            y,
            sample_weight,
            X_std,
            dtype=dtype,
            memory=held_bytes,
            processes=processes,
        )
        processes.require_same("table", {"inputs": source.names, **source.facts()})
        summary = summarise(source, dtype, processes)
        processes.require_same("rows", describe(summary))
        plan = replace(self._plan(summary), shortest_first=time_limit is not None)
        output_warp = any(kind.architecture.output_warp != "none" for kind in plan.kinds)
        warn_about_targets(summary.sample, output_warp=output_warp)
        facts = {
            "settings": self._settings(),
            "sizes": asdict(plan),
            "data": describe(summary, source.names),
        }
        random = begin_fit(checkpoints, self.random_state, facts, processes)
        rows = read_training_rows(
            source,
            summary,
            dtype=dtype,
            device=device,
            memory=held_bytes,
            one_pass=plan.cross_fitting,
            keep_rows=plan.keeps_rows,
            processes=processes,
        )
        with show_progress(
            self.verbose and processes.is_first,
            members_per_process(plan, rows),
            [kind.optimiser.steps for kind in plan.kinds for _ in range(kind.n_members)],
            self.callback,
            deadline,
            [number for number, kind in enumerate(plan.kinds) for _ in range(kind.n_members)],
        ) as callback:
            members = fit_members(plan, rows, random, callback, checkpoints)
        combined = members.combined
        ensemble = make_ensemble(
            summary.scaling.to(device=device),
            combined.predictors,
            combined.weights,
            rows.device_sample if rows.complete else None,
            combined.folds,
        )
        arrays = source.rows.to(device=device) if isinstance(source, MemorySource) else None
        history = [
            np.array([step.value for step in training.history]) for training in combined.trainings
        ]
        self._set_fitted(
            learn_reader(source, summary.sample),
            _models=combined.models,
            _updates=PendingUpdates(ensemble),
            _flat_targets=source.flat_targets,
            _fitted_rows=arrays,
            _calibration=None,
            _conformal=None,
            recipe_=members.kinds,
            history_=history,
            n_iter_=max(len(values) - 1 for values in history),
        )
        return self

    def _plan(self, summary: Summary) -> Plan:
        """Make the plan of a fit."""
        n_inputs = summary.sample.inputs.mean.shape[1]
        tied = has_ties(summary.sample)
        return make_fit_plan(self, summary.n_rows, n_inputs, tied=tied)

    def partial_fit(
        self, X: Any, y: Any, sample_weight: Any = None, *, X_std: Any = None
    ) -> SSWIMRegressor:
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
        updates = self._updates.add(rows)
        self.__dict__.update(
            _updates=updates, _fitted_rows=None, _calibration=None, _conformal=None
        )
        return self

    def __sklearn_tags__(self) -> Any:
        """Say that inputs may be categories, text and missing."""
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.input_tags.allow_nan = True
        return tags

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, X_std: Any = None) -> float:
        """Return R², the share of the targets' variance that the predicted means explain."""
        predicted = self.predict(X, X_std=X_std)
        return float(r2_score(as_numpy(y), predicted, sample_weight=as_numpy(sample_weight)))


def _deadline(time_limit: int | float | None) -> float:
    """Return the value of ``perf_counter`` at which training ends."""
    if time_limit is None:
        return math.inf
    if (
        isinstance(time_limit, bool)
        or not isinstance(time_limit, int | float)
        or not time_limit > 0
    ):
        raise UserError(f"time_limit must be a positive number of seconds. Got {time_limit!r}.")
    return perf_counter() + TRAINING_SHARE * time_limit
