"""What an estimator has learnt, and how a fit learns it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from jaxtyping import Float64, Int64
from numpy.typing import NDArray
from torch import Tensor

from sswim.base.threads import kept_memory, on_one_core
from sswim.base.validation import UserError
from sswim.conformal import Calibration, ConformalPredictor, calibrate, conformal_predictor
from sswim.distributed.processes import Processes, local_device, resolve_device
from sswim.ensemble.ensemble import Ensemble, PendingUpdates, make_ensemble
from sswim.ensemble.fit import fit_members
from sswim.ensemble.plan import FittedKind
from sswim.estimator.inputs import InputReader, as_numpy
from sswim.estimator.progress import show_progress
from sswim.members import WAYS
from sswim.members.checkpoints import Checkpoints, begin_fit
from sswim.rows.imputer import learn_imputer
from sswim.rows.rows import Measure, Rows
from sswim.rows.source import MemorySource, Source
from sswim.rows.summary import describe, summarise, warn_about_targets
from sswim.rows.training_rows import read_training_rows

if TYPE_CHECKING:
    from sswim.estimator.base import BaseRegressor

Array = NDArray[np.float64]
IntervalMethod = Literal["model", "conformal"]

TRAINING_SHARE = 0.75
"""Share of a limited time after which training ends; weighing and conditioning need the rest."""


@dataclass(frozen=True)
class Fitted:
    """Everything that a fit has learnt.

    An estimator has one such record, which is replaced as a whole: no error and no interrupt leaves
    half of an earlier fit.
    """

    reader: InputReader
    """Reads the inputs of later rows."""
    updates: PendingUpdates
    """The ensemble, and further rows that wait until it is used."""
    kinds: tuple[FittedKind, ...]
    """Every kind of members that was trained."""
    history: list[Float64[np.ndarray, " _"]]
    """Objective at every step of each member, in nats per row."""
    flat_targets: bool
    """Whether targets have shape (N,), so that predictions have too."""
    rows: Rows | None = None
    """The arrays of the fit, if it got arrays."""
    calibration: Calibration | None = None
    """Scores of the rows given to ``calibrate``."""

    @property
    def ensemble(self) -> Ensemble:
        """The ensemble, conditioned on all rows."""
        return self.updates.ensemble

    @cached_property
    def conformal(self) -> ConformalPredictor:
        """The conformal predictor of the calibration, or of the rows held out in the fit."""
        return conformal_predictor(self.ensemble, self.calibration)

    @property
    def device(self) -> torch.device:
        """The device of the ensemble."""
        return self.updates.base.scaling.input_mean.device

    @property
    def warps_targets(self) -> bool:
        """Whether a member has an output warp."""
        return any(member.model.output_warp is not None for member in self.ensemble.members)

    @property
    def shown_member(self) -> int:
        """The member whose warps are shown by default.

        It is one of the deepest members that use the inputs as they are, the one with most weight.
        """

        def rank(number: int) -> tuple[bool, int, float]:
            architecture = self.ensemble.members[number].model.architecture
            plain = architecture.inputs == "standardised"
            return plain, architecture.depth, self.ensemble.weights[number].item()

        return max(range(len(self.ensemble.members)), key=rank)

    def require_member(self, member: int) -> None:
        """Raise unless there is a member of this number."""
        n_members = len(self.ensemble.members)
        if not 0 <= member < n_members:
            raise UserError(
                f"member must be one of the model's {n_members} members, counted from 0. "
                f"Got {member}."
            )

    def as_output(self, values: Tensor) -> Array:
        """Return an array of shape (N, T), or (N,) if the targets of ``fit`` were flat."""
        array = values.cpu().numpy()
        return array[:, 0] if self.flat_targets else array

    def conformal_quantiles(
        self, inputs: Measure, probabilities: Sequence[float], groups: Any
    ) -> Float64[Tensor, "N T Q"]:
        """Return conformal quantiles: of all rows together, or within groups.

        Args:
            inputs: Inputs of the rows.
            probabilities: Probabilities of the quantiles.
            groups: None, the label of each row, or the name of a column.
        """
        if isinstance(groups, str):
            return self._quantiles_by_column(inputs, probabilities, groups)
        predictor = self.conformal
        if groups is None:
            predictor.require_rows(probabilities)
            return predictor.quantiles(inputs, probabilities)
        known = None if self.calibration is None else self.calibration.labels
        if known is None:
            raise UserError("groups need a model that calibrate(X, y, groups=...) was called on.")
        numbers = _group_numbers(_read_labels(groups, len(inputs.mean)), known)
        for number in numbers.unique().tolist():
            predictor.require_rows(probabilities, number, f" of the group {known[number]!r}")
        return predictor.quantiles(inputs, probabilities, numbers.to(inputs.mean.device))

    def _quantiles_by_column(
        self, inputs: Measure, probabilities: Sequence[float], column: str
    ) -> Float64[Tensor, "N T Q"]:
        """Return conformal quantiles within groups of rows with equal values of a column."""
        if self.calibration is not None:
            raise UserError(
                f"After calibrate, groups must be labels, one for each row. Got {column!r}."
            )
        places = self.reader.inputs_of(column)
        if not places.any():
            raise UserError(
                "A group must be a column that became inputs other than mean targets of its "
                f"levels. Got {column!r}; call calibrate(X, y, groups=...) with labels."
            )
        predictor, group = self.conformal.grouped_by(
            self.ensemble, inputs, torch.from_numpy(places).to(self.device)
        )
        _, first_rows = np.unique(group.cpu().numpy(), return_index=True)
        for row in sorted(first_rows.tolist()):
            which = f" in the group of row {row}, by {column!r}"
            predictor.require_rows(probabilities, int(group[row]), which)
        return predictor.quantiles(inputs, probabilities, group)

    def calibrated(self, rows: Rows, groups: Any, *, out_of_fold: bool) -> Fitted:
        """Score rows that the model has not seen, or that some of its members have not seen.

        Args:
            rows: The rows, in the units of the data.
            groups: The label of each row; None for one group.
            out_of_fold: Whether these are rows of the fit; only those that were held out count.
        """
        labels, numbers = None, None
        if groups is not None:
            texts = _read_labels(groups, len(rows))
            labels = tuple(sorted(set(texts)))
            numbers = _group_numbers(texts, labels)
        level_means = torch.from_numpy(self.reader.level_means).to(self.device)
        calibration = calibrate(
            self.ensemble, rows, labels, numbers, level_means, out_of_fold=out_of_fold
        )
        return replace(self, calibration=calibration)


def _read_labels(groups: Any, n_rows: int) -> list[str]:
    """Return the group of every row as text; numbers that are equal have equal texts."""
    array = np.asarray(as_numpy(groups))
    if array.shape != (n_rows,):
        raise UserError(
            f"groups must have one label for each of the {n_rows} rows. Got shape {array.shape}."
        )
    return [
        str(int(value) if isinstance(value, float) and value.is_integer() else value)
        for value in array.tolist()
    ]


def _group_numbers(labels: list[str], known: tuple[str, ...]) -> Int64[Tensor, " N"]:
    """Return the places of labels among known ones."""
    place = {label: number for number, label in enumerate(known)}
    if unknown := sorted(set(labels).difference(place)):
        shown = ", ".join(unknown[:5]) + (", ..." if len(unknown) > 5 else "")
        raise UserError(
            f"groups must be among the {len(known)} groups that calibrate got. Got {shown}."
        )
    return torch.tensor([place[label] for label in labels])


def find_deadline(time_limit: int | float | None) -> float:
    """Return the value of ``perf_counter`` at which training ends."""
    if time_limit is None:
        return math.inf
    if (
        isinstance(time_limit, bool)
        or not isinstance(time_limit, int | float)
        or not time_limit > 0
    ):
        raise UserError(f"time_limit must be a positive number of seconds. Got {time_limit!r}.")
    return perf_counter() + TRAINING_SHARE * time_limit


def learn(
    estimator: BaseRegressor,
    settings: dict[str, Any],
    source: Source,
    memory: int,
    deadline: float,
    checkpoints: Checkpoints | None,
    processes: Processes,
) -> Fitted:
    """Learn from the rows of a source.

    Args:
        estimator: The estimator that makes the plan.
        settings: Its settings, as they are compared between processes and with checkpoints.
        source: The rows.
        memory: Number of bytes that rows may take.
        deadline: Value of ``perf_counter`` at which training ends.
        checkpoints: Where the training is saved as it goes, and resumed from.
        processes: The processes that call this together.
    """
    device, dtype = local_device(resolve_device(estimator.device)), estimator._precision
    processes.require_same("table", {"inputs": source.names, **source.facts()})
    summary = summarise(source, dtype, processes)
    processes.require_same("rows", describe(summary))
    plan = replace(estimator._plan(summary), shortest_first=math.isfinite(deadline))
    output_warp = any(kind.architecture.output_warp != "none" for kind in plan.kinds)
    warn_about_targets(summary.sample, output_warp=output_warp)
    facts = {
        "settings": settings,
        "sizes": asdict(plan),
        "data": describe(summary, source.names),
    }
    random = begin_fit(checkpoints, estimator.random_state, facts, processes)
    rows = read_training_rows(
        source,
        summary,
        dtype=dtype,
        device=device,
        memory=memory,
        one_pass=plan.cross_fitting,
        keep_rows=any(WAYS[kind.way].needs_rows for kind in plan.kinds),
        processes=processes,
    )
    # One large model alone is worth teams of threads.
    cores = on_one_core() if plan.cross_fitting and device.type == "cpu" else nullcontext()
    with kept_memory(), cores:
        with show_progress(
            estimator.verbose and processes.is_first,
            plan.members_per_process(rows),
            [kind.optimiser.steps for kind in plan.kinds for _ in range(kind.n_members)],
            estimator.callback,
            deadline,
            [number for number, kind in enumerate(plan.kinds) for _ in range(kind.n_members)],
        ) as callback:
            combined, kinds = fit_members(plan, rows, random, callback, checkpoints)
        ensemble = make_ensemble(
            summary.scaling.to(device=device),
            combined.members,
            combined.weights,
            rows.device_sample if rows.complete else None,
            combined.folds,
        )
    imputer = source.imputer
    if imputer is None:
        imputer = learn_imputer(summary.sample.inputs.mean.to(torch.float64).numpy())
    columns = source.names if source.schema is None else source.columns
    return Fitted(
        InputReader(imputer, columns, source.names, source.schema),
        PendingUpdates(ensemble),
        kinds,
        [np.array([step.value for step in training.history]) for training in combined.trainings],
        source.flat_targets,
        source.rows.to(device=device) if isinstance(source, MemorySource) else None,
    )
