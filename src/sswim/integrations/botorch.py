"""SSWIM as a model of BoTorch.

    model = SSWIMModel(train_X, train_Y)

needs no further fit. It works with BoTorch's acquisition functions, with Ax, and with Optuna.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from typing import Any

import torch
from botorch.acquisition.objective import PosteriorTransform
from botorch.models.model import Model
from botorch.models.transforms.input import InputTransform
from botorch.models.transforms.outcome import OutcomeTransform, Standardize
from botorch.models.utils import fantasize as fantasize_flag
from botorch.posteriors.posterior import Posterior
from botorch.sampling.base import MCSampler
from botorch.sampling.pathwise.posterior_samplers import DrawMatheronPaths
from jaxtyping import Float
from torch import Tensor

from sswim.base.random_state import RandomState, draw_generator
from sswim.integrations.botorch_checks import (
    check_further_rows,
    check_inputs,
    check_size,
    check_training_rows,
    check_values,
)
from sswim.integrations.botorch_paths import SSWIMPath
from sswim.integrations.botorch_posterior import OutputMoments, SSWIMPosterior
from sswim.integrations.botorch_repeats import avoid_repeats
from sswim.surrogate.fitting import fit_surrogate
from sswim.surrogate.surrogate import Surrogate

__all__ = ["SSWIMModel", "avoid_repeats"]


class SSWIMModel(Model):  # type: ignore[misc]
    """A nonstationary surrogate of tens to hundreds of rows.

    It is a mixture of exact Gaussian processes on warped inputs: members without warps, with a
    monotone warp of each input, and with the warps g(x) ⊙ x + h(x) on top of it; some are sums of
    functions of few inputs. They are weighed on rows that their training left out, and share one
    map of the targets. Predictions are smooth in X. The model is fitted when it is made; the
    outputs are independent.

    Args:
        train_X: Inputs, n × d. Those in the unit cube are used as they are, others are scaled to
            it by their range.
        train_Y: Targets, n × m. They need not be standardised.
        train_Yvar: Known variances of the targets' noise, n × m; by default the noise is learnt.
        input_transform: A transform of the inputs. Its own parameters are not learnt.
        outcome_transform: A transform of the targets, before the learnt map.
        random_state: Seed of folds and starting values.
    """

    def __init__(
        self,
        train_X: Tensor,  # checked below, with messages that say what to do
        train_Y: Tensor,
        train_Yvar: Tensor | None = None,
        *,
        input_transform: InputTransform | None = None,
        outcome_transform: OutcomeTransform | None = None,
        random_state: RandomState = 0,
    ) -> None:
        super().__init__()
        check_training_rows(train_X, train_Y, train_Yvar)
        self.train_inputs = (train_X,)
        self.train_targets = train_Y
        if input_transform is not None:
            input_transform.train()  # it may learn from these rows
            train_X = self.transform_inputs(train_X, input_transform)
            self.input_transform = input_transform
        if outcome_transform is not None:
            outcome_transform.train()
            train_Y, train_Yvar = outcome_transform(train_Y, train_Yvar, X=train_X)
            self.outcome_transform = outcome_transform
        check_values(train_X, train_Y, train_Yvar)
        check_size(train_Y)
        inputs, targets = train_X.detach().double(), train_Y.detach().double()
        variance = None if train_Yvar is None else train_Yvar.detach().double()
        generator = draw_generator(random_state)
        self._surrogates: tuple[Surrogate, ...] = tuple(
            fit_surrogate(
                inputs,
                targets[:, output],
                None if variance is None else variance[:, output],
                generator,
            )
            for output in range(targets.shape[1])
        )
        self._mean_variance = None if variance is None else variance.mean(0)
        self.eval()

    @property
    def num_outputs(self) -> int:
        """Number of outputs."""
        return len(self._surrogates)

    @property
    def batch_shape(self) -> torch.Size:
        """Axes of the observations that the model was conditioned on after its fit."""
        return self._surrogates[0].batch_shape

    def train(self, mode: bool = True) -> SSWIMModel:
        """Do nothing to the rows: they are transformed once, when the model is made."""
        torch.nn.Module.train(self, mode)
        return self

    def eval(self) -> SSWIMModel:
        """Do nothing to the rows: they are transformed once, when the model is made."""
        return self.train(False)

    def posterior(
        self,
        X: Tensor,
        output_indices: Sequence[int] | None = None,
        observation_noise: bool | Float[Tensor, "*V #q #m"] = False,
        posterior_transform: PosteriorTransform | None = None,
    ) -> Posterior:
        """Return the joint posterior of the outputs at sets of points, differentiable in X.

        Args:
            X: Sets of q points, (…) × q × d.
            output_indices: The outputs; all by default.
            observation_noise: Whether to include the noise of observations, or its variances after
                the transform of the targets.
            posterior_transform: A transform of the posterior.
        """
        check_inputs(X, self.train_inputs[0].shape[-1])
        chosen = range(self.num_outputs) if output_indices is None else output_indices
        inputs = self.transform_inputs(X)
        moments = []
        for output in chosen:
            surrogate = self._surrogates[output]
            known = self._known_variance(observation_noise, output)
            mean, covariance = surrogate.joint(
                inputs.double(), include_noise=observation_noise is True, variance=known
            )
            moments.append(OutputMoments(mean, covariance, surrogate.target_map))
        posterior = SSWIMPosterior(moments, X.dtype)
        if hasattr(self, "outcome_transform"):
            transform = self.outcome_transform
            if output_indices is not None:
                transform = transform.subset_output(list(output_indices))
            if type(transform) is Standardize:
                posterior = posterior.rescale(transform.means[0], transform.stdvs[0])
            else:
                posterior = transform.untransform_posterior(posterior, X=inputs)
        return posterior if posterior_transform is None else posterior_transform(posterior, X=X)

    def subset_output(self, idcs: Sequence[int]) -> SSWIMModel:
        """Return the model of some of the outputs."""
        subset = self._copy()
        subset._surrogates = tuple(self._surrogates[output] for output in idcs)
        subset.train_targets = self.train_targets[..., list(idcs)]
        if self._mean_variance is not None:
            subset._mean_variance = self._mean_variance[list(idcs)]
        if hasattr(self, "outcome_transform"):
            subset.outcome_transform = self.outcome_transform.subset_output(list(idcs))
        return subset

    def condition_on_observations(
        self,
        X: Tensor,
        Y: Tensor,
        noise: Tensor | None = None,
        **_: Any,
    ) -> SSWIMModel:
        """Return the model conditioned on further observations: exactly, with all it has learnt.

        Args:
            X: Inputs, (…) × n × d; perhaps another set for every entry of a batch.
            Y: Targets, (…) × n × m; perhaps several for the same inputs.
            noise: Known variances of the targets' noise, after the transform of the targets.
        """
        check_inputs(X, self.train_inputs[0].shape[-1])
        check_further_rows(X, Y, noise, self.num_outputs)
        inputs = self.transform_inputs(X)
        if hasattr(self, "outcome_transform"):
            Y, _ = self.outcome_transform(Y, X=inputs)
        updated = self._copy()
        updated._surrogates = tuple(
            surrogate.update(
                inputs.double(),
                Y[..., output].double(),
                self._known_variance(True if noise is None else noise, output),
            )
            for output, surrogate in enumerate(self._surrogates)
        )
        return updated

    def fantasize(
        self,
        X: Tensor,
        sampler: MCSampler,
        observation_noise: Float[Tensor, "*V #n #m"] | None = None,
        **kwargs: Any,
    ) -> SSWIMModel:
        """Return the model conditioned on observations drawn from its own posterior at X."""
        with fantasize_flag():  # some transforms of inputs leave these as they are
            posterior = self.posterior(
                X, observation_noise=True if observation_noise is None else observation_noise
            )
            if X.shape[-2]:
                drawn = sampler(posterior)
            else:  # samplers do not draw nothing
                drawn = X.new_empty(posterior._extended_shape(sampler.sample_shape))
            if observation_noise is not None:
                kwargs["noise"] = observation_noise.expand(drawn.shape[1:])
            return self.condition_on_observations(X, drawn, **kwargs)

    def draw_paths(self, n: int, generator: torch.Generator) -> Callable[[Tensor], Tensor]:
        """Draw n functions from the posterior, which can be evaluated anywhere and differentiated.

        Returns:
            A function of points: of shape (q, d) or (…, 1, q, d) for all n functions, or
            (…, n, q, d) for each. It returns values of shape (…, n, q, m).
        """
        paths = [surrogate.draw_paths(n, generator) for surrogate in self._surrogates]

        def functions(X: Tensor) -> Float[Tensor, "*S q m"]:
            check_inputs(X, self.train_inputs[0].shape[-1])
            inputs = self.transform_inputs(X[None] if X.ndim == 2 else X)
            values = torch.stack([path(inputs.double()) for path in paths], dim=-1)
            if hasattr(self, "outcome_transform"):
                values, _ = self.outcome_transform.untransform(values, X=inputs)
            return values.to(X.dtype)

        return functions

    def _copy(self) -> SSWIMModel:
        """Return a copy that shares what is not replaced; modules of PyTorch copy too little."""
        new = copy(self)
        new._modules = dict(self._modules)
        return new

    def _known_variance(
        self, noise: bool | Float[Tensor, "*V #q #m"], output: int
    ) -> Float[Tensor, "*V #q"] | None:
        """Return the variance of an output's noise if it is known; for new rows, its mean."""
        if isinstance(noise, Tensor):
            return noise.double()[..., output if noise.shape[-1] > 1 else 0]
        if noise and self._mean_variance is not None:
            return self._mean_variance[output][None]
        return None


def _draw_matheron_paths(model: SSWIMModel, *, sample_shape: torch.Size, **_: Any) -> SSWIMPath:
    """Draw functions for BoTorch's pathwise sampling, by the global generator of PyTorch."""
    generator = torch.Generator().manual_seed(int(torch.randint(2**31 - 1, ())))
    functions = model.draw_paths(sample_shape.numel(), generator)
    return SSWIMPath(functions, sample_shape, model.num_outputs)


DrawMatheronPaths.register(SSWIMModel)(_draw_matheron_paths)
