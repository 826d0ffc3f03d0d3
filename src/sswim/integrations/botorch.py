"""SSWIM as a model of BoTorch.

    model = SSWIMModel(train_X, train_Y)

needs no further fit. It works with BoTorch's acquisition functions, with Ax, and with Optuna.

Once a model is sure of its best point, and of everything else, acquisition functions suggest that
point again and again. If the function has no noise, its value there is known. Then the place that
is worth a visit is one far from all points so far, where the model may be wrong:

    candidates = avoid_repeats(candidates, model, train_X, bounds)
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
from torch.quasirandom import SobolEngine

from sswim.base.validation import RandomState, UserError, draw_generator
from sswim.integrations.botorch_posterior import OutputMoments, SSWIMPath, SSWIMPosterior
from sswim.surrogate import Surrogate, fit_surrogate

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
        _check_values(train_X, train_Y, train_Yvar)
        _check_size(train_Y)
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
        _check_inputs(X, self.train_inputs[0].shape[-1])
        chosen = range(self.num_outputs) if output_indices is None else output_indices
        inputs = self.transform_inputs(X)
        moments = []
        for output in chosen:
            surrogate = self._surrogates[output]
            known = self._known_variance(observation_noise, output)
            mean, covariance = surrogate.predict_jointly(
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
        _check_inputs(X, self.train_inputs[0].shape[-1])
        _check_values(X, Y, noise)
        if Y.shape[-2:] != (X.shape[-2], self.num_outputs):
            raise UserError(
                f"Y must end in the axes ({X.shape[-2]}, {self.num_outputs}): the rows of X, and "
                f"the outputs of the model. Got the shape {tuple(Y.shape)}."
            )
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
        paths = [surrogate.sample(n, generator) for surrogate in self._surrogates]

        def functions(X: Tensor) -> Float[Tensor, "*S q m"]:
            _check_inputs(X, self.train_inputs[0].shape[-1])
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


@DrawMatheronPaths.register(SSWIMModel)  # type: ignore[untyped-decorator]
def _draw_matheron_paths(model: SSWIMModel, *, sample_shape: torch.Size, **_: Any) -> SSWIMPath:
    """Draw functions for BoTorch's pathwise sampling, by the global generator of PyTorch."""
    generator = torch.Generator().manual_seed(int(torch.randint(2**31 - 1, ())))
    functions = model.draw_paths(sample_shape.numel(), generator)
    return SSWIMPath(functions, sample_shape, model.num_outputs)


def check_training_rows(X: Any, Y: Any, variance: Any) -> None:
    """Raise unless a model can be fitted to rows; say what is wrong."""
    _check_values(X, Y, variance)
    for name, tensor in (("train_X", X), ("train_Y", Y)):
        if tensor.ndim != 2:
            raise UserError(
                f"{name} must have two axes, rows and columns. Got the shape "
                f"{tuple(tensor.shape)}. Make one model for each entry of a batch."
            )
    if len(X) != len(Y) or not len(X):
        raise UserError(
            f"train_X and train_Y must have the same rows, at least one. Got {len(X)} and {len(Y)}."
        )
    if not X.shape[1] or not Y.shape[1]:
        raise UserError(
            f"train_X and train_Y must have at least one column. Got {X.shape[1]} and {Y.shape[1]}."
        )
    if variance is not None and variance.shape != Y.shape:
        raise UserError(
            f"train_Yvar must have the shape of train_Y, {tuple(Y.shape)}. "
            f"Got {tuple(variance.shape)}."
        )


def _check_inputs(X: Tensor, n_inputs: int) -> None:
    """Raise unless X holds sets of points with as many inputs as the model has."""
    if X.ndim < 2 or X.shape[-1] != n_inputs:
        raise UserError(
            f"X must have two axes or more, the last of {n_inputs} inputs as train_X has. "
            f"Got the shape {tuple(X.shape)}."
        )


