"""Problems that are simulations: a reaction of two substances, a pole on a cart, boosted trees."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np
from jaxtyping import Float64
from scipy.linalg import expm

from sswim_lab.datasets import Table, load

SIZE = 32
"""Cells along a side of the grid, of width 1; ``bnn-bo`` has 64."""
REACTION_SECONDS, REACTION_STEP = 20.0, 0.01
MARGIN, INSIDE_WEIGHT = 2, 0.1
"""Cells further from the border than the margin have this weight in the variance, others 1."""

BRUSSELATOR_BOUNDS = ((0.1, 5.0), (0.1, 5.0), (0.01, 5.0), (0.01, 5.0))
"""Supply a, reaction rate b, and the diffusion of both substances."""


def weighted_variance(parameters: Float64[np.ndarray, " 4"]) -> float:
    """Return the variance of the weighted solution after 20 seconds.

    With small a and large b it oscillates, with jumps of u to 10 and more: there the variance is
    large and changes fast, elsewhere it is small and smooth (Li et al., 2024, "A study of Bayesian
    neural network surrogates for Bayesian optimization").
    """
    weights = np.ones((SIZE, SIZE))
    weights[MARGIN:-MARGIN, MARGIN:-MARGIN] = INSIDE_WEIGHT
    return float(np.var(np.stack(solve(*map(float, parameters))) * weights, ddof=1))


def solve(
    a: float, b: float, diffusion_u: float, diffusion_v: float
) -> tuple[Float64[np.ndarray, "N N"], Float64[np.ndarray, "N N"]]:
    """Return both substances after 20 seconds, from rest with a fixed disturbance of v.

        u' = D_u Δu + a − (b + 1) u + u² v,    v' = D_v Δv + b u − u² v

    Nothing crosses the border. Diffusion is exact; the reactions are linearly implicit, so
    that nothing blows up, whatever the parameters.
    """
    noise = np.random.RandomState(0).standard_normal((SIZE, SIZE))
    u, v = np.full((SIZE, SIZE), a), b / a + 0.1 * noise
    spread_u, spread_v = _diffusion(diffusion_u), _diffusion(diffusion_v)
    for _ in range(round(REACTION_SECONDS / REACTION_STEP)):
        rate = REACTION_STEP * u * u
        v = (v + REACTION_STEP * b * u) / (1 + rate)
        u = (u + REACTION_STEP * a + rate * v) / (1 + REACTION_STEP * (b + 1))
        u = spread_u @ u @ spread_u
        v = spread_v @ v @ spread_v
    return u, v


def _diffusion(rate: float) -> Float64[np.ndarray, "N N"]:
    """Return the symmetric matrix of one step of diffusion along an axis."""
    laplacian = -2 * np.eye(SIZE) + np.eye(SIZE, k=1) + np.eye(SIZE, k=-1)
    laplacian[0, 0] = laplacian[-1, -1] = -1
    return expm(REACTION_STEP * rate * laplacian)


State = tuple[float, float, float, float]
"""Position and speed of the cart, angle of the pole (0 hangs down) and its angular speed."""

CART_MASS, POLE_MASS, LENGTH = 0.5, 0.5, 0.6  # kg, kg, m: as in PILCO's experiments
FRICTION, GRAVITY = 0.1, 9.82
MAX_FORCE = 10.0
SWING_SECONDS, SWING_STEP = 6.0, 0.02
WIDTH = 0.3
"""Distance of the pole's tip from its goal, in metres, at which the cost is 1 − exp(−1/2)."""

CART_POLE_BOUNDS = (
    (0.0, 25.0),  # gain of the energy that the pole lacks
    (0.0, 25.0),  # pull of the cart to the middle
    (0.0, 12.0),  # damping of the cart
    (0.0, 80.0),  # balancing: gain of the angle
    (0.0, 20.0),  # balancing: gain of the angular speed
    (0.3, 1.0),  # cosine of the angle from upright at which balancing begins
)


def swing_up_cost(parameters: Float64[np.ndarray, " 6"]) -> float:
    """Return the mean cost over six seconds, between 0 and 1: how far the tip is from its goal.

    The policy pumps energy into the pole, and balances it when it is nearly upright. Most
    parameters never swing the pole up, and cost about the same; among those that do, the cost
    changes fast.
    """
    gains = tuple(float(each) for each in parameters)
    state: State = (0.0, 0.0, 0.0, 0.0)
    cost, n_steps = 0.0, round(SWING_SECONDS / SWING_STEP)
    for _ in range(n_steps):
        state = _advance(state, _force(state, gains))
        cost += _cost(state)
    return cost / n_steps


def _force(state: State, gains: tuple[float, ...]) -> float:
    """Return the force on the cart: a smooth mixture of the two policies, smoothly bounded."""
    position, speed, angle, spin = state
    pump, centre, damp, angle_gain, spin_gain, switch = gains
    upright = -math.cos(angle)
    off = math.sin(angle)  # minus the angle from upright, nearly
    energy = LENGTH * spin**2 / (3 * GRAVITY) + upright - 1  # 0 at rest upright
    # The constant pushes the pole at the start, where it is at rest.
    swing = pump * (energy * spin * math.cos(angle) + 0.1) - centre * position - damp * speed
    balance = angle_gain * off - spin_gain * spin + centre * position + damp * speed
    share = 1 / (1 + math.exp(-(upright - switch) / 0.03))
    return MAX_FORCE * math.tanh(((1 - share) * swing + share * balance) / MAX_FORCE)


def _cost(state: State) -> float:
    position, _, angle, _ = state
    across = position + LENGTH * math.sin(angle)
    below = LENGTH + LENGTH * math.cos(angle)
    return 1 - math.exp(-0.5 * (across**2 + below**2) / WIDTH**2)


def _advance(state: State, force: float) -> State:
    """Return the state one step later, by the Runge–Kutta method of order four."""
    first = _change(state, force)
    second = _change(_moved(state, first, SWING_STEP / 2), force)
    third = _change(_moved(state, second, SWING_STEP / 2), force)
    last = _change(_moved(state, third, SWING_STEP), force)
    mean = [
        (a + 2 * b + 2 * c + d) / 6 for a, b, c, d in zip(first, second, third, last, strict=True)
    ]
    return _moved(state, (mean[0], mean[1], mean[2], mean[3]), SWING_STEP)


def _moved(state: State, change: State, seconds: float) -> State:
    return (
        state[0] + seconds * change[0],
        state[1] + seconds * change[1],
        state[2] + seconds * change[2],
        state[3] + seconds * change[3],
    )


def _change(state: State, force: float) -> State:
    """Return the time derivative of the state; the pole is a uniform rod."""
    _, speed, angle, spin = state
    sine, cosine = math.sin(angle), math.cos(angle)
    total = 4 * (CART_MASS + POLE_MASS) - 3 * POLE_MASS * cosine**2
    push = force - FRICTION * speed
    pull = POLE_MASS * LENGTH * spin**2 * sine
    acceleration = (2 * pull + 3 * POLE_MASS * GRAVITY * sine * cosine + 4 * push) / total
    turn = (
        -3 * pull * cosine - 6 * (CART_MASS + POLE_MASS) * GRAVITY * sine - 6 * push * cosine
    ) / (LENGTH * total)
    return speed, acceleration, spin, turn


N_TREES, N_FOLDS = 100, 3

BOOSTING_BOUNDS = (
    (math.log(0.005), math.log(0.5)),  # learning rate
    (math.log(2), math.log(128)),  # leaves of a tree
    (0.0, math.log(100)),  # rows of a leaf, at least
    (math.log(1e-3), math.log(100)),  # penalty of squared weights
    (0.2, 1.0),  # fraction of the inputs for a tree
    (0.2, 1.0),  # fraction of the rows for a tree
)


def cross_validated_error(data_set: str) -> Callable[[Float64[np.ndarray, " 6"]], float]:
    """Return the function to minimise: the RMSE of 100 trees, over three folds of fixed rows.

    Its inputs are six settings, the first four as logarithms; numbers of leaves and rows are
    rounded, so that it has steps.
    """

    def function(settings: Float64[np.ndarray, " 6"]) -> float:
        import lightgbm  # noqa: PLC0415 (an optional dependency)

        rate, leaves, rows, penalty = map(math.exp, settings[:4])
        parameters = {
            "objective": "regression",
            "learning_rate": rate,
            "num_leaves": round(leaves),
            "min_data_in_leaf": round(rows),
            "lambda_l2": penalty,
            "feature_fraction": float(settings[4]),
            "bagging_fraction": float(settings[5]),
            "bagging_freq": 1,
            "seed": 0,
            "num_threads": 1,
            "deterministic": True,
            "force_row_wise": True,
            "verbosity": -1,
        }
        table, folds = _folded_rows(data_set)
        squares = 0.0
        for fold in range(N_FOLDS):
            train = folds != fold
            model = lightgbm.train(
                parameters, lightgbm.Dataset(table.x[train], table.y[train]), N_TREES
            )
            errors = model.predict(table.x[~train], num_threads=1) - table.y[~train]
            squares += float(np.sum(errors**2))
        return math.sqrt(squares / len(table.y))

    return function


@cache
def _folded_rows(data_set: str) -> tuple[Table, np.ndarray]:
    """Return the rows and the fold of each."""
    table = load(data_set)
    return table, np.random.RandomState(0).permutation(len(table.y)) % N_FOLDS
