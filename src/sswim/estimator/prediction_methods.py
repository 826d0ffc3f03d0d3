"""The methods of a fitted estimator that predict.

A member of a fitted ensemble.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from sswim.base.validation import RandomState, UserError, draw_generator, require_integer
from sswim.ensemble.ensemble import Ensemble, PendingUpdates
from sswim.ensemble.mixture import Mixture
from sswim.estimator.inputs import (
    InputReader,
    as_numpy,
    check_rows,
    finite,
    finite_algebra,
    finite_covariance,
)
from sswim.members.model import SSWIM
from sswim.members.neighbour_predictor import NeighbourPredictor
from sswim.members.predictor import Predictor
from sswim.rows.rows import Measure, Rows, as_rows, marginal_variance
from sswim.rows.scaling import Scaling


@dataclass(frozen=True)
class Member:
    """One trained model of the ensemble, and its weight."""

    model: SSWIM
    """Architecture and parameters."""
    predictor: Predictor
    """The model conditioned on all rows; it predicts standardised inputs."""
    weight: float
    """Weight in the mixture; the weights of all members add up to one."""


Array = NDArray[np.float64]


class PredictionMethods(BaseEstimator):  # type: ignore[misc]
    """Predictions, densities, draws and warps of a fitted ensemble."""

    dtype: str
    _reader: InputReader
    _models: list[SSWIM]
    _updates: PendingUpdates
    _fitted_rows: Rows | None
    _flat_targets: bool

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
        if not (return_std or return_cov):
            with finite_algebra():
                return self._as_output(finite(self._ensemble.predict_mean(inputs)))
        with finite_algebra():
            mixture = self._ensemble.predict(inputs)
        mean = self._as_output(finite(mixture.mean))
        if return_std:
            spread = mixture if include_noise else mixture.without_noise()
            return mean, self._as_output(finite(spread.standard_deviation))
        covariance = self._ensemble.covariance(inputs, include_noise=include_noise)
        joint = finite_covariance(covariance).permute(1, 2, 0).cpu().numpy()
        return mean, joint[..., 0] if self._flat_targets else joint

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
        return self._as_output(self.predict_distribution(X, X_std=X_std).noise_deviation)

    def log_density(self, X: Any, y: Any, *, X_std: Any = None) -> Array:
        """Return log p(y) of observations, in the shape of y."""
        rows = self._check_rows(X, y, X_std)
        return self._as_output(self._ensemble.predict(rows.inputs).log_density(rows.targets))

    def cdf(self, X: Any, y: Any, *, X_std: Any = None) -> Array:
        """Return the probability that a new observation is at most y, in the shape of y.

        If the densities are right, it is uniform over rows with known targets.
        """
        rows = self._check_rows(X, y, X_std)
        return self._as_output(self._ensemble.predict(rows.inputs).cdf(rows.targets))

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
        inputs = self._check_inputs(X, None)
        generator = draw_generator(random_state)
        functions = self._ensemble.sample(n_samples, generator, include_noise=include_noise)
        draws = functions(inputs).permute(1, 2, 0).cpu().numpy()
        return draws[:, 0] if self._flat_targets else draws

    def loo_predict(self, return_std: bool = False) -> Array | tuple[Array, Array]:
        """Predict the rows given to ``fit``, each from all the others."""
        check_is_fitted(self)
        if self._fitted_rows is None:
            raise UserError(
                "loo_predict needs the arrays given to fit. They are not kept after partial_fit, "
                "in a model file, in a pickle or in a copy, and the rows of tables and sources "
                "never are. Call it right after a fit of arrays."
            )
        mixture = self._ensemble.leave_one_out(self._fitted_rows)
        mean = self._as_output(mixture.mean)
        if not return_std:
            return mean
        return mean, self._as_output(mixture.standard_deviation)

    def warp(
        self, X: Any, *, X_std: Any = None, member: int | None = None
    ) -> list[tuple[Array, Array]]:
        """Return mean and variance of the inputs after each warp of a member.

        They are in the units of the inputs, or in normal scores for a member that uses these. After
        a projection they are coordinates without units, as many as ``warp_dim``. The default is
        the member ``shown_member_``.
        """
        inputs = self._check_inputs(X, X_std)
        member = self.shown_member_ if member is None else member
        self._require_member(member)
        measures = [m.to(device=torch.device("cpu")) for m in self._ensemble.warp(inputs, member)]
        variances = [marginal_variance(m) for m in measures[1:]]
        return [
            (measure.mean.numpy(), variance.numpy())
            for measure, variance in zip(measures[1:], variances, strict=True)
            if variance is not None
        ]

    def warp_targets(self, y: Any, *, member: int = 0) -> Array:
        """Return targets mapped by a member's output warp, (N,) or (N, T).

        Without an output warp these are the standardised targets.
        """
        check_is_fitted(self)
        self._require_member(member)
        values = np.atleast_1d(as_numpy(y))
        targets = as_rows(np.zeros((len(values), 1)), values).targets.to(self._device)
        if targets.shape[1] != self.n_targets_:
            raise UserError(f"y must have {self.n_targets_} targets. Got {targets.shape[1]}.")
        output = self._ensemble.members[member].factors.output
        return self._as_output(output.forward(self._ensemble.scaling.targets(targets))[0])

    @property
    def members_(self) -> tuple[Member, ...]:
        """The members of the ensemble: models, predictors and weights."""
        ensemble = self._ensemble_of_fit()
        weights = ensemble.weights.tolist()
        members = zip(self._models, ensemble.members, weights, strict=True)
        return tuple(Member(*each) for each in members)

    @property
    def weights_(self) -> Array:
        """The weights of the members, which add up to one."""
        return self._ensemble_of_fit().weights.cpu().numpy()

    @property
    def scaling_(self) -> Scaling:
        """Means and spreads by which inputs and targets are standardised, on the model's device."""
        check_is_fitted(self)
        return self._updates.base.scaling

    @property
    def shown_member_(self) -> int:
        """The member whose warps are shown by default.

        It is one of the deepest members that use the inputs as they are, the one with most weight.
        """
        check_is_fitted(self)

        def rank(number: int) -> tuple[bool, int, float]:
            architecture = self._models[number].architecture
            plain = architecture.inputs == "standardised"
            return plain, architecture.depth, self._ensemble.weights[number].item()

        return max(range(len(self._models)), key=rank)

    @property
    def log_marginal_likelihood_(self) -> float:
        """The log evidence of all rows seen, in the units of the targets."""
        if self._predicts_by_neighbours:
            raise AttributeError(
                "A model that predicts by neighbours is trained on the density of each row given "
                "its neighbours, and has no evidence of all rows. Compare models by log_density of "
                "rows left out."
            )
        return self._ensemble_of_fit().log_evidence().item()

    @property
    def warps_targets_(self) -> bool:
        """Whether there is an output warp."""
        check_is_fitted(self)
        return any(model.output_warp is not None for model in self._models)

    @property
    def keeps_rows_(self) -> bool:
        """Whether the model and its file hold the rows it was trained on.

        They do if a member predicts by neighbours, or if there are so few rows that a file with
        them is smaller than one with sums over them.
        """
        return self._predicts_by_neighbours or self._ensemble_of_fit().rows is not None

    @property
    def n_targets_(self) -> int:
        """T, the number of targets."""
        return len(self.scaling_.target_mean)

    @property
    def n_samples_seen_(self) -> float:
        """Number of rows that the model is conditioned on, each counted by its weight."""
        ensemble = self._ensemble_of_fit()
        return (ensemble.members[0].count * ensemble.scaling.weight_unit).item()

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_updates")

    @property
    def _device(self) -> torch.device:
        return self._updates.base.scaling.input_mean.device

    @property
    def _precision(self) -> torch.dtype:
        """Precision of features outside training."""
        return torch.float32 if self.dtype == "float32" else torch.float64

    @property
    def _predicts_by_neighbours(self) -> bool:
        members = self._ensemble_of_fit().members
        return any(isinstance(member, NeighbourPredictor) for member in members)

    def _set_fitted(self, reader: InputReader, **others: Any) -> None:
        """Set how later rows are read, what is public of it, and other attributes of a fit.

        All change in one assignment: no error and no interrupt leaves half of an earlier fit.
        """
        new = {"_reader": reader, "n_features_in_": reader.n_columns, **others}
        if reader.columns is not None:
            new["feature_names_in_"] = np.array(reader.columns, dtype=object)
        if reader.inputs is not None:
            new["input_names_"] = list(reader.inputs)
        earlier = vars(self).items()
        names = ("feature_names_in_", "input_names_")
        self.__dict__ = {name: each for name, each in earlier if name not in names} | new

    @property
    def table_schema_(self) -> dict[str, Any]:
        """How the columns of frames and tables become inputs, as a dictionary."""
        check_is_fitted(self)
        if self._reader.schema is None:
            raise AttributeError("A model of arrays has no schema of tables.")
        from sswim.tables import schema_to_dict  # noqa: PLC0415 (it loads pyarrow)

        return schema_to_dict(self._reader.schema)

    @property
    def _ensemble(self) -> Ensemble:
        """The ensemble, conditioned on all rows."""
        return self._updates.ensemble

    def _ensemble_of_fit(self) -> Ensemble:
        check_is_fitted(self)
        return self._ensemble

    def _check_rows(self, X: Any, y: Any, X_std: Any, sample_weight: Any = None) -> Rows:
        """Check rows against those of ``fit``, and move them to the model's device."""
        check_is_fitted(self)
        rows = check_rows(self, X, y, sample_weight, X_std, dtype=self._precision)
        return rows.to(device=self._device)

    def _check_inputs(self, X: Any, X_std: Any) -> Measure:
        """Check inputs against those of ``fit``, and move them to the model's device."""
        check_is_fitted(self)
        return self._reader.read(self, X, X_std, self._precision).to(device=self._device)

    def _require_member(self, member: int) -> None:
        n_members = len(self._ensemble.members)
        if not 0 <= member < n_members:
            raise UserError(
                f"member must be one of the model's {n_members} members, counted from 0. "
                f"Got {member}."
            )

    def _as_output(self, values: Tensor) -> Array:
        """Return an array of shape (N, T), or (N,) if the targets of ``fit`` were flat."""
        array = values.cpu().numpy()
        return array[:, 0] if self._flat_targets else array