def _check_size(Y: Tensor) -> None:
    """Raise unless variances of targets, which are squares, can be represented."""
    limits = torch.finfo(Y.dtype)
    differences = Y.amax(0) - Y.amin(0)
    smallest, largest = limits.tiny**0.5, limits.max**0.5
    if (Y.abs() > largest).any() or ((differences > 0) & (differences < smallest)).any():
        raise UserError(
            f"Values of Y must be at most {largest:.0e} in size and differ by at least "
            f"{smallest:.0e}, so that {Y.dtype} holds their variances. Got values up to "
            f"{Y.abs().max().item():.0e}, which differ by {differences.tolist()}. "
            "Multiply Y by a constant."
        )


def _check_values(X: Any, Y: Any, variance: Any) -> None:
    """Raise unless inputs, targets and variances are tensors of finite numbers."""
    for name, tensor in (("X", X), ("Y", Y), ("the variance of Y", variance)):
        if tensor is None:
            continue
        if not isinstance(tensor, Tensor):
            raise UserError(f"{name} must be a tensor of PyTorch. Got {type(tensor).__name__}.")
        if not tensor.is_floating_point():
            raise UserError(f"{name} must have floating-point numbers. Got {tensor.dtype}.")
        bad = int((~tensor.isfinite()).sum())
        if bad:
            raise UserError(
                f"{name} must be finite. Got {bad} values that are NaN or infinite: leave out the "
                "rows of failed trials, or give these a value worse than all others."
            )
    if variance is not None and (variance < 0).any():
        raise UserError(f"Variances must not be negative. Got {variance.min().item():g}.")


NEAR = 1e-5
"""Distance from another point, in units of the range of an input and in all inputs, below which a
suggestion is a repeat."""

N_PLACES = 512
"""Number of Sobol points that replacements are chosen from."""

FAR = 0.5
"""Least distance of a replacement from all other points, as a fraction of that of the farthest of
the Sobol points."""


@torch.no_grad()
def avoid_repeats(
    candidates: Tensor,  # checked below, with a message that says what is wrong
    model: Model,
    X: Tensor,
    bounds: Tensor,
    seed: int = 0,
) -> Float[Tensor, "q d"]:
    """Replace candidates that repeat a point.

    A candidate that lies side by side with an evaluated point or an earlier candidate gives way to
    a Sobol point that is far from all of these: of those at least half as far as the farthest one,
    the one with the largest predicted mean; with several outputs, the farthest.

    Args:
        candidates: Suggestions of an acquisition function, q × d.
        model: A model of BoTorch, of values to be maximised.
        X: Evaluated points, and those whose evaluations are pending, n × d.
        bounds: The lowest and the highest value of each input, 2 × d.
        seed: Seed of the Sobol points.
    """
    shapes = [tuple(points.shape) for points in (candidates, X, bounds)]
    n_inputs = shapes[2][-1]
    if [shape[1:] for shape in shapes] != [(n_inputs,)] * 3 or shapes[2][0] != 2:
        raise UserError(
            "candidates, X and bounds must have two axes and as many inputs as each other, and "
            f"bounds two rows. Got the shapes {shapes[0]}, {shapes[1]} and {shapes[2]}."
        )
    if not all(bool(points.isfinite().all()) for points in (candidates, X, bounds)):
        raise UserError("candidates, X and bounds must be finite. Got NaN or infinite values.")
    if (bounds[0] > bounds[1]).any():
        raise UserError(
            "The first row of bounds must hold the lowest values, the second the highest. "
            f"Got {bounds.tolist()}."
        )
    low, width = bounds[0], bounds[1] - bounds[0]
    width = torch.where(width > 0, width, 1.0)  # an input may be fixed
    known = (X - low) / width
    kept = candidates.clone()
    for number in range(len(candidates)):
        point = (kept[number] - low) / width
        if bool(((known - point).abs().amax(-1) < NEAR).any()):
            engine = SobolEngine(n_inputs, scramble=True, seed=seed + number)
            places = engine.draw(N_PLACES, dtype=torch.float64).to(bounds)
            distances = torch.cdist(places, known).amin(-1)
            inputs = bounds[0] + (bounds[1] - bounds[0]) * places
            if model.num_outputs > 1:
                kept[number] = inputs[distances.argmax()]
            else:
                inputs = inputs[distances >= FAR * distances.max()]
                means = model.posterior(inputs[:, None, :]).mean.flatten()
                kept[number] = inputs[means.argmax()]
        known = torch.cat((known, (kept[number, None] - low) / width))
    return kept
