"""Swinging up a pole on a cart by a policy whose parameters are to be found."""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float64

State = tuple[float, float, float, float]
"""Position and speed of the cart, angle of the pole (0 hangs down) and its angular speed."""

CART_MASS, POLE_MASS, LENGTH = 0.5, 0.5, 0.6  # kg, kg, m: as in PILCO's experiments
FRICTION, GRAVITY = 0.1, 9.82
MAX_FORCE = 10.0
SECONDS, STEP = 6.0, 0.02
WIDTH = 0.3
"""Distance of the pole's tip from its goal, in metres, at which the cost is 1 − exp(−1/2)."""

BOUNDS = (
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
    cost, n_steps = 0.0, round(SECONDS / STEP)
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
    second = _change(_moved(state, first, STEP / 2), force)
    third = _change(_moved(state, second, STEP / 2), force)
    last = _change(_moved(state, third, STEP), force)
    mean = [
        (a + 2 * b + 2 * c + d) / 6 for a, b, c, d in zip(first, second, third, last, strict=True)
    ]
    return _moved(state, (mean[0], mean[1], mean[2], mean[3]), STEP)


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
