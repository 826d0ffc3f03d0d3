"""What a fitted estimator has learnt: relevance of columns, local metrics and effects."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Float64, Shaped
from torch import Tensor

from sswim.base.validation import UserError, require_integer
from sswim.estimator.fitted import Fitted
from sswim.estimator.inputs import InputReader, finite, finite_algebra
from sswim.insight.effect import Effect, InputColumn, NumberInput, average_function
from sswim.insight.local_metric import LocalMetric, local_metric
from sswim.insight.relevance import Relevance, relevance_of
from sswim.rows.summary import smallest_keys

RELEVANCE_ROWS = 200
"""Largest number of rows that relevance is computed from."""

FEWEST_RELEVANCE_ROWS = 25
"""Number of rows that relevance is computed from, even if there are many columns."""

RELEVANCE_POINTS = 5000
"""Number of predictions that relevance takes: each row once, and once more for every column."""

GRID_ROWS = 1000
"""Largest number of rows whose values decide where a grid lies."""

GRID_SIZES = {1: 20, 2: 10}
"""Largest number of grid values of each column, for one column and for a pair."""


def find_relevance(fitted: Fitted, given: Float[Tensor, "n D"] | None) -> Relevance:
    """Compute the relevance of columns from given inputs, or from rows that the model holds."""
    groups = _column_groups(fitted.reader)
    n_rows = max(FEWEST_RELEVANCE_ROWS, RELEVANCE_POINTS // (1 + len(groups)))
    inputs = _sample_inputs(fitted, given, min(RELEVANCE_ROWS, n_rows))
    if len(inputs) < 2:
        raise UserError(f"Relevance needs two or more rows. Got {len(inputs)}.")
    with finite_algebra():
        found = relevance_of(fitted.ensemble, inputs, list(groups.values()))
    shares = found.cpu().numpy()
    weights = fitted.ensemble.weights.cpu().numpy()
    return Relevance(tuple(groups), shares[0], shares[1:], weights)


def find_local_metric(fitted: Fitted, inputs: Float[Tensor, "n D"]) -> LocalMetric:
    """Compute the metric of the warps at inputs."""
    inputs = inputs.to(torch.float64)
    scales = [
        member.model.spectrum.length_scales().detach().to(fitted.device)
        for member in fitted.ensemble.members
    ]
    metric = local_metric(fitted.ensemble, scales, inputs)
    return LocalMetric(input_names(fitted.reader), inputs.cpu().numpy(), metric.cpu().numpy())


def find_effect(
    fitted: Fitted,
    columns: Sequence[InputColumn],
    given: Float[Tensor, "n D"] | None,
    grid: Any,
    level: float,
    max_rows: int,
) -> Effect:
    """Average the function over rows, for each value of one or two columns.

    Args:
        fitted: What the estimator has learnt.
        columns: The columns.
        given: Inputs to average over; None for rows that the model holds.
        grid: Number of values of each column, the values themselves, or None.
        level: Probability of the bands.
        max_rows: Largest number of rows to average over.
    """
    rows = _sample_inputs(fitted, given, max(max_rows, GRID_ROWS)).cpu().numpy()
    values = tuple(column.values(rows) for column in columns)
    grids = _make_grids(columns, values, grid)
    rows = rows[smallest_keys(np.arange(len(rows)), max_rows)]

    def changed_rows() -> Iterator[Float64[Tensor, "n D"]]:
        """Yield the rows with columns set to every combination of grid values, in turn."""
        for combination in product(*grids):
            changed = rows
            for column, value in zip(columns, combination, strict=True):
                changed = column.put(changed, value)
            yield torch.from_numpy(changed).to(fitted.device)

    with finite_algebra():
        averages = average_function(fitted.ensemble, changed_rows())
        ends = averages.quantiles([0.5 * (1 - level), 0.5 * (1 + level)])

    def on_grid(values: Float64[Tensor, "G T"]) -> Float64[np.ndarray, "*shape"]:
        array = finite(values).cpu().numpy().reshape(*map(len, grids), -1)
        return array[..., 0] if fitted.flat_targets else array

    return Effect(
        names=tuple(column.name for column in columns),
        kinds=tuple(column.kind for column in columns),
        grids=grids,
        mean=on_grid(averages.mean),
        standard_deviation=on_grid(averages.standard_deviation),
        lower=on_grid(ends[..., 0]),
        upper=on_grid(ends[..., 1]),
        level=level,
        n_rows=len(rows),
        rows=values,
    )


def chosen_columns(reader: InputReader, columns: Any) -> list[InputColumn]:
    """Return one column or a pair of columns that a user named or numbered."""
    every = _input_columns(reader)
    by_name: dict[Any, InputColumn] = {column.name: column for column in every}
    groups = _column_groups(reader)
    if isinstance(columns, str) and columns not in by_name and columns in groups:
        # Longitude and latitude, as relevance names them.
        return [column for column in every if column.places == groups[columns]]
    wanted = list(columns) if isinstance(columns, list | tuple) else [columns]
    by_name |= dict(enumerate(every)) if reader.schema is None else {}
    for name in wanted:
        if not isinstance(name, str | int | np.integer) or name not in by_name:
            raise UserError(
                f"A column must be one of the {len(every)} that the model uses: "
                f"{', '.join(repr(column.name) for column in every[:20])}"
                f"{', …' if len(every) > 20 else ''}. Got {name!r}."
            )
    chosen = [by_name[name] for name in wanted]
    if len(chosen) not in GRID_SIZES or len({column.name for column in chosen}) != len(chosen):
        raise UserError(f"columns must be one column or a pair of different ones. Got {columns!r}.")
    return chosen


def input_names(reader: InputReader) -> tuple[str, ...]:
    """Return the names of the inputs: x0, x1, … if they have none."""
    if reader.inputs is not None:
        return reader.inputs
    return tuple(f"x{place}" for place in range(reader.n_inputs))


def _input_columns(reader: InputReader) -> list[InputColumn]:
    """Return the columns that became inputs."""
    if reader.schema is None:
        return [NumberInput(name, (place,)) for place, name in enumerate(input_names(reader))]
    from sswim.tables import input_columns  # noqa: PLC0415 (it loads pyarrow)

    return input_columns(reader.schema)


def _column_groups(reader: InputReader) -> dict[str, tuple[int, ...]]:
    """Return the places of the inputs of each column; of longitude and latitude together."""
    groups: dict[tuple[int, ...], list[str]] = {}  # columns by their inputs
    for column in _input_columns(reader):
        groups.setdefault(column.places, []).append(column.name)
    return {", ".join(names): places for places, names in groups.items()}


def _sample_inputs(
    fitted: Fitted, given: Float[Tensor, "n D"] | None, most: int
) -> Float64[Tensor, "S D"]:
    """Return given rows or those that the model holds, at most so many, in units of the data.

    Missing values are filled in.
    """
    ensemble = fitted.ensemble
    if given is not None:
        inputs, weight = given, None
    elif ensemble.rows is not None:
        scaling = ensemble.scaling
        inputs = ensemble.rows.inputs.mean * scaling.input_spread + scaling.input_mean
        weight = ensemble.rows.weight
    elif fitted.rows is not None:
        inputs, weight = fitted.rows.inputs.mean, fitted.rows.weight
    else:
        raise UserError(
            "This model holds no rows, so X must be given: rows like those that it was fitted "
            "to, a few hundred are enough."
        )
    inputs = inputs.to(torch.float64)
    if weight is None:
        chosen = torch.from_numpy(smallest_keys(np.arange(len(inputs)), most))
        return inputs[chosen.to(inputs.device)]
    # Rows at evenly spaced sums of weights: one of a large weight may be taken several times.
    total = weight.cumsum(0)
    size = min(most, max(2, len(inputs)))
    places = (torch.arange(size, device=total.device) + 0.5) / size * total[-1]
    return inputs[torch.searchsorted(total, places).clamp(max=len(inputs) - 1)]


def _make_grids(
    columns: Sequence[InputColumn], values: Sequence[Shaped[np.ndarray, " n"]], grid: Any
) -> tuple[Shaped[np.ndarray, " _"], ...]:
    """Return the values that each column is set to."""
    if grid is None:
        grid = GRID_SIZES[len(columns)]
    if isinstance(grid, int | np.integer):
        require_integer("grid", grid, 2)
        return tuple(
            column.grid(values_, int(grid)) for column, values_ in zip(columns, values, strict=True)
        )
    given = [grid] if len(columns) == 1 else list(grid)
    if len(given) != len(columns):
        raise UserError(f"The grid of a pair must be a pair of lists. Got {len(given)} of them.")
    return tuple(column.check(each) for column, each in zip(columns, given, strict=True))
