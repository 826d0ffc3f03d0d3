"""The methods of a fitted estimator that are differentiable in its inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from sswim.base.validation import RandomState, draw_generator, require_flag, require_integer
from sswim.ensemble.joint_posterior import JointPosterior
from sswim.estimator.inputs import check_points, finite, finite_algebra, finite_covariance
from sswim.estimator.prediction_methods import PredictionMethods
from sswim.rows.rows import Measure

SamplePaths = Callable[[Tensor], Tensor]
"""Drawn functions: X (…, q, D) to their values (n, …, q), or (n, …, q, T)."""


class PosteriorMethods(PredictionMethods):
    """Joint posteriors and drawn functions, as tensors with gradients in the inputs."""

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
        finite_covariance(found.covariance)
        found = found.to(device=X.device)
        return found.of_flat_targets() if self._flat_targets else found

    def sample_paths(self, n: int, random_state: RandomState = 0) -> SamplePaths:
        """Draw n functions from the posterior.

        Args:
            n: Number of functions.
            random_state: An integer draws the same functions again.

        Returns:
            A function of inputs X, (…, q, D), that returns the values of the draws there, (n, …, q)
            or (n, …, q, T), in the units of the targets and with gradients in X. It can be called
            any number of times: all calls evaluate the same n functions. They are those of
            ``sample_y`` with the same random state.
        """
        require_integer("n", n, 1)
        check_is_fitted(self)
        functions = self._ensemble.sample(n, draw_generator(random_state))
        n_targets, flat = self.n_targets_, self._flat_targets

        def paths(X: Tensor) -> Tensor:
            points = self._check_points(X)
            rows, shape = points.reshape(-1, points.shape[-1]), (*points.shape[:-1], n_targets)
            if points.numel() == 0:  # no values, with a graph if the points have one
                values = rows.to(torch.float64).sum() * points.new_zeros(n, *shape)
            else:
                with finite_algebra():
                    values = finite(functions(Measure(rows)))
            values = values.reshape(n, *shape).to(X.device)
            return values[..., 0] if flat else values

        return paths

    def _check_points(self, X: Any) -> Float[Tensor, "*batch q D"]:
        """Check a tensor of inputs; return it in the model's precision and on its device."""
        check_is_fitted(self)
        check_points(self, X)
        return X.to(device=self._device, dtype=self._precision)
