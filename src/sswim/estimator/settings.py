"""The estimator's settings: how they are checked, and the plan they make."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Literal, Protocol, TypeVar, runtime_checkable

import numpy as np

from sswim.base.validation import UserError, require_choice, require_integer, require_positive
from sswim.ensemble.plan import Kind, Plan, Recipe, choose_size, make_plan
from sswim.kernels.spectrum import Kernel
from sswim.members.architecture import (
    LARGEST_WARP_DIM,
    Architecture,
    InputsName,
    NoiseName,
    WarpsName,
    check_warp_matrix,
)
from sswim.members.neighbour_training import MiniBatches
from sswim.members.objective import OBJECTIVES
from sswim.members.training import Adam
from sswim.warps.output_warp import OutputWarpName
from sswim.warps.warp import WarpMatrix

Auto = Literal["auto"]
ObjectiveName = Literal["map", "evidence", "leave-one-out"]
DType = Literal["float32", "float64"]

ValueT = TypeVar("ValueT")


@runtime_checkable
class Settings(Protocol):
    """The estimator's settings that decide what is trained; ``"auto"`` leaves it to the recipe."""

    depth: int | Auto
    n_neighbors: int
    local_amplitude: bool
    n_components: int | Auto
    n_pseudo: int | Auto
    warps: WarpsName | Auto
    warp_matrix: WarpMatrix | Auto
    warp_dim: int | None
    inputs: InputsName | Auto
    kernel: Kernel | Auto
    n_members: int | Auto
    output_warp: OutputWarpName | Auto
    n_output_terms: int
    noise: NoiseName | Auto
    objective: ObjectiveName | Auto
    max_iter: int | Auto
    growing: bool
    learning_rate: float | Auto
    length_scale: float | Auto
    dtype: DType | Auto
    recipe: Recipe | None
    coordinates: Any


def check_settings(settings: Settings) -> None:
    """Validate the settings."""
    integers = {"depth": 0, "n_components": 1, "n_pseudo": 1, "n_members": 1, "max_iter": 0}
    require_integer("n_neighbors", settings.n_neighbors, 0)
    if settings.n_neighbors and settings.depth == "auto":
        raise UserError(
            f"n_neighbors belongs to one model of a given depth. Got n_neighbors="
            f'{settings.n_neighbors!r} with depth="auto"; set depth=1, say.'
        )
    for name, smallest in integers.items():
        if getattr(settings, name) != "auto":
            require_integer(name, getattr(settings, name), smallest)
    require_integer("n_output_terms", settings.n_output_terms, 1)
    choices: dict[str, Any] = {
        "warps": WarpsName,
        "warp_matrix": WarpMatrix,
        "inputs": InputsName,
        "kernel": Kernel,
        "output_warp": OutputWarpName,
        "noise": NoiseName,
        "objective": ObjectiveName,
        "dtype": DType,
    }
    for name, allowed in choices.items():
        if getattr(settings, name) != "auto":
            require_choice(name, getattr(settings, name), allowed)
    if settings.warp_dim is not None:
        require_integer("warp_dim", settings.warp_dim, 1, LARGEST_WARP_DIM)
    depth = 1 if settings.depth == "auto" else settings.depth
    check_warp_matrix(_warp_matrix(settings), settings.warp_dim, depth)
    if settings.n_neighbors and settings.growing:
        raise UserError(
            "growing=True uses few rows in the first steps; training by neighbours uses few in "
            "every step. Got n_neighbors as well; leave growing out."
        )
    for name in ("growing", "local_amplitude"):
        if not isinstance(getattr(settings, name), bool | np.bool_):
            raise UserError(f"{name} must be True or False. Got {getattr(settings, name)!r}.")
    for name in ("learning_rate", "length_scale"):
        value = getattr(settings, name)
        if not (isinstance(value, str) and value == "auto"):
            require_positive(name, value)
    _check_coordinates(settings.coordinates)
    if settings.recipe is not None and settings.depth != "auto":
        raise UserError(
            f"A recipe has its own depths. Got depth={settings.depth!r} with a recipe; leave depth "
            'at "auto".'
        )


def _check_coordinates(coordinates: Any) -> None:
    if coordinates is None:
        return
    both = tuple(coordinates) if isinstance(coordinates, tuple | list) else ()
    places = all(isinstance(each, int) and each >= 0 for each in both)
    names = all(isinstance(each, str) for each in both)
    if len(both) != 2 or both[0] == both[1] or not (places or names):
        raise UserError(
            "coordinates must be two columns, longitude and latitude, by their names or by their "
            f"places. Got {coordinates!r}."
        )


