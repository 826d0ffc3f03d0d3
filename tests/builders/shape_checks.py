"""Checks of shapes by jaxtyping that are compiled once for each function of the source."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import CellType, CodeType, FunctionType
from typing import Any

Decorate = Callable[[Any], Any]


class JaxtypedOnce:
    """A stand-in for ``jaxtyping.jaxtyped``.

    A function inside of another is made and decorated in every call of the other. jaxtyping would
    compile its check every time, which takes longer than most of these functions do.
    """

    def __init__(self, jaxtyped: Callable[..., Decorate]) -> None:
        self._jaxtyped = jaxtyped
        self._checks: dict[CodeType, FunctionType] = {}

    def __call__(self, *, typechecker: Any) -> Decorate:
        """Return a decorator that checks shapes by a type checker."""
        return functools.partial(self._decorate, self._jaxtyped(typechecker=typechecker))

    def _decorate(self, decorate: Decorate, function: Any) -> Any:
        if not isinstance(function, FunctionType) or "<locals>" not in function.__qualname__:
            return decorate(function)
        check = self._checks.get(function.__code__)
        if check is None:
            check = self._checks[function.__code__] = _checking(decorate(function), None)
        return functools.wraps(function)(_checking(check, function))


def _checking(check: FunctionType, function: FunctionType | None) -> FunctionType:
    """Return a copy of a function that jaxtyping has decorated, for another of the same code."""
    place = check.__code__.co_freevars.index("wrapped_fn_impl")
    call = (check.__closure__ or ())[place].cell_contents
    return _bound(check, fn=function, wrapped_fn_impl=_bound(call, fn=function))


def _bound(function: FunctionType, **values: Any) -> FunctionType:
    """Return a copy of a function with other values of some variables of its surroundings."""
    code = function.__code__
    cells = tuple(
        CellType(values[name]) if name in values else cell
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True)
    )
    return FunctionType(code, function.__globals__, function.__name__, closure=cells)
