"""The default: an ensemble of several kinds of members, whose parts the data decide."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from sswim.base.validation import RandomState
from sswim.ensemble.plan import Recipe, Size, choose_size, make_plan
from sswim.estimator.base import BaseRegressor
from sswim.estimator.inputs import Coordinates
from sswim.estimator.settings import Auto, DType, n_frequencies
from sswim.kernels.features import Kernel
from sswim.members import WAYS
from sswim.members.checkpoints import MemberCallback
from sswim.members.kinds import Kind, Plan
from sswim.members.model import NoiseName, check_warp_matrix
from sswim.rows.summary import Summary, has_ties
from sswim.warps.output_warp import OutputWarpName
from sswim.warps.warp import WarpMatrix


@dataclass(kw_only=True, eq=False, repr=False)
class SSWIMRegressor(BaseRegressor):
    """Nonstationary probabilistic regression that needs no tuning.

    An ensemble of members of several depths and kinds is trained, and weighted by its predictions
    of held-out rows. Everything is chosen from the data; an argument that is not ``"auto"``
    overrides its part in all kinds of members. One model of a given depth is a
    :class:`~sswim.WarpedGPRegressor` or a :class:`~sswim.NeighbourGPRegressor`.

    Args:
        n_members: Number of members of each kind. More are slower and more robust.
        kernel: ``"rbf"``, ``"matern12"``, ``"matern32"`` or ``"matern52"``.
        noise: ``"constant"``, or ``"input-dependent"`` for noise that varies over the inputs.
        output_warp: Monotone map of the target for skewed or heavy-tailed noise: ``"none"``,
            ``"sinh-arcsinh"`` or ``"tanh"``.
        coordinates: Names (or places, for arrays) of two columns, longitude and latitude in
            degrees, which become a point on the sphere, so that maps may cross the date line or
            include a pole. A GeoDataFrame of longitudes and latitudes needs no such setting.
        recipe: The ingredients of the ensemble, to leave some of them out, and its sizes.
        device: ``"auto"`` (CUDA where there is one), ``"cpu"``, ``"cuda"``, …
        dtype: ``"float64"``, or ``"float32"`` for features in single precision. ``"auto"`` trains
            in single precision where that is enough, and predicts in double.
        random_state: An integer for reproducible results.
        verbose: Whether to show progress.
        callback: Called as ``callback(member, step)`` after every training step of every member;
            if it returns True, training ends. Members that have not begun are then left out.

    Attributes:
        members_: The members, which predict standardised rows.
        weights_: The weights of the members.
        kinds_: Every kind of members that was trained, with its weight.
        history_: For each member, the objective at every step, in nats per row.
        n_iter_: Number of training steps of the member that took most.
        log_marginal_likelihood_: The log evidence of the targets, in their units, under the mixture
            of the members. A model that predicts by neighbours has none.
        n_samples_seen_: Number of rows that the model is conditioned on.
        scaling_: Means and spreads of inputs and targets.
        n_features_in_, feature_names_in_: As in scikit-learn.
        input_names_: Names of the inputs that the columns became, if these have names.

    Examples:
        >>> import numpy as np
        >>> from sswim import Recipe, SSWIMRegressor
        >>> X = np.linspace(0, 3, 60)[:, None]
        >>> y = np.sin(X[:, 0] ** 2)
        >>> quick = Recipe(kinds=("features-1",), n_components=32, max_iter=20)
        >>> model = SSWIMRegressor(recipe=quick, random_state=0).fit(X, y)
        >>> mean, std = model.predict(X, return_std=True)
        >>> mean.shape, std.shape
        ((60,), (60,))
        >>> [kind.name for kind in model.kinds_]
        ['features-1']
    """

    n_members: int | Auto = "auto"
    kernel: Kernel | Auto = "auto"
    noise: NoiseName | Auto = "auto"
    output_warp: OutputWarpName | Auto = "auto"
    coordinates: Coordinates = None
    recipe: Recipe | None = None
    device: str = "auto"
    dtype: DType | Auto = "auto"
    random_state: RandomState = None
    verbose: bool = False
    callback: MemberCallback | None = None

    def _check_settings(self) -> None:
        super()._check_settings()
        recipe = self.recipe or Recipe()
        check_warp_matrix(_warp_matrix(recipe), recipe.warp_dim, 1)

    def _plan(self, summary: Summary) -> Plan:
        n_inputs = summary.sample.inputs.mean.shape[1]
        return self._plan_sizes(summary.n_rows, n_inputs, tied=has_ties(summary.sample))

    def _plan_sizes(self, n_rows: int, n_inputs: int, *, tied: bool = False) -> Plan:
        """Make the plan of a fit to N rows of D inputs; tied targets have no output warp."""
        recipe = self.recipe or Recipe()
        size = _changed_size(choose_size(n_rows, n_inputs), recipe)
        if self.n_members != "auto":
            n_members = int(self.n_members)
            n_stationary = min(size.n_stationary, n_members)
            size = replace(size, n_members=n_members, n_stationary=n_stationary)
        plan = make_plan(replace(recipe, output_warp="none") if tied else recipe, size)
        length_scale = recipe.length_scale
        return replace(
            plan,
            kinds=tuple(self._changed(kind, recipe) for kind in plan.kinds),
            length_scale=None if length_scale is None else float(length_scale),
            screening=plan.screening and length_scale is None,
            precision=plan.precision if self.dtype == "auto" else self.dtype,
        )

    def _changed(self, kind: Kind, recipe: Recipe) -> Kind:
        """Return a kind of the recipe with what the settings say."""
        if WAYS[kind.way].is_mean:
            return kind
        changes: dict[str, Any] = {
            name: getattr(self, name)
            for name in ("kernel", "output_warp", "noise")
            if getattr(self, name) != "auto"
        }
        if recipe.inputs is not None:
            changes["inputs"] = recipe.inputs
        if recipe.n_output_terms is not None:
            changes["n_output_terms"] = int(recipe.n_output_terms)
        if kind.architecture.depth:
            warp_dim = None if recipe.warp_dim is None else int(recipe.warp_dim)
            changes |= {"warp_matrix": _warp_matrix(recipe), "warp_dim": warp_dim}
        architecture, optimiser = replace(kind.architecture, **changes), kind.optimiser
        if recipe.max_iter is not None:
            optimiser = replace(optimiser, steps=int(recipe.max_iter))
        if recipe.learning_rate is not None:
            optimiser = replace(optimiser, learning_rate=float(recipe.learning_rate))
        return replace(kind, architecture=architecture, optimiser=optimiser)


def _changed_size(size: Size, recipe: Recipe) -> Size:
    """Return sizes with those that a recipe has."""
    if recipe.n_components is not None:
        n_new = n_frequencies(int(recipe.n_components))
        size = replace(
            size,
            n_frequencies=n_new,
            n_more=size.n_more * n_new // size.n_frequencies,
            n_warp_frequencies=max(1, n_new // 2),
        )
    if recipe.n_pseudo is not None:
        size = replace(size, n_pseudo=int(recipe.n_pseudo))
    return size


def _warp_matrix(recipe: Recipe) -> WarpMatrix:
    """Return the form of the warps' matrix: another dimension needs a projection."""
    if recipe.warp_matrix is not None:
        return recipe.warp_matrix
    return "diagonal" if recipe.warp_dim is None else "projected"
