"""Checks of the JSON part of a model file: types and ranges of all that it says."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any, get_type_hints

import numpy as np
from jaxtyping import Float64

from sswim.base.validation import require_choice, require_flag, require_integer
from sswim.model.architecture import LARGEST, NoiseName, WarpsName
from sswim.model.output_warp import OutputWarpName
from sswim.recipe.fitted_kind import FittedKind
from sswim.recipe.recipe import KindName, Recipe

KEYS = {
    *("parameters", "architectures", "flat_targets", "columns", "inputs", "history", "recipe"),
    *("table_schema", "calibration"),
}
"""Keys of the content."""


def check_keys(content: dict[str, Any]) -> None:
    """Raise unless the content has exactly its keys."""
    if wrong := KEYS.symmetric_difference(content):
        raise ValueError(f"it must have the keys {sorted(KEYS)}, and differs in {sorted(wrong)}")


def read_parameters(content: Any) -> dict[str, Any]:
    """Return the arguments of an estimator; its own checks follow."""
    parameters = dict(content)
    recipe, coordinates = parameters.get("recipe"), parameters.get("coordinates")
    if recipe is not None:
        parameters["recipe"] = _read_recipe(recipe)
    if coordinates is not None:
        parameters["coordinates"] = tuple(coordinates)
    if parameters.get("callback") is not None or parameters.get("device", "auto") != "auto":
        raise ValueError("a file cannot name a callback or a device")
    if parameters.get("random_state") is not None:
        require_integer("random_state", parameters["random_state"], 0, 2**32 - 1)
    require_flag("verbose", parameters.get("verbose", False))
    rate = parameters.get("learning_rate", "auto")
    if rate != "auto" and not (_is_number(rate) and rate > 0):
        raise ValueError(f'learning_rate must be positive or "auto", not {rate!r}')
    length = parameters.get("length_scale", "auto")
    if length != "auto" and not _is_number(length):
        raise ValueError(f'length_scale must be a number or "auto", not {length!r}')
    return parameters


def read_history(content: Any, n_members: int) -> list[Float64[np.ndarray, " steps"]]:
    """Return the objectives of every member's steps."""
    if not isinstance(content, list) or len(content) != n_members:
        raise ValueError(f"there must be a history of each of the {n_members} members")
    for values in content:
        if not isinstance(values, list) or not values or not all(map(_is_number, values)):
            raise ValueError("a history must be a list of finite numbers")
    return [np.array(values, dtype=np.float64) for values in content]


def read_kinds(content: Any) -> tuple[FittedKind, ...]:
    """Return what became of the kinds of members."""
    if not isinstance(content, list):
        raise ValueError("the recipe must be a list")
    return tuple(_read_kind(each) for each in content)


def read_names(content: Any, what: str) -> tuple[str, ...] | None:
    """Return names of columns or inputs, if there are any."""
    if content is None:
        return None
    if not isinstance(content, list) or not all(isinstance(name, str) for name in content):
        raise ValueError(f"{what} must be a list of names")
    return tuple(content)


def read_flag(content: Any, name: str) -> bool:
    """Return a truth value."""
    require_flag(name, content)
    return bool(content)


def _read_kind(content: Any) -> FittedKind:
    kind = FittedKind(**content)
    types = get_type_hints(FittedKind)
    for field in fields(FittedKind):
        value = getattr(kind, field.name)
        if types[field.name] is int:
            require_integer(field.name, value, 0, LARGEST)
        elif types[field.name] is float:
            if not (_is_number(value) and 0 <= value <= 1 + 1e-6):
                raise ValueError(f"{field.name} must lie between 0 and 1, not {value!r}")
        elif not isinstance(value, str):
            raise ValueError(f"{field.name} must be a text")
    return kind


def _read_recipe(content: Any) -> Recipe:
    recipe = Recipe.from_dict(content)
    for name in recipe.kinds:
        require_choice("kinds", name, KindName)
    choices: dict[str, Any] = {
        "warps": WarpsName,
        "output_warp": OutputWarpName,
        "noise": NoiseName,
    }
    for field in fields(Recipe):
        value = getattr(recipe, field.name)
        if field.name in choices:
            require_choice(field.name, value, choices[field.name])
        elif field.name != "kinds":
            require_flag(field.name, value)
    return recipe


def _is_number(value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and abs(value) < 1e300 and math.isfinite(value)
