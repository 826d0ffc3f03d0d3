"""SSWIM as the surrogate of Optuna.

    sampler = BoTorchSampler(candidates_func=suggest_candidates)
    study = optuna.create_study(sampler=sampler)

``BoTorchSampler`` is in the package optuna-integration. It draws the first trials at random.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from botorch.acquisition import AcquisitionFunction
from botorch.acquisition.logei import qLogNoisyExpectedImprovement, qLogProbabilityOfFeasibility
from botorch.acquisition.multi_objective.logei import qLogNoisyExpectedHypervolumeImprovement
from botorch.acquisition.multi_objective.objective import IdentityMCMultiOutputObjective
from botorch.acquisition.multi_objective.utils import get_default_partitioning_alpha
from botorch.acquisition.objective import LinearMCObjective
from botorch.optim import optimize_acqf
from botorch.sampling import SobolQMCNormalSampler
from botorch.utils.multi_objective.pareto import is_non_dominated
from botorch.utils.transforms import normalize, unnormalize
from jaxtyping import Float
from torch import Tensor

from sswim.integrations.botorch import SSWIMModel, avoid_repeats

__all__ = ["suggest_candidates"]

N_SAMPLES = 256
"""Number of samples from the posterior that an acquisition function averages over."""

N_RESTARTS, N_STARTS = 10, 512
"""Number of ascents of an acquisition function, and of points that their starts are chosen from."""


def suggest_candidates(
    train_x: Float[Tensor, "n d"],
    train_obj: Float[Tensor, "n objectives"],
    train_con: Float[Tensor, "n constraints"] | None,
    bounds: Float[Tensor, "2 d"],
    pending_x: Float[Tensor, "pending d"] | None,
) -> Float[Tensor, "1 d"]:
    """Suggest the parameters of the next trial: a ``candidates_func`` of ``BoTorchSampler``.

    The suggestion maximises the noisy expected improvement of one objective, or the noisy expected
    improvement of the hypervolume that several objectives dominate. While no trial meets all
    constraints, it maximises the probability of meeting them. A suggestion that repeats a trial is
    replaced by a place far from all trials.

    Args:
        train_x: Parameters of completed trials.
        train_obj: Their objectives, larger being better.
        train_con: Their constraints, which are met by values of zero or less.
        bounds: Lowest and highest value of each parameter.
        pending_x: Parameters of trials that are still running.
    """
    if not len(train_x):  # as many trials as are drawn at random, and all of them running
        return unnormalize(torch.rand_like(bounds[:1]), bounds)
    inputs = normalize(train_x, bounds)
    # Acquisition functions smooth their steps by widths that suit numbers of about one.
    objectives = _rescale(train_obj - train_obj.mean(0))
    constraints = None if train_con is None else _rescale(train_con)
    acquisition = _acquisition(inputs, objectives, constraints)
    known = inputs
    if pending_x is not None and len(pending_x):
        pending = normalize(pending_x, bounds)
        acquisition.set_X_pending(pending)
        known = torch.cat((known, pending))
    unit_cube = bounds.new_tensor([[0.0], [1.0]]).expand_as(bounds)
    candidates, _ = optimize_acqf(
        acquisition, unit_cube, q=1, num_restarts=N_RESTARTS, raw_samples=N_STARTS
    )
    candidates = avoid_repeats(candidates, acquisition.model, known, unit_cube, seed=len(known))
    return unnormalize(candidates, bounds)


def _rescale(values: Float[Tensor, "n m"]) -> Float[Tensor, "n m"]:
    """Divide every column by its root mean square."""
    size = values.square().mean(0).sqrt()
    return values / torch.where(size > 0, size, 1.0)


def _acquisition(
    inputs: Float[Tensor, "n d"],
    objectives: Float[Tensor, "n objectives"],
    constraints: Float[Tensor, "n constraints"] | None,
) -> AcquisitionFunction:
    """Fit a model of objectives and constraints, and return its acquisition function."""
    n_objectives = objectives.shape[1]
    targets = objectives if constraints is None else torch.cat([objectives, constraints], dim=-1)
    model = SSWIMModel(inputs, targets)
    sampler = SobolQMCNormalSampler(torch.Size([N_SAMPLES]))
    settings: dict[str, Any] = {"X_baseline": inputs, "prune_baseline": True, "sampler": sampler}
    if constraints is not None:
        settings["constraints"] = [
            partial(torch.select, dim=-1, index=output)
            for output in range(n_objectives, model.num_outputs)
        ]
        feasible = (constraints <= 0).all(-1)
        if not feasible.any():
            return qLogProbabilityOfFeasibility(model, settings["constraints"], sampler)
        objectives = objectives[feasible]
    if n_objectives == 1:
        first = torch.eye(model.num_outputs).to(objectives)[0]
        return qLogNoisyExpectedImprovement(model, objective=LinearMCObjective(first), **settings)
    # Hypervolume is counted from a point a little worse than the Pareto front.
    worst = objectives[is_non_dominated(objectives)].amin(0)
    return qLogNoisyExpectedHypervolumeImprovement(
        model,
        ref_point=worst - 0.1 * (objectives.amax(0) - objectives.amin(0)),
        objective=IdentityMCMultiOutputObjective(outcomes=list(range(n_objectives))),
        alpha=get_default_partitioning_alpha(n_objectives),
        **settings,
    )
