"""The methods of a fitted estimator that say what it has learnt."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Float64, Shaped
from torch import Tensor

from sswim.base.validation import UserError, require_coverage, require_integer
from sswim.estimator.inputs import finite, finite_algebra
from sswim.estimator.prediction_methods import PredictionMethods
from sswim.insight.effect import Effect, InputColumn, NumberInput, average_function
from sswim.insight.local_metric import LocalMetric, local_metric
from sswim.insight.relevance import Relevance, relevance_of
from sswim.rows.summary import smallest_keys

if TYPE_CHECKING:
    from sswim.estimator.permutation import Importance

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


class InsightMethods(PredictionMethods):
    """Relevance of columns, local metrics and effects of a fitted ensemble."""

    def relevance(self, X: Any = None) -> Relevance:
        """Return how much each column matters to the function, as shares that add up to one.

        A column matters as much as the posterior mean changes, in the mean square, when a row gets
        the column's value of another row: by the variance that the column makes, by itself and
        together with others. See ``sswim.insight.relevance``.

        Args:
            X: Rows, (N, D); by default rows that the model holds. Of many, a sample is used.
        """
        self._ensemble_of_fit()
        groups = self._column_groups()
        n_rows = max(FEWEST_RELEVANCE_ROWS, RELEVANCE_POINTS // (1 + len(groups)))
        inputs = self._sample_inputs(X, min(RELEVANCE_ROWS, n_rows))
        if len(inputs) < 2:
            raise UserError(f"Relevance needs two or more rows. Got {len(inputs)}.")
        with finite_algebra():
            found = relevance_of(self._ensemble, inputs, list(groups.values()))
        shares = found.cpu().numpy()
        return Relevance(tuple(groups), shares[0], shares[1:], self.weights_)

    def local_metric(self, X: Any) -> LocalMetric:
        """Return where, and along which input, the function may vary fast.

        For each row this is the metric of the warps in the units of the inputs, the mean over
        members by their weights; see ``sswim.insight.local_metric``. A column that became
        several inputs has one length-scale for each of these.

        Args:
            X: Rows, (N, D).
        """
        inputs = self._check_inputs(X, None).mean.to(torch.float64)
        scales = [
            model.spectrum.length_scales().detach().to(self._device) for model in self._models
        ]
        found = local_metric(self._ensemble, scales, inputs)
        return LocalMetric(self._input_names(), inputs.cpu().numpy(), found.cpu().numpy())

    def effect(
        self,
        columns: Any,
        X: Any = None,
        *,
        grid: Any = None,
        level: float = 0.9,
        max_rows: int = 100,
    ) -> Effect:
        """Return the function averaged over rows, for each value of one or two columns.

        This is partial dependence, with bands of the averaged function: its variance includes how
        errors at different rows are correlated. See ``sswim.insight.effect``.

        Args:
            columns: A column by its name, or by its number in an array; or a pair of columns.
            X: Rows to average over, (N, D); by default rows that the model holds.
            grid: Number of values of each column; or the values themselves, for a pair as a pair of
                lists. By default 20, or 10 for each column of a pair; all levels of a category.
            level: Probability of the bands.
            max_rows: Largest number of rows to average over; of more, a random sample is used.
        """
        require_coverage(level)
        require_integer("max_rows", max_rows, 1)
        chosen = self._chosen_columns(columns)
        rows = self._sample_inputs(X, max(max_rows, GRID_ROWS)).cpu().numpy()
        values = tuple(column.values(rows) for column in chosen)
        grids = _make_grids(chosen, values, grid)
        rows = rows[smallest_keys(np.arange(len(rows)), max_rows)]
        with finite_algebra():
            found = average_function(self._ensemble, self._set_columns(chosen, rows, grids))
            ends = found.quantiles([0.5 * (1 - level), 0.5 * (1 + level)])

        def on_grid(values: Float64[Tensor, "G T"]) -> Float64[np.ndarray, "*shape"]:
            array = finite(values).cpu().numpy().reshape(*map(len, grids), -1)
            return array[..., 0] if self._flat_targets else array

        return Effect(
            names=tuple(column.name for column in chosen),
            kinds=tuple(column.kind for column in chosen),
            grids=grids,
            mean=on_grid(found.mean),
            standard_deviation=on_grid(found.standard_deviation),
            lower=on_grid(ends[..., 0]),
            upper=on_grid(ends[..., 1]),
            level=level,
            n_rows=len(rows),
            rows=values,
        )

    def permutation_importance(
        self, X: Any, y: Any, *, n_repeats: int = 5, random_state: int = 0
    ) -> Importance:
        """Shuffle each column among rows in turn, and return how much worse predictions become.

        Args:
            X: Inputs, (N, D): an array, a data frame or the path of a table.
            y: Targets, (N,) or (N, T), or the name of the target column of a frame or table.
            n_repeats: Number of times that each column is shuffled.
            random_state: Seed of the shuffles.
        """
        from sswim.estimator.permutation import importance_of_rows  # noqa: PLC0415 (loads pyarrow)

        return importance_of_rows(self, X, y, n_repeats=n_repeats, random_state=random_state)

    def _set_columns(
        self,
        columns: Sequence[InputColumn],
        rows: Float64[np.ndarray, "n D"],
        grids: Sequence[Shaped[np.ndarray, " _"]],
    ) -> Iterator[Float64[Tensor, "n D"]]:
        """Return the rows with columns set to every combination of grid values, in turn."""
        for values in product(*grids):
            changed = rows
            for column, value in zip(columns, values, strict=True):
                changed = column.put(changed, value)
            yield torch.from_numpy(changed).to(self._device)

    def _sample_inputs(self, X: Any, most: int) -> Float64[Tensor, "n D"]:
        """Return given rows or those that the model holds, at most so many, in units of the data.

        Missing values are filled in.
        """
        if X is not None:
            inputs, weight = self._check_inputs(X, None).mean, None
        elif (ensemble := self._ensemble_of_fit()).rows is not None:
            scaling = ensemble.scaling
            inputs = ensemble.rows.inputs.mean * scaling.input_spread + scaling.input_mean
            weight = ensemble.rows.weight
        elif self._fitted_rows is not None:
            inputs, weight = self._fitted_rows.inputs.mean, self._fitted_rows.weight
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

    def _input_columns(self) -> list[InputColumn]:
        """Return the columns that became inputs."""
        if self._reader.schema is None:
            return [NumberInput(name, (place,)) for place, name in enumerate(self._input_names())]
        from sswim.tables import input_columns  # noqa: PLC0415 (it loads pyarrow)

        return input_columns(self._reader.schema)

    def _input_names(self) -> tuple[str, ...]:
        """Return the names of the inputs: x0, x1, … if they have none."""
        if self._reader.inputs is not None:
            return self._reader.inputs
        return tuple(f"x{place}" for place in range(self._reader.n_inputs))

    def _column_groups(self) -> dict[str, tuple[int, ...]]:
        """Return the places of the inputs of each column; of longitude and latitude together."""
        groups: dict[tuple[int, ...], list[str]] = {}  # columns by their inputs
        for column in self._input_columns():
            groups.setdefault(column.places, []).append(column.name)
        return {", ".join(names): places for places, names in groups.items()}

    def _chosen_columns(self, columns: Any) -> list[InputColumn]:
        """Return one column or a pair of columns that a user named or numbered."""
        self._ensemble_of_fit()
        every = self._input_columns()
        by_name: dict[Any, InputColumn] = {column.name: column for column in every}
        groups = self._column_groups()
        if isinstance(columns, str) and columns not in by_name and columns in groups:
            # Longitude and latitude, as relevance names them.
            return [column for column in every if column.places == groups[columns]]
        wanted = list(columns) if isinstance(columns, list | tuple) else [columns]
        by_name |= dict(enumerate(every)) if self._reader.schema is None else {}
        for name in wanted:
            if not isinstance(name, str | int | np.integer) or name not in by_name:
                raise UserError(
                    f"A column must be one of the {len(every)} that the model uses: "
                    f"{', '.join(repr(column.name) for column in every[:20])}"
                    f"{', …' if len(every) > 20 else ''}. Got {name!r}."
                )
        chosen = [by_name[name] for name in wanted]
        if len(chosen) not in GRID_SIZES or len({column.name for column in chosen}) != len(chosen):
            raise UserError(
                f"columns must be one column or a pair of different ones. Got {columns!r}."
            )
        return chosen


def _make_grids(
    columns: Sequence[InputColumn], values: Sequence[Shaped[np.ndarray, " n"]], grid: Any
) -> tuple[Shaped[np.ndarray, " _"], ...]:
    """Return the values that each column is set to."""
    if grid is None:
        grid = GRID_SIZES[len(columns)]
    if isinstance(grid, int | np.integer):
        require_integer("grid", grid, 2)
        return tuple(
            column.grid(each, int(grid)) for column, each in zip(columns, values, strict=True)
        )
    given = [grid] if len(columns) == 1 else list(grid)
    if len(given) != len(columns):
        raise UserError(f"The grid of a pair must be a pair of lists. Got {len(given)} of them.")
    return tuple(column.check(each) for column, each in zip(columns, given, strict=True))
