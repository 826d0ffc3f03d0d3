"""The rules of settings, and where a setting belongs that an estimator does not have."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from sswim.base.validation import UserError, require_choice, require_integer, require_positive
from sswim.ensemble.plan import KindName, Recipe
from sswim.members.model import LARGEST_WARP_DIM

if TYPE_CHECKING:
    from sswim.estimator.base import BaseRegressor

Auto = Literal["auto"]
ObjectiveName = Literal["map", "evidence", "leave-one-out"]
PriorName = Literal["map", "evidence"]
"""Objectives of training by neighbours, which leaves out every row anyway."""
DType = Literal["float32", "float64"]

_SMALLEST = {
    "depth": 0,
    "max_iter": 0,
    **dict.fromkeys(("n_components", "n_pseudo", "n_output_terms", "warp_dim"), 1),
    **dict.fromkeys(("n_members", "n_neighbors"), 1),
}
"""Smallest values of integers."""


def check_settings(settings: Any) -> None:
    """Raise unless the settings of an estimator or a recipe suit the types of its fields.

    Numbers that are no integers must be positive. What is left out here (the device, the random
    state) is checked where it is used.
    """
    classes = (cls for cls in type(settings).__mro__ if "__dataclass_fields__" in vars(cls))
    hints = get_type_hints(next(classes))  # a subclass of a user may have any annotations
    for field in dataclasses.fields(settings):
        name, value, hint = field.name, getattr(settings, field.name), hints[field.name]
        kind, *others = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
        is_auto = Auto in others and isinstance(value, str) and value == "auto"
        if is_auto or (value is None and NoneType in others):
            continue
        if name in _RULES:
            _RULES[name](name, value)
        elif name in _SMALLEST:
            largest = LARGEST_WARP_DIM if name == "warp_dim" else None
            require_integer(name, value, _SMALLEST[name], largest)
        elif kind is float:
            require_positive(name, value)
        elif get_origin(kind) is Literal:
            require_choice(name, value, kind)
        elif kind is bool and name != "verbose" and not isinstance(value, bool | np.bool_):
            raise UserError(f"{name} must be True or False. Got {value!r}.")


def _coordinates(name: str, value: Any) -> None:
    """Allow two names or two places of columns."""
    both = tuple(value) if isinstance(value, tuple | list) else ()
    places = all(isinstance(column, int) and column >= 0 for column in both)
    names = all(isinstance(column, str) for column in both)
    if len(both) != 2 or both[0] == both[1] or not (places or names):
        raise UserError(
            f"{name} must be two columns, longitude and latitude, by their names or by their "
            f"places. Got {value!r}."
        )


def _kinds(name: str, value: Any) -> None:
    """Allow kinds of the default ensemble."""
    for kind in value:
        require_choice(name, kind, KindName)


def _recipe(name: str, value: Any) -> None:
    """Allow recipes whose settings are right."""
    if not isinstance(value, Recipe):
        raise UserError(f"{name} must be a Recipe, or None for the default. Got {value!r}.")
    check_settings(value)


_RULES = {"coordinates": _coordinates, "kinds": _kinds, "recipe": _recipe}
"""Rules of the settings that are neither numbers nor words."""

RECIPE = tuple(field.name for field in dataclasses.fields(Recipe))
"""Names of the fields of a recipe."""


def n_frequencies(n_components: int) -> int:
    """Return M for a number of features, which come in pairs of cosine and sine."""
    return math.ceil(n_components / 2)


def make_estimator(**settings: Any) -> BaseRegressor:
    """Make the estimator that has these settings.

    With ``n_neighbors`` that is a :class:`~sswim.NeighbourGPRegressor`, with ``depth`` alone a
    :class:`~sswim.WarpedGPRegressor`, and else a :class:`~sswim.SSWIMRegressor`, whose sizes become
    fields of its recipe.
    """
    from sswim import estimator  # noqa: PLC0415 (it imports this module)

    if "n_neighbors" in settings:
        return estimator.NeighbourGPRegressor(**settings)
    if "depth" in settings:
        return estimator.WarpedGPRegressor(**settings)
    own = estimator.SSWIMRegressor._get_param_names()
    sizes = {name: settings[name] for name in settings if name in RECIPE and name not in own}
    if sizes:
        settings["recipe"] = dataclasses.replace(settings.get("recipe") or Recipe(), **sizes)
    return estimator.SSWIMRegressor(
        **{name: value for name, value in settings.items() if name not in sizes}
    )


def all_estimators() -> tuple[type[BaseRegressor], ...]:
    """Return the classes of estimators, the default first."""
    from sswim import estimator  # noqa: PLC0415 (it imports this module)

    return estimator.SSWIMRegressor, estimator.WarpedGPRegressor, estimator.NeighbourGPRegressor


def refuse_unknown(kind: type[BaseRegressor], settings: Iterable[str]) -> None:
    """Raise an error about settings that belong to another estimator, or to a recipe.

    Args:
        kind: The class of the estimator.
        settings: Names of the settings that it got.
    """
    for name in set(settings).difference(kind._get_param_names()):
        others = all_estimators()
        homes = [other.__name__ for other in others if name in other._get_param_names()]
        example = ""
        if issubclass(kind, others[0]) and name in RECIPE:
            homes.insert(0, "Recipe")
            example = f", as in {kind.__name__}(recipe=Recipe({name}=...))"
        if homes:
            places = " and ".join(filter(None, (", ".join(homes[:-1]), homes[-1])))
            raise TypeError(
                f"{kind.__name__} has no setting {name!r}. It belongs to {places}{example}."
            )


def stored_settings(regressor: BaseRegressor) -> dict[str, Any]:
    """Return the JSON-able settings that decide what is learnt."""
    settings = {
        name: value.item() if isinstance(value, np.generic) else value
        for name, value in regressor.get_params().items()
        if name not in ("device", "verbose", "callback")
    }
    if settings.get("recipe") is not None:
        settings["recipe"] = dataclasses.asdict(settings["recipe"])
    if isinstance(regressor.random_state, np.random.RandomState):
        settings["random_state"] = None  # its state cannot be stored
    return settings