def make_fit_plan(settings: Settings, n_rows: int, n_inputs: int, *, tied: bool = False) -> Plan:
    """Make the plan of a fit: the recipe if the depth is ``"auto"``, else one kind of member.

    Args:
        settings: The settings of the estimator.
        n_rows: N.
        n_inputs: D.
        tied: Whether many targets are equal; the recipe then has no output warp.
    """
    if settings.depth == "auto":
        return _plan_of_recipe(settings, n_rows, n_inputs, tied)
    neighbours = settings.n_neighbors > 0
    architecture = Architecture(
        depth=int(settings.depth),
        n_neighbors=int(settings.n_neighbors),
        local_amplitude=bool(settings.local_amplitude),
        n_frequencies=_n_frequencies(int(_or(settings.n_components, 256 if neighbours else 512))),
        n_pseudo=int(_or(settings.n_pseudo, 64 if neighbours else 128)),
        warps=_or(settings.warps, "joint" if neighbours else "separate"),
        warp_matrix=_warp_matrix(settings),
        warp_dim=_warp_dim(settings),
        inputs=_or(settings.inputs, "standardised"),
        kernel=_or(settings.kernel, "matern32"),
        output_warp=_or(settings.output_warp, "none"),
        n_output_terms=int(settings.n_output_terms),
        noise=_or(settings.noise, "constant"),
    )
    optimiser: Adam | MiniBatches = Adam(
        int(_or(settings.max_iter, 150)),
        float(_or(settings.learning_rate, 0.03)),
        growing=bool(settings.growing),
    )
    if neighbours:
        optimiser = MiniBatches(
            int(_or(settings.max_iter, MiniBatches.steps)),
            float(_or(settings.learning_rate, MiniBatches.learning_rate)),
        )
    way = "neighbours" if neighbours else "features"
    kind = Kind(
        f"{way}-{settings.depth}",
        architecture,
        OBJECTIVES[_or(settings.objective, "map")],
        optimiser,
        int(_or(settings.n_members, 1)),
    )
    return Plan(
        (kind,),
        length_scale=_length_scale(settings),
        # The kernel and its algebra are in double precision whatever that of the warps is.
        precision=_or(settings.dtype, "float32" if neighbours else "float64"),
    )


def _plan_of_recipe(settings: Settings, n_rows: int, n_inputs: int, tied: bool) -> Plan:
    size = choose_size(n_rows, n_inputs)
    if settings.n_components != "auto":
        n_frequencies = _n_frequencies(int(settings.n_components))
        size = replace(
            size,
            n_frequencies=n_frequencies,
            n_more=size.n_more * n_frequencies // size.n_frequencies,
            n_warp_frequencies=max(1, n_frequencies // 2),
        )
    size = replace(
        size,
        n_pseudo=int(_or(settings.n_pseudo, size.n_pseudo)),
        n_members=int(_or(settings.n_members, size.n_members)),
        n_stationary=min(size.n_stationary, int(_or(settings.n_members, size.n_members))),
    )
    recipe = settings.recipe or Recipe()
    plan = make_plan(replace(recipe, output_warp="none") if tied else recipe, size)
    return replace(
        plan,
        kinds=tuple(_changed(kind, settings) for kind in plan.kinds),
        length_scale=_length_scale(settings),
        screening=plan.screening and settings.length_scale == "auto",
        precision=plan.precision if settings.dtype == "auto" else settings.dtype,
    )


def _changed(kind: Kind, settings: Settings) -> Kind:
    """Return a kind of the recipe with what the settings say."""
    if kind.is_mean:
        return kind
    changes: dict[str, Any] = {
        name: getattr(settings, name)
        for name in ("warps", "inputs", "kernel", "output_warp", "noise")
        if getattr(settings, name) != "auto"
    }
    changes["n_output_terms"] = int(settings.n_output_terms)
    if kind.architecture.depth:
        changes |= {"warp_matrix": _warp_matrix(settings), "warp_dim": _warp_dim(settings)}
    if not settings.local_amplitude:
        changes["local_amplitude"] = False
    optimiser = replace(
        kind.optimiser,
        steps=int(_or(settings.max_iter, kind.optimiser.steps)),
        learning_rate=float(_or(settings.learning_rate, kind.optimiser.learning_rate)),
    )
    if isinstance(optimiser, Adam):
        optimiser = replace(optimiser, growing=bool(settings.growing))
    objective = kind.objective if settings.objective == "auto" else OBJECTIVES[settings.objective]
    architecture = replace(kind.architecture, **changes)
    return replace(kind, architecture=architecture, objective=objective, optimiser=optimiser)


def _warp_matrix(settings: Settings) -> WarpMatrix:
    """Return the form of the warps' matrix: another dimension needs a projection."""
    return _or(settings.warp_matrix, "diagonal" if settings.warp_dim is None else "projected")


def _warp_dim(settings: Settings) -> int | None:
    return None if settings.warp_dim is None else int(settings.warp_dim)


def _n_frequencies(n_components: int) -> int:
    """Return M for a number of features, which come in pairs of cosine and sine."""
    return math.ceil(n_components / 2)


def _length_scale(settings: Settings) -> float | None:
    """Return the given start of all length-scales, or None where the data decide."""
    return None if settings.length_scale == "auto" else float(settings.length_scale)


def _or(value: ValueT | Auto, default: ValueT) -> ValueT:
    return default if value == "auto" else value
