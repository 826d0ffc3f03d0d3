"""The scikit-learn estimator."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data
from torch import Tensor

from sswim.base.byte_size import as_bytes
from sswim.base.devices import resolve_device
from sswim.base.random_state import RandomState, draw_generator
from sswim.base.validation import require_coverage, require_integer
from sswim.distributed.processes import ALONE, Processes, local_device
from sswim.estimator.input_arrays import as_numpy, squared_deviation
from sswim.estimator.model_file import MODEL, ModelFileError, pack, unpack
from sswim.estimator.settings import Auto, DType, ObjectiveName, check_settings, planned
from sswim.model.architecture import Architecture, NoiseName, WarpsName
from sswim.model.output_warp import OutputWarpName
from sswim.model.spectrum import Kernel
from sswim.posterior.ensemble import Ensemble
from sswim.posterior.mixture import Mixture
from sswim.recipe.member_fitting import fit_members, shown_progress
from sswim.recipe.recipe import Recipe
from sswim.rows.measure import Measure, marginal_variance
from sswim.rows.rows import Rows, as_measure, as_rows
from sswim.rows.source import Source
from sswim.rows.summary import describe, summarise, summarise_rows
from sswim.rows.target_checks import has_ties, warn_of_targets
from sswim.rows.training_rows import as_source, supply_rows, supply_source
from sswim.training.checkpoints import Checkpoints, begin_fit
from sswim.training.history import MemberCallback

Array = NDArray[np.float64]


class SSWIMRegressor(MultiOutputMixin, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Nonstationary probabilistic regression by sparse spectrum warped input measures.

    Inputs and targets are standardised within, and predictions given in the units of the targets.

    By default an ensemble of members of several depths and kinds is trained, and weighed by how
    well it predicts rows that were left out; everything is chosen from the data, and any argument
    changes its part of it. With a number for ``depth`` one model of that depth is trained instead,
    on all rows and as the other arguments say.

    Args:
        depth: ``"auto"``, or the number of warps between the inputs and the regression; 0 is a
            stationary model.
        n_components: Fourier features, an even number. More resolve more detail. (512 for a model of
            a given depth.)
        n_pseudo: Pseudo-points of each warp. (128.)
        warps: ``"joint"``: the two functions of a warp share frequencies and pseudo-inputs, as in
            the ensemble; ``"separate"``: each has its own, as published, at twice the cost.
            (``"separate"``.)
        kernel: ``"rbf"``, ``"matern12"``, ``"matern32"`` or ``"matern52"``. (``"matern32"``.)
        n_members: Models of each kind, to train and combine. More are slower and more robust. (1.)
        output_warp: A monotone map of the target, learnt with the rest, for skewed or heavy-tailed
            noise: ``"none"``, ``"sinh-arcsinh"`` or ``"tanh"``. (``"none"``.)
        n_output_terms: Terms of that map.
        noise: ``"constant"``, or ``"input-dependent"`` for noise that varies over the inputs.
            (``"constant"``.)
        objective: ``"map"`` (the evidence with a prior on the warps), ``"evidence"`` (without it,
            as published) or ``"leave-one-out"``. (``"map"``.)
        max_iter: Training steps. (150.)
        growing: The first steps see few of the rows, a random choice: the same error sooner where
            rows are many and steps few.
        learning_rate: The largest step of the schedule. (0.03.)
        length_scale: Where length-scales start, in units of each input's spread; by default the
            data decide, or the root of the number of inputs for a model of a given depth.
        dtype: ``"float64"``, or ``"float32"`` for features in single precision; by default single
            while the ensemble is trained, where that is enough, and double otherwise.
        device: ``"auto"`` (CUDA where there is one), ``"cpu"``, ``"cuda"``, …
        random_state: An integer for results that can be repeated.
        verbose: Show progress.
        callback: Called as ``callback(member, step)`` after every training step of every member;
            returning True ends the training. (Small members are trained together; of others those
            to come are left out.)
        recipe: The ingredients of the default, to leave some out.

    Attributes:
        history_: For each member, the objective at every step, in nats per row.
        n_iter_: Training steps taken, of the member that took most.
        weights_: How much each member counts.
        log_marginal_likelihood_: The log evidence of the targets, in their units (that of the
            mixture of models if there are several members). Where the noise depends on the
            input, it is that of the noise which the regression weighs rows by.
        n_features_in_, feature_names_in_: As in scikit-learn.
        table_schema_: How the command line reads tables for this model, if it made it.
    """

    table_schema_: dict[str, Any]

    def __init__(
        self,
        *,
        depth: int | Auto = "auto",
        n_components: int | Auto = "auto",
        n_pseudo: int | Auto = "auto",
        warps: WarpsName | Auto = "auto",
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
    ) -> None:
        self.depth = depth
        self.n_components = n_components
        self.n_pseudo = n_pseudo
        self.warps = warps
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

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        X_std: Any = None,
        *,
        memory: int | str = "2GiB",
        checkpoints: Checkpoints | None = None,
        processes: Processes = ALONE,
    ) -> SSWIMRegressor:
        """Learn from rows.

        Args:
            X: Inputs, (N, D): array, data frame or tensor. Or the path of a table: a Parquet or CSV
                file, or a folder of them. Or a source of rows (see :mod:`sswim.rows`).
            y: Targets, (N,) or (N, T). Of a table, the name of the column; of a source, nothing.
            sample_weight: How many times each row counts, (N,).
            X_std: Known standard deviation of the inputs: a number, (D,) or (N, D).
            memory: How much of a table or source may be held; more is read again for every pass.
            checkpoints: Where the training is kept as it goes, and taken up again.
            processes: Which call this together, all with the same arguments, to share the work; see
                :func:`sswim.distributed.processes.joined`.
        """
        check_settings(self)
        processes.require_same("settings", self._settings())
        held = as_bytes(memory)
        device = local_device(resolve_device(self.device))
        source: Source | None = None
        if isinstance(X, Source | str | os.PathLike):
            source = as_source(X, y, sample_weight, X_std, processes)
            processes.require_same("table", {"inputs": source.names, **source.facts()})
            rows, found = None, summarise(source, self._precision, processes)
        else:
            rows = self._rows(X, y, sample_weight, X_std, reset=True)
            found = summarise_rows(rows)
            processes.require_same("rows", describe(found))
        n_inputs = found.sample.inputs.mean.shape[1]
        plan = planned(self, round(found.weight), n_inputs, tied=has_ties(found.sample))
        output_warp = plan.kinds[0].architecture.output_warp != "none"
        warn_of_targets(found.sample, output_warp=output_warp)
        names = source.names if source is not None else getattr(self, "feature_names_in_", None)
        facts = {
            "settings": self._settings(),
            "sizes": asdict(plan),
            "data": describe(found, names),
        }
        random = begin_fit(checkpoints, self.random_state, facts, processes)
        if source is None:
            assert rows is not None
            supply = supply_rows(rows, found, processes)
        else:
            supply = supply_source(
                source,
                found,
                dtype=self._precision,
                device=device,
                memory=held,
                once=plan.cross_fitting,
                processes=processes,
            )
        with shown_progress(
            self.verbose and processes.is_first,
            supply.members_of_first(plan),
            plan.optimiser.steps,
            self.callback,
        ) as callback:
            members = fit_members(plan, supply, random, device, callback, checkpoints)
        if hasattr(self, "table_schema_"):
            del self.table_schema_  # of a table that an earlier fit saw
        combined = members.combined
        self._models = combined.models
        scaling = found.scaling.to(device=device)
        self._ensemble = Ensemble(scaling, combined.predictors, combined.weights)
        self._fitted_rows: Rows | None = None if rows is None else rows.to(device=device)
        if source is None:
            self._flat_targets = np.asarray(as_numpy(y)).ndim == 1
        else:
            self._note_source(source, n_inputs)
        histories = [training.history for training in members.trainings]
        self.history_ = [np.array([step.value for step in history]) for history in histories]
        self.n_iter_ = max(len(values) - 1 for values in self.history_)
        return self

    def _settings(self) -> dict[str, Any]:
        """The arguments that decide what is learnt, JSON-able."""
        settings = {
            name: value.item() if isinstance(value, np.generic) else value
            for name, value in self.get_params().items()
            if name not in ("device", "verbose", "callback")
        }
        if self.recipe is not None:
            settings["recipe"] = asdict(self.recipe)
        if isinstance(self.random_state, np.random.RandomState):
            settings["random_state"] = None  # it cannot be kept
        return settings

    def _note_source(self, source: Source, n_inputs: int) -> None:
        self._flat_targets = source.flat_targets
        self.n_features_in_ = n_inputs
        if source.names is not None:
            self.feature_names_in_ = np.array(source.names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        if source.table_schema is not None:
            self.table_schema_ = source.table_schema

    def partial_fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        X_std: Any = None,
    ) -> SSWIMRegressor:
        """Condition on more rows, exactly and without the old ones; hyper-parameters are kept.

        The first call on an estimator that has not been fitted is a ``fit``.
        """
        if not self.__sklearn_is_fitted__():
            return self.fit(X, y, sample_weight, X_std)
        rows = self._rows(X, y, sample_weight, X_std, reset=False)
        self._ensemble = self._ensemble.update(rows.to(device=self._device))
        self._fitted_rows = None
        return self

    def predict(
        self,
        X: Any,
        return_std: bool = False,
        return_cov: bool = False,
        include_noise: bool = True,
        X_std: Any = None,
    ) -> Array | tuple[Array, Array]:
        """Predict the targets of rows.

        Args:
            X: Inputs, (N, D).
            return_std: Also return standard deviations, in the shape of the mean.
            return_cov: Also return the joint covariance, (N, N) or (N, N, T).
            include_noise: The spread of a new observation; without, that of the function.
            X_std: Known standard deviation of the inputs: a number, (D,) or (N, D).
        """
        if return_std and return_cov:
            raise ValueError("At most one of return_std and return_cov can be asked for.")
        inputs = self._inputs(X, X_std)
        if not (return_std or return_cov):
            return self._shaped(self._ensemble.predict_mean(inputs))
        mixture = self._ensemble.predict(inputs)
        mean = self._shaped(mixture.mean)
        if return_std:
            spread = mixture if include_noise else mixture.function()
            return mean, self._shaped(spread.observation_variance.sqrt())
        covariance = self._ensemble.covariance(inputs, noisy=include_noise)
        joint = covariance.permute(1, 2, 0).cpu().numpy()
        return mean, joint[..., 0] if self._flat_targets else joint

    def predict_interval(
        self, X: Any, coverage: float = 0.9, X_std: Any = None, include_noise: bool = True
    ) -> tuple[Array, Array]:
        """Lower and upper ends of the central interval that covers a new observation.

        Without ``include_noise`` it covers the function.
        """
        require_coverage(coverage)
        mixture = self._mixture(X, X_std, include_noise)
        lower, upper = (mixture.quantile(0.5 * (1 + sign * coverage)) for sign in (-1, 1))
        return self._shaped(lower), self._shaped(upper)

    def predict_quantiles(
        self,
        X: Any,
        probabilities: Any = (0.05, 0.5, 0.95),
        X_std: Any = None,
        include_noise: bool = True,
    ) -> Array:
        """Values that a new observation stays below with probabilities: (N, Q) or (N, T, Q).

        That of one half is the median. Without ``include_noise`` they are those of the function.
        """
        levels = np.atleast_1d(np.asarray(probabilities, dtype=np.float64))
        if levels.ndim != 1 or len(levels) == 0 or not np.all((levels > 0) & (levels < 1)):
            raise ValueError(
                f"probabilities must be one or more, between 0 and 1. Got {probabilities}."
            )
        mixture = self._mixture(X, X_std, include_noise)
        return np.stack([self._shaped(mixture.quantile(level)) for level in levels.tolist()], -1)

    def predict_noise(self, X: Any, X_std: Any = None) -> Array:
        """The standard deviation of the noise alone, in the shape of the mean."""
        return self._shaped(self._mixture(X, X_std).noise_variance.sqrt())

    def log_density(self, X: Any, y: Any, X_std: Any = None) -> Array:
        """log p(y) of observations, in the shape of y."""
        check_is_fitted(self)
        rows = self._rows(X, y, None, X_std, reset=False).to(device=self._device)
        return self._shaped(self._ensemble.predict(rows.inputs).log_density(rows.targets))

    def cdf(self, X: Any, y: Any, X_std: Any = None) -> Array:
        """The probability that a new observation is at most y, in the shape of y.

        Over rows with known targets it is uniform if the densities are right.
        """
        check_is_fitted(self)
        rows = self._rows(X, y, None, X_std, reset=False).to(device=self._device)
        return self._shaped(self._ensemble.predict(rows.inputs).cdf(rows.targets))

    def sample_y(
        self,
        X: Any,
        n_samples: int = 1,
        random_state: RandomState = 0,
        include_noise: bool = False,
    ) -> Array:
        """Values of functions drawn from the posterior, (N, n_samples) or (N, T, n_samples).

        The same random state draws the same functions, wherever they are evaluated. With
        ``include_noise`` they are observations of those functions.
        """
        require_integer("n_samples", n_samples, 1)
        inputs = self._inputs(X, None)
        generator = draw_generator(random_state)
        functions = self._ensemble.sample(n_samples, generator, noisy=include_noise)
        draws = functions(inputs).permute(1, 2, 0).cpu().numpy()
        return draws[:, 0] if self._flat_targets else draws

    def loo_predict(self, return_std: bool = False) -> Array | tuple[Array, Array]:
        """Predictions of the rows given to ``fit``, each from all the others."""
        check_is_fitted(self)
        if self._fitted_rows is None:
            raise ValueError(
                "loo_predict is about the arrays given to fit, which are not kept after "
                "partial_fit or in a model file, nor are tables and sources. Call it right after "
                "a fit of arrays."
            )
        mixture = self._ensemble.leave_one_out(self._fitted_rows)
        mean = self._shaped(mixture.mean)
        return (mean, self._shaped(mixture.observation_variance.sqrt())) if return_std else mean

    def warp(
        self, X: Any, X_std: Any = None, member: int | None = None
    ) -> list[tuple[Array, Array]]:
        """Mean and variance of the inputs after each warp of a member in turn.

        In the units of the inputs; for a member that sees normal scores, in those of the scores. By
        default the member is ``shown_member_``.
        """
        inputs = self._inputs(X, X_std)
        member = self.shown_member_ if member is None else member
        self._require_member(member)
        measures = [m.to(device=torch.device("cpu")) for m in self._ensemble.warp(inputs, member)]
        variances = [marginal_variance(m) for m in measures[1:]]
        return [
            (measure.mean.numpy(), variance.numpy())
            for measure, variance in zip(measures[1:], variances, strict=True)
            if variance is not None
        ]

    @property
    def shown_member_(self) -> int:
        """The member whose warps are shown: of the deepest that sees the inputs as they are.

        That which counts most, if there are several.
        """
        check_is_fitted(self)

        def rank(number: int) -> tuple[bool, int, float]:
            architecture = self._models[number].architecture
            plain = architecture.inputs == "standardised"
            return plain, architecture.depth, self._ensemble.weights[number].item()

        return max(range(len(self._models)), key=rank)

    def warp_targets(self, y: Any, member: int = 0) -> Array:
        """What the output warp makes of targets, (N,) or (N, T).

        Without an output warp these are the standardised targets.
        """
        check_is_fitted(self)
        self._require_member(member)
        values = np.atleast_1d(as_numpy(y))
        targets = as_rows(np.zeros((len(values), 1)), values).targets.to(self._device)
        if targets.shape[1] != self.n_targets_:
            raise ValueError(f"y must have {self.n_targets_} targets. Got {targets.shape[1]}.")
        output = self._ensemble.members[member].factors.output
        return self._shaped(output.forward(self._ensemble.scaling.targets(targets))[0])

    @property
    def log_marginal_likelihood_(self) -> float:
        """The log evidence of all rows seen, in the units of the targets."""
        check_is_fitted(self)
        return self._ensemble.log_evidence().item()

    @property
    def warps_targets_(self) -> bool:
        """Whether there is an output warp."""
        check_is_fitted(self)
        return any(model.output_warp is not None for model in self._models)

    @property
    def weights_(self) -> Array:
        """How much each member counts; they add up to one."""
        check_is_fitted(self)
        return self._ensemble.weights.cpu().numpy()

    @property
    def n_targets_(self) -> int:
        """T, the number of targets."""
        check_is_fitted(self)
        return len(self._ensemble.scaling.target_mean)

    @property
    def n_samples_seen_(self) -> float:
        """Rows that the model is conditioned on, each as often as its weight says."""
        check_is_fitted(self)
        return self._ensemble.members[0].statistics.count.item()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to one file, without any of the rows it was trained on."""
        check_is_fitted(self)
        # A device is a matter of the machine, and a callback cannot be kept.
        beside = {"device": "auto", "verbose": self.verbose, "callback": None}
        content = {
            "parameters": {**self._settings(), **beside},
            "architectures": [asdict(model.architecture) for model in self._models],
            "flat_targets": self._flat_targets,
            "feature_names": list(getattr(self, "feature_names_in_", [])),
            "history": [values.tolist() for values in self.history_],
            "table_schema": getattr(self, "table_schema_", None),
        }
        MODEL.write(path, pack(self._models, self._ensemble), content)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> SSWIMRegressor:
        """Read a model that ``save`` wrote. Nothing in the file is executed."""
        tensors, content = MODEL.read(path)
        try:
            parameters = content["parameters"]
            if parameters["recipe"] is not None:
                parameters["recipe"] = Recipe.from_dict(parameters["recipe"])
            regressor = cls(**parameters)
            check_settings(regressor)
            regressor._restore(tensors, content)
        except (KeyError, IndexError, TypeError, ValueError, RuntimeError) as error:
            raise ModelFileError(
                f"{os.fspath(path)!r} is a sswim model file, but its content does not fit "
                f"together: {error}."
            ) from error
        return regressor

    def _restore(self, tensors: dict[str, Tensor], content: dict[str, Any]) -> None:
        device = resolve_device(self.device)
        self.history_ = [np.array(values) for values in content["history"]]
        architectures = [Architecture(**each) for each in content["architectures"]]
        self._models, self._ensemble = unpack(tensors, architectures, device)
        if len(self.history_) != len(self._models):
            raise ValueError(f"{len(self.history_)} histories for {len(self._models)} members")
        self._fitted_rows = None
        self._flat_targets = bool(content["flat_targets"])
        self.n_iter_ = max(len(values) - 1 for values in self.history_)
        self.n_features_in_ = len(self._ensemble.scaling.input_mean)
        if content["feature_names"]:
            self.feature_names_in_ = np.array(content["feature_names"], dtype=object)
        if content["table_schema"] is not None:
            self.table_schema_ = content["table_schema"]

    def __getstate__(self) -> dict[str, Any]:
        """What pickling keeps: nothing of the rows."""
        return {**super().__getstate__(), "_fitted_rows": None}

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_ensemble")

    @property
    def _device(self) -> torch.device:
        return self._ensemble.scaling.input_mean.device

    def _rows(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        X_std: Any,
        *,
        reset: bool,
    ) -> Rows:
        """Check rows with targets; they set what later rows must look like if ``reset``."""
        inputs, targets = validate_data(
            self,
            as_numpy(X),
            as_numpy(y),
            dtype=np.float64,
            multi_output=True,
            y_numeric=True,
            ensure_min_samples=2 if reset else 1,
            reset=reset,
        )
        if sample_weight is not None:
            sample_weight = _check_sample_weight(as_numpy(sample_weight), inputs)
        variance = squared_deviation(X_std, inputs.shape)
        rows = as_rows(inputs, targets, sample_weight, variance, self._precision)
        if not reset and rows.targets.shape[1] != self.n_targets_:
            raise ValueError(
                f"y must have the {self.n_targets_} targets of fit. Got y.shape={targets.shape}."
            )
        return rows

    def _inputs(self, X: Any, X_std: Any) -> Measure:
        """Check rows without targets."""
        check_is_fitted(self)
        inputs = validate_data(self, as_numpy(X), dtype=np.float64, reset=False)
        variance = squared_deviation(X_std, inputs.shape)
        return as_measure(inputs, variance, self._precision).to(device=self._device)

    @property
    def _precision(self) -> torch.dtype:
        """Of features outside training."""
        return torch.float32 if self.dtype == "float32" else torch.float64

    def _mixture(self, X: Any, X_std: Any, include_noise: bool = True) -> Mixture:
        """Predictions of new observations, or of the function."""
        inputs = self._inputs(X, X_std)
        mixture = self._ensemble.predict(inputs)
        return mixture if include_noise else mixture.function()

    def _require_member(self, member: int) -> None:
        n_members = len(self._ensemble.members)
        if not 0 <= member < n_members:
            raise ValueError(
                f"member must be one of the {n_members} of the model, counted from 0. Got {member}."
            )

    def _shaped(self, values: Tensor) -> Array:
        """(N, T), or (N,) if the targets of fit were flat."""
        array = values.cpu().numpy()
        return array[:, 0] if self._flat_targets else array
