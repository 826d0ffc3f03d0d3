"""One kind of model: a Gaussian process of a given depth, by features or by neighbours."""

from __future__ import annotations

from typing import Any, ClassVar

from sswim.base.validation import RandomState
from sswim.estimator.base import BaseRegressor
from sswim.estimator.inputs import Coordinates
from sswim.estimator.settings import (
    FEATURES,
    NEIGHBOURS,
    Auto,
    DType,
    ObjectiveName,
    PriorName,
    Rule,
    n_frequencies,
)
from sswim.kernels.features import Kernel
from sswim.members.checkpoints import MemberCallback
from sswim.members.kinds import Kind, Plan, Precision
from sswim.members.model import Architecture, InputsName, NoiseName, WarpsName, check_warp_matrix
from sswim.members.neighbour_training import MiniBatches
from sswim.members.objective import OBJECTIVES
from sswim.members.training import Adam
from sswim.rows.summary import Summary
from sswim.warps.output_warp import OutputWarpName
from sswim.warps.warp import WarpMatrix


class WarpedGPRegressor(BaseRegressor):
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

    _rules: ClassVar[dict[str, Rule]] = FEATURES
    dtype: DType

    def __init__(
        self,
        *,
        depth: int = 1,
        n_components: int = 512,
        n_pseudo: int = 128,
        warps: WarpsName = "separate",
        warp_matrix: WarpMatrix = "diagonal",
        warp_dim: int | None = None,
        inputs: InputsName = "standardised",
        kernel: Kernel = "matern32",
        n_members: int = 1,
        output_warp: OutputWarpName = "none",
        n_output_terms: int = 2,
        noise: NoiseName = "constant",
        objective: ObjectiveName = "map",
        max_iter: int = 150,
        growing: bool = False,
        learning_rate: float = 0.03,
        length_scale: float | None = None,
        coordinates: Coordinates = None,
        device: str = "auto",
        dtype: DType = "float64",
        random_state: RandomState = None,
        verbose: bool = False,
        callback: MemberCallback | None = None,
    ) -> None:
        self.depth = depth
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
        self.coordinates = coordinates
        self.device = device
        self.dtype = dtype
        self.random_state = random_state
        self.verbose = verbose
        self.callback = callback

    def _check_settings(self) -> None:
        super()._check_settings()
        check_warp_matrix(self.warp_matrix, self.warp_dim, self.depth)

    def _plan(self, summary: Summary) -> Plan:
        growing = bool(self.growing)
        optimiser = Adam(int(self.max_iter), float(self.learning_rate), growing=growing)
        return _plan_of_one(self, "features", optimiser, self.dtype)


class NeighbourGPRegressor(BaseRegressor):
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

    _rules: ClassVar[dict[str, Rule]] = NEIGHBOURS

    def __init__(
        self,
        *,
        depth: int = 1,
        n_neighbors: int = 64,
        local_amplitude: bool = True,
        n_components: int = 256,
        n_pseudo: int = 64,
        warps: WarpsName = "joint",
        warp_matrix: WarpMatrix = "diagonal",
        warp_dim: int | None = None,
        inputs: InputsName = "standardised",
        kernel: Kernel = "matern32",
        n_members: int = 1,
        output_warp: OutputWarpName = "none",
        n_output_terms: int = 2,
        noise: NoiseName = "constant",
        objective: PriorName = "map",
        max_iter: int = MiniBatches.steps,
        learning_rate: float = MiniBatches.learning_rate,
        length_scale: float | None = None,
        coordinates: Coordinates = None,
        device: str = "auto",
        dtype: DType | Auto = "auto",
        random_state: RandomState = None,
        verbose: bool = False,
        callback: MemberCallback | None = None,
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
        self.learning_rate = learning_rate
        self.length_scale = length_scale
        self.coordinates = coordinates
        self.device = device
        self.dtype = dtype
        self.random_state = random_state
        self.verbose = verbose
        self.callback = callback

    def _check_settings(self) -> None:
        super()._check_settings()
        check_warp_matrix(self.warp_matrix, self.warp_dim, self.depth)

    def _plan(self, summary: Summary) -> Plan:
        return _plan_of_one(
            self,
            "neighbours",
            MiniBatches(int(self.max_iter), float(self.learning_rate)),
            "float32" if self.dtype == "auto" else self.dtype,
            n_neighbors=int(self.n_neighbors),
            local_amplitude=bool(self.local_amplitude),
        )


def _plan_of_one(
    settings: WarpedGPRegressor | NeighbourGPRegressor,
    way: str,
    optimiser: Adam | MiniBatches,
    precision: Precision,
    **neighbours: Any,
) -> Plan:
    """Make the plan of one kind of member, with nothing that the data decide."""
    warp_dim, length_scale = settings.warp_dim, settings.length_scale
    architecture = Architecture(
        depth=int(settings.depth),
        n_frequencies=n_frequencies(int(settings.n_components)),
        n_pseudo=int(settings.n_pseudo),
        warps=settings.warps,
        warp_matrix=settings.warp_matrix,
        warp_dim=None if warp_dim is None else int(warp_dim),
        inputs=settings.inputs,
        kernel=settings.kernel,
        output_warp=settings.output_warp,
        n_output_terms=int(settings.n_output_terms),
        noise=settings.noise,
        **neighbours,
    )
    name, objective = f"{way}-{settings.depth}", OBJECTIVES[settings.objective]
    kind = Kind(name, way, architecture, objective, optimiser, int(settings.n_members))
    length_scale = None if length_scale is None else float(length_scale)
    return Plan((kind,), length_scale=length_scale, precision=precision)
