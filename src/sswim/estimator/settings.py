"""The rules that settings must keep, and where a setting belongs that an estimator does not have.

An estimator has one table of rules: a rule raises an error unless the value of its setting is one
that it allows. Those of one model with the kernels and warps of the paper are in :data:`SINGLE`,
those of the default in :data:`ENSEMBLE`, and those of a recipe in :data:`RECIPE`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from sswim.base.validation import UserError, require_choice, require_integer, require_positive
from sswim.ensemble.plan import KindName, Recipe
from sswim.kernels.features import Kernel
from sswim.members.model import LARGEST_WARP_DIM, InputsName, NoiseName, WarpsName
from sswim.warps.output_warp import OutputWarpName
from sswim.warps.warp import WarpMatrix

if TYPE_CHECKING:
    from sswim.estimator.base import BaseRegressor

Auto = Literal["auto"]
ObjectiveName = Literal["map", "evidence", "leave-one-out"]
PriorName = Literal["map", "evidence"]
"""Objectives of training by neighbours, which leaves out every row anyway."""
DType = Literal["float32", "float64"]

Rule = Callable[[str, Any], None]
"""Raises a :class:`UserError` about the setting of this name unless its value is allowed."""


def integer(smallest: int, largest: int | None = None) -> Rule:
    """Allow integers of a range."""
    return lambda name, value: require_integer(name, value, smallest, largest)


def choice(choices: Any) -> Rule:
    """Allow the choices of a ``Literal``."""
    return lambda name, value: require_choice(name, value, choices)


def flag(name: str, value: Any) -> None:
    """Allow truth values, those of NumPy too."""
    if not isinstance(value, bool | np.bool_):
        raise UserError(f"{name} must be True or False. Got {value!r}.")


def unless(exception: str | None, rule: Rule) -> Rule:
    """Allow a word, or None, besides the values of a rule."""

    def check(name: str, value: Any) -> None:
        if value is not exception and not (isinstance(value, str) and value == exception):
            rule(name, value)

    return check


def coordinates(name: str, value: Any) -> None:
    """Allow None, two names or two places of columns."""
    if value is None:
        return
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
    check_settings(vars(value), RECIPE)


_SIZES: dict[str, Rule] = {
    "n_components": integer(1),
    "n_pseudo": integer(1),
    "max_iter": integer(0),
    "learning_rate": require_positive,
    "length_scale": require_positive,
    "inputs": choice(InputsName),
    "warp_matrix": choice(WarpMatrix),
    "warp_dim": integer(1, LARGEST_WARP_DIM),
    "n_output_terms": integer(1),
}

SINGLE: dict[str, Rule] = {
    **_SIZES,
    "coordinates": coordinates,
    "depth": integer(0),
    "warps": choice(WarpsName),
    "kernel": choice(Kernel),
    "n_members": integer(1),
    "output_warp": choice(OutputWarpName),
    "noise": choice(NoiseName),
    "objective": choice(ObjectiveName),
    "dtype": choice(DType),
    "warp_dim": unless(None, _SIZES["warp_dim"]),
    "length_scale": unless(None, require_positive),
}
"""Rules of the settings of one model."""

FEATURES: dict[str, Rule] = SINGLE | {"growing": flag}
"""Rules of the settings of one model by features."""

NEIGHBOURS: dict[str, Rule] = SINGLE | {
    "n_neighbors": integer(1),
    "local_amplitude": flag,
    "objective": choice(PriorName),
    "dtype": unless("auto", choice(DType)),
}
"""Rules of the settings of one model by neighbours."""

_CHOSEN = ("n_members", "kernel", "output_warp", "noise", "dtype")

ENSEMBLE: dict[str, Rule] = {
    "coordinates": coordinates,
    **{name: unless("auto", SINGLE[name]) for name in _CHOSEN},
    "recipe": unless(None, _recipe),
}
"""Rules of the settings of the default ensemble."""

RECIPE: dict[str, Rule] = {
    **{field.name: flag for field in dataclasses.fields(Recipe) if field.type == "bool"},
    "kinds": _kinds,
    **{name: SINGLE[name] for name in ("warps", "output_warp", "noise")},
    **{name: unless(None, rule) for name, rule in _SIZES.items()},
}
"""Rules of the fields of a recipe."""


def check_settings(settings: Mapping[str, Any], rules: Mapping[str, Rule]) -> None:
    """Check settings by the rules for their names."""
    for name, rule in rules.items():
        rule(name, settings[name])


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


def refuse_unknown(kind: type[BaseRegressor], settings: Iterable[str]) -> None:
    """Raise an error about settings that belong to another estimator, or to a recipe.

    Args:
        kind: The class of the estimator.
        settings: Names of the settings that it got.
    """
    for name in set(settings).difference(kind._get_param_names()):
        from sswim import estimator  # noqa: PLC0415 (it imports this module)

        others = (
            estimator.SSWIMRegressor,
            estimator.WarpedGPRegressor,
            estimator.NeighbourGPRegressor,
        )
        homes = [other.__name__ for other in others if name in other._get_param_names()]
        example = ""
        if issubclass(kind, estimator.SSWIMRegressor) and name in RECIPE:
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
