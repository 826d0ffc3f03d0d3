"""Suggestions of an acquisition function that repeat a point, and what to evaluate instead.

Once a model is sure of its best point, and of everything else, acquisition functions suggest that
point again and again. If the function has no noise, its value there is known. Then the place that
is worth a visit is one far from all points so far: the model may be wrong there.
"""

from __future__ import annotations

import torch
from botorch.models.model import Model
from jaxtyping import Float
from torch import Tensor
from torch.quasirandom import SobolEngine

from sswim.base.errors import UserError

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
    """Return candidates without those that repeat a point.

    Each that lies side by side with an evaluated point or an earlier candidate is replaced: of
    Sobol points that are at least half as far from all of these as the farthest one is, the one
    with the largest predicted mean; of several outputs, the farthest.

    Args:
        candidates: Suggestions of an acquisition function, q × d.
        model: A model of BoTorch, of values to be maximised.
        X: Evaluated points, and those whose evaluations are pending, n × d.
        bounds: The lowest and the highest value of each input, 2 × d.
        seed: Seed of the Sobol points.
    """
    _check(candidates, X, bounds)
    low, width = bounds[0], bounds[1] - bounds[0]
    width = torch.where(width > 0, width, 1.0)  # an input may be fixed
    known = (X - low) / width
    kept = candidates.clone()
    for number in range(len(candidates)):
        point = (kept[number] - low) / width
        if bool(((known - point).abs().amax(-1) < NEAR).any()):
            kept[number] = _far_place(model, known, bounds, seed + number)
        known = torch.cat((known, (kept[number, None] - low) / width))
    return kept


def _check(candidates: Tensor, X: Tensor, bounds: Tensor) -> None:
    """Raise unless points and bounds fit together; say what is wrong."""
    shapes = [tuple(each.shape) for each in (candidates, X, bounds)]
    n_inputs = shapes[2][-1]
    if [shape[1:] for shape in shapes] != [(n_inputs,)] * 3 or shapes[2][0] != 2:
        raise UserError(
            "candidates, X and bounds must have two axes and as many inputs as each other, and "
            f"bounds two rows. Got the shapes {shapes[0]}, {shapes[1]} and {shapes[2]}."
        )
    if not all(bool(each.isfinite().all()) for each in (candidates, X, bounds)):
        raise UserError("candidates, X and bounds must be finite. Got NaN or infinite values.")
    if (bounds[0] > bounds[1]).any():
        raise UserError(
            "The first row of bounds must hold the lowest values, the second the highest. "
            f"Got {bounds.tolist()}."
        )


def _far_place(
    model: Model, known: Float[Tensor, "n d"], bounds: Float[Tensor, "2 d"], seed: int
) -> Float[Tensor, " d"]:
    """Return the most promising of the Sobol points that are far from known ones."""
    engine = SobolEngine(bounds.shape[1], scramble=True, seed=seed)
    places = engine.draw(N_PLACES, dtype=torch.float64).to(bounds)
    distances = torch.cdist(places, known).amin(-1)
    inputs = bounds[0] + (bounds[1] - bounds[0]) * places
    if model.num_outputs > 1:
        return inputs[distances.argmax()]
    inputs = inputs[distances >= FAR * distances.max()]
    return inputs[model.posterior(inputs[:, None, :]).mean.flatten().argmax()]
