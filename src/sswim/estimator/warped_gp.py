"""One kind of model: a Gaussian process of a given depth, by features or by neighbours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sswim.base.validation import RandomState
from sswim.estimator.base import BaseRegressor
from sswim.estimator.inputs import Coordinates
from sswim.estimator.settings import Auto, DType, ObjectiveName, PriorName, n_frequencies
from sswim.kernels.features import Kernel
from sswim.members.checkpoints import MemberCallback
from sswim.members.kinds import Kind, Plan
from sswim.members.model import Architecture, InputsName, NoiseName, WarpsName, check_warp_matrix
from sswim.members.neighbour_training import MiniBatches
from sswim.members.objective import OBJECTIVES
from sswim.members.training import Adam
from sswim.rows.summary import Summary
from sswim.warps.output_warp import OutputWarpName
from sswim.warps.warp import WarpMatrix


@dataclass(kw_only=True, eq=False, repr=False)
class _OneKind(BaseRegressor):
    """The settings of one kind of member, and its plan, with nothing that the data decide."""

    depth: int = 1
    n_components: int
    n_pseudo: int
    warps: WarpsName
    warp_matrix: WarpMatrix = "diagonal"
    warp_dim: int | None = None
    inputs: InputsName = "standardised"
    kernel: Kernel = "matern32"
    n_members: int = 1
    output_warp: OutputWarpName = "none"
    n_output_terms: int = 2
    noise: NoiseName = "constant"
    objective: ObjectiveName = "map"
    max_iter: int
    learning_rate: float
    length_scale: float | None = None
    coordinates: Coordinates = None
    device: str = "auto"
    dtype: DType | Auto
    random_state: RandomState = None
    verbose: bool = False
    callback: MemberCallback | None = None

    def _check_settings(self) -> None:
        super()._check_settings()
        check_warp_matrix(self.warp_matrix, self.warp_dim, self.depth)

    def _plan_of(self, way: str, optimiser: Adam | MiniBatches, **neighbours: Any) -> Plan:
        """Make the plan of one kind of member that predicts in some way."""
        architecture = Architecture(
            depth=int(self.depth),
            n_frequencies=n_frequencies(int(self.n_components)),
            n_pseudo=int(self.n_pseudo),
            warps=self.warps,
            warp_matrix=self.warp_matrix,
            warp_dim=None if self.warp_dim is None else int(self.warp_dim),
            inputs=self.inputs,
            kernel=self.kernel,
            output_warp=self.output_warp,
            n_output_terms=int(self.n_output_terms),
            noise=self.noise,
            **neighbours,
        )
        name, objective = f"{way}-{self.depth}", OBJECTIVES[self.objective]
        kind = Kind(name, way, architecture, objective, optimiser, int(self.n_members))
        return Plan(
            (kind,),
            length_scale=None if self.length_scale is None else float(self.length_scale),
            precision="float32" if self.dtype == "auto" else self.dtype,
        )


@dataclass(kw_only=True, eq=False, repr=False)
class WarpedGPRegressor(_OneKind):
    """One model of a given depth: a sparse spectrum GP of warped inputs, as published.

    All rows train it, and no part of it is chosen by the data. With ``n_members`` it is a mixture
    of several models of that kind, with equal weights.

    Args:
        depth: Number of warps between the inputs and the regression; 0 is a stationary model.
        n_components: Number of Fourier features, rounded up to an even number because they come in
            pairs of cosine and sine. More features resolve more detail.
        n_pseudo: Number of pseudo-points of each warp.
        warps: ``"joint"``: the two functions of a warp share frequencies and pseudo-inputs, as in
            the ensemble; ``"separate"``: each has its own, as published, at twice the cost.
        warp_matrix: Form of the matrix G of a warp G(x) x + h(x). ``"diagonal"``: each input is
            scaled and shifted. ``"projected"``: the inputs are first mapped to ``warp_dim``
            coordinates by a learnt linear map, which may also be as many as the inputs, and each
            coordinate is scaled and shifted. ``"full"``: all entries of the matrix depend on x.
        warp_dim: Dimension of the warped space; None for the number of inputs. A few coordinates
            are faster than many inputs, and may be as good.
        inputs: ``"standardised"``, or ``"normal-scores"`` to map each input to normal scores first.
        kernel: ``"rbf"``, ``"matern12"``, ``"matern32"`` or ``"matern52"``.
        n_members: Number of models. More are slower and more robust.
        output_warp: Monotone map of the target for skewed or heavy-tailed noise: ``"none"``,
            ``"sinh-arcsinh"`` or ``"tanh"``.
        n_output_terms: Number of terms of that map.
        noise: ``"constant"``, or ``"input-dependent"`` for noise that varies over the inputs.
        objective: ``"map"`` (the evidence with a prior on the warps), ``"evidence"`` (without it,
            as published) or ``"leave-one-out"``.
        max_iter: Number of training steps.
        growing: Whether the first steps use few of the rows, chosen at random: the same error
            sooner if there are many rows and few steps.
        learning_rate: Largest learning rate of the schedule.
        length_scale: Start of all length-scales, in units of each input's spread; None for the
            square root of the number of inputs.
        coordinates: As in :class:`~sswim.SSWIMRegressor`.
        device: ``"auto"`` (CUDA where there is one), ``"cpu"``, ``"cuda"``, …
        dtype: ``"float64"``, or ``"float32"`` for features in single precision.
        random_state: An integer for reproducible results.
        verbose: Whether to show progress.
        callback: Called as ``callback(member, step)`` after every training step of every member;
            if it returns True, training ends.

    Attributes:
        members_, weights_, kinds_, history_, n_iter_: As in :class:`~sswim.SSWIMRegressor`.
        log_marginal_likelihood_: The log evidence of the targets, in their units. Where the noise
            depends on the input, it is the evidence under the noise that the regression weights
            rows by.
        n_samples_seen_, scaling_, input_names_: As in :class:`~sswim.SSWIMRegressor`.
        n_features_in_, feature_names_in_: As in scikit-learn.

    Examples:
        >>> import numpy as np
        >>> from sswim import WarpedGPRegressor
        >>> X = np.linspace(0, 3, 60)[:, None]
        >>> y = np.sin(X[:, 0] ** 2)
        >>> model = WarpedGPRegressor(depth=1, n_components=32, n_pseudo=8, random_state=0)
        >>> model.fit(X, y).predict(X).shape
        (60,)
        >>> warped, variance = model.warp(X)[0]
        >>> warped.shape
        (60, 1)
    """

    n_components: int = 512
    n_pseudo: int = 128
    warps: WarpsName = "separate"
    max_iter: int = 150
    growing: bool = False
    learning_rate: float = 0.03
    dtype: DType = "float64"

    def _plan(self, summary: Summary) -> Plan:
        rate, growing = float(self.learning_rate), bool(self.growing)
        return self._plan_of("features", Adam(int(self.max_iter), rate, growing=growing))


@dataclass(kw_only=True, eq=False, repr=False)
class NeighbourGPRegressor(_OneKind):
    """One model of a given depth: the exact kernel, conditioned on the nearest rows.

    Each prediction is conditioned on the ``n_neighbors`` rows that are nearest in the warped space.
    That resolves finer detail than features do, at the same cost per training step whatever the
    number of rows. Predictions are Student-t, and the model keeps its rows.

    Args:
        depth: Number of warps between the inputs and the neighbourhoods; 0 is a stationary model.
        n_neighbors: Number of nearest rows that a prediction is conditioned on.
        local_amplitude: Whether each neighbourhood has an amplitude of its own: function and noise
            may be strong here and weak there. Else predictions are Gaussian.
        n_components: Number of Fourier features of the warps.
        n_pseudo: Number of pseudo-points of each warp.
        warps, warp_matrix, warp_dim: As in :class:`~sswim.WarpedGPRegressor`.
        inputs, kernel, n_members: As in :class:`~sswim.WarpedGPRegressor`.
        output_warp, n_output_terms, noise: As in :class:`~sswim.WarpedGPRegressor`.
        objective: ``"map"`` (the density of rows given their neighbours, with a prior on the warps)
            or ``"evidence"`` (without the prior).
        max_iter: Number of training steps, each of a mini-batch of rows.
        learning_rate: Largest learning rate of the schedule.
        length_scale: Start of all length-scales, in units of each input's spread; None for the
            square root of the number of inputs.
        coordinates: As in :class:`~sswim.SSWIMRegressor`.
        device: ``"auto"`` (CUDA where there is one), ``"cpu"``, ``"cuda"``, …
        dtype: ``"float64"``, or ``"float32"`` for warps in single precision. ``"auto"`` trains them
            in single precision and predicts in double. The kernel and its algebra are always in
            double precision.
        random_state: An integer for reproducible results.
        verbose: Whether to show progress.
        callback: Called as ``callback(member, step)`` after every training step of every member;
            if it returns True, training ends.

    Attributes:
        members_, weights_, kinds_, history_, n_iter_: As in :class:`~sswim.SSWIMRegressor`.
        n_samples_seen_, scaling_, input_names_: As in :class:`~sswim.SSWIMRegressor`.
        n_features_in_, feature_names_in_: As in scikit-learn.

    Examples:
        >>> import numpy as np
        >>> from sswim import NeighbourGPRegressor
        >>> X = np.linspace(0, 3, 60)[:, None]
        >>> y = np.sin(X[:, 0] ** 2)
        >>> model = NeighbourGPRegressor(depth=0, n_neighbors=16, max_iter=20, random_state=0)
        >>> lower, upper = model.fit(X, y).predict_interval(X, 0.9)
        >>> bool((lower < upper).all())
        True
    """

    n_neighbors: int = 64
    local_amplitude: bool = True
    n_components: int = 256
    n_pseudo: int = 64
    warps: WarpsName = "joint"
    objective: PriorName = "map"
    max_iter: int = MiniBatches.steps
    learning_rate: float = MiniBatches.learning_rate
    dtype: DType | Auto = "auto"

    def _plan(self, summary: Summary) -> Plan:
        return self._plan_of(
            "neighbours",
            MiniBatches(int(self.max_iter), float(self.learning_rate)),
            n_neighbors=int(self.n_neighbors),
            local_amplitude=bool(self.local_amplitude),
        )
