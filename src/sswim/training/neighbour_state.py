"""The saved state of a training by neighbours, checked."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor

from sswim.model.parameter_checks import check_parameters
from sswim.model.sswim import SSWIM
from sswim.training.history import MemberSteps
from sswim.training.neighbour_pool import Pool, require_pool
from sswim.training.training_state import TrainingState, is_number, require_count


@dataclass(frozen=True)
class NeighbourState:
    """The state of a training by neighbours between two steps, without its optimiser."""

    model: dict[str, Tensor]
    """Parameters of the model."""
    best: tuple[float, dict[str, Tensor]]
    """Best objective so far, and the parameters there."""
    pool: Pool | None
    member: MemberSteps
    rate: float
    failures: int


def read_neighbour_state(
    saved: TrainingState, model: SSWIM, n_rows: int, max_failures: int
) -> NeighbourState:
    """Check a saved state against the model and the rows of a training.

    Raises:
        ValueError: The state is not one of this training.
    """
    device, content = model.log_noise.device, saved.content
    parameters, best = _part(saved.tensors, "model."), _part(saved.tensors, "best.")
    for part in (parameters, best):
        check_parameters(part, model)
    tensors = _part(saved.tensors, "pool.")
    pool = Pool(**tensors) if tensors else None
    if pool is not None:
        require_pool(pool, n_rows)
        pool = pool.to(device=device)
    [member] = [MemberSteps.from_dict(each) for each in content["members"]]
    value, rate, failures = content["best"], content["rate"], content["failures"]
    require_count("failures", failures, max_failures)
    if content["steps"] != len(member.history):
        raise ValueError("a history of other steps")
    if not (is_number(value) or value == math.inf) or not (is_number(rate) and 0 < rate <= 1):
        raise ValueError("the best value and the rate must be numbers")
    best = {name: tensor.to(device) for name, tensor in best.items()}
    return NeighbourState(parameters, (float(value), best), pool, member, float(rate), failures)


def _part(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Return the tensors whose names begin with a prefix, without it."""
    return {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}
