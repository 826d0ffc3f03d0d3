"""The protocol of a member of an ensemble, whichever way it predicts.

Before members are conditioned on rows, those of a kind are treated together, by class methods in
the order of a fit:

    start      draws their parameters, in batches that train together
    train      trains a batch in place
    enrich     gives trained models what they did not need while training
    leave_out  predicts the rows that they left out
    condition  makes members of models, conditioned on all rows

A member is a frozen record: a trained model with all that its predictions need. It predicts the
warped targets z = T(y) of standardised rows, alone or jointly, draws functions, takes more rows,
and is stored. Each way of being a member is a class in a module of its own, by its name in
``sswim.members.WAYS``; the ensemble knows the protocol and nothing else.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import ClassVar

import torch
from jaxtyping import Float64, Int64
from torch import Tensor

from sswim.base.record import Record, chunks, concatenate, map_chunks, rows_at_once
from sswim.distributed.processes import ALONE, Processes
from sswim.members.checkpoints import CheckpointFile, MemberCallback, Training
from sswim.members.density import OutOfFold
from sswim.members.kinds import Batch, Draw, Kind
from sswim.members.linear_regression import JointPrediction, Prediction, Statistics
from sswim.members.model import SSWIM, Factors, warped_measures
from sswim.rows.rows import Measure, Rows, merge_copies
from sswim.rows.training_rows import TrainingRows

NewStore = Callable[[str], CheckpointFile | None]
"""Returns the file in which the state of a training is saved, by the end of its name."""


@dataclass(frozen=True)
class LeftOut:
    """What the members of a kind say about the rows that they left out."""

    prediction: OutOfFold
    totals: Sequence[Statistics] = ()
    """Sums over all rows for every model, if members are conditioned on these."""


@dataclass(frozen=True)
class Member(Record):
    """A trained model conditioned on rows.

    There may be any number of rows, which are cut into chunks, except in the methods with ``chunk``
    in their names.
    """

    way: ClassVar[str]
    """Name of the class in ``sswim.members.WAYS``."""
    is_screened: ClassVar[bool] = False
    """Whether screening finds where its training starts."""
    is_mean: ClassVar[bool] = False
    """Whether it predicts the mean of all rows everywhere, and has nothing to learn."""
    sums_rows: ClassVar[bool] = False
    """Whether it is conditioned on sums over all rows, which are computed in one pass for all."""
    needs_rows: ClassVar[bool] = False
    """Whether it holds rows, without which it cannot predict."""

    model: SSWIM
    """Architecture and parameters."""
    factors: Factors
    """Tensors of the model that features, targets and noise are computed from."""

    # The members of a kind, before they are conditioned.

    @classmethod
    @abstractmethod
    def start(cls, kind: Kind, first: int, draw: Draw) -> Iterator[Batch]:
        """Yield the members of a kind before training, in batches that train fast.

        Args:
            kind: The kind of the members.
            first: Number of the first of them among all members.
            draw: What they are drawn from.
        """

    @classmethod
    @abstractmethod
    def train(
        cls, batch: Batch, callback: MemberCallback, processes: Processes, store: NewStore
    ) -> list[Training]:
        """Train a batch in place, and return the training of each of its members.

        Args:
            batch: The members.
            callback: Called with the number of a member in the batch and each of its steps.
            processes: The processes that train the batch together, each with its own rows.
            store: Where the training is saved as it goes, and resumed from.
        """

    @classmethod
    def enrich(
        cls,
        kind: Kind,
        models: list[SSWIM],
        new_generator: Callable[[], torch.Generator],
    ) -> list[SSWIM]:
        """Return trained models with what they did not need while training."""
        return models

    @classmethod
    @abstractmethod
    def leave_out(
        cls,
        models: Sequence[SSWIM],
        rows: TrainingRows,
        folds: Sequence[Int64[Tensor, " _"]],
        totals: Sequence[Statistics],
    ) -> LeftOut:
        """Predict the rows that the members of a kind left out.

        Args:
            models: One model for every fold, or one that left out all folds.
            rows: The standardised rows.
            folds: The rows of the sample that the members left out.
            totals: Sums over all rows, for every model, if :attr:`sums_rows` and the sample has
                only some of the rows.
        """

    @classmethod
    @abstractmethod
    def condition(
        cls, models: Sequence[SSWIM], rows: TrainingRows, totals: Sequence[Statistics]
    ) -> list[Member]:
        """Condition models on all rows.

        Args:
            models: Trained models.
            rows: The standardised rows.
            totals: Sums over all rows, for every model, if :attr:`sums_rows`.
        """

    @classmethod
    @abstractmethod
    def condition_on(
        cls, model: SSWIM, rows: Rows | Iterable[Rows], processes: Processes = ALONE
    ) -> Member:
        """Condition a model on rows; see :func:`sswim.members.condition`."""

    @classmethod
    @abstractmethod
    def restore(cls, model: SSWIM, tensors: Mapping[str, Tensor], rows: Rows | None) -> Member:
        """Restore a member from what :meth:`stored` returned.

        Args:
            model: The model of the member.
            tensors: The stored tensors; none if they follow from the rows.
            rows: The rows that the ensemble holds.
        """

    # A member, conditioned on rows.

    @property
    @abstractmethod
    def count(self) -> Float64[Tensor, ""]:
        """Number of rows that the model is conditioned on, each counted by its weight."""

    @property
    def is_constant(self) -> bool:
        """Whether it predicts the same for all inputs, because it has no signal."""
        return False

    def predict(self, inputs: Measure) -> Prediction:
        """Predict z at inputs; for uncertain inputs, its first two moments."""
        if inputs.input_variance is not None:
            return map_chunks(self.predict_chunk, inputs, rows_at_once(inputs))
        size = rows_at_once(inputs, in_threads=True)
        return map_chunks(self.predict_chunk, inputs, size, in_threads=True)

    @torch.no_grad()
    def predict_chunk(self, inputs: Measure) -> Prediction:
        """Predict z at one chunk of inputs; see :meth:`predict`.

        Inputs that are known exactly are predicted as if all were: cheaper, and to the last bit.
        """
        if inputs.input_variance is None:
            return self._predict_exact(inputs)
        uncertain = (inputs.input_variance != 0).flatten(1).any(1)
        if uncertain.all():
            return self._predict_uncertain(inputs)
        exact = replace(inputs, input_variance=None)
        if not uncertain.any():
            return self._predict_exact(exact)
        known = self._predict_exact(exact.map(itemgetter(~uncertain)))
        others = self._predict_uncertain(inputs.map(itemgetter(uncertain)))
        joined = known.map(lambda tensor: tensor.new_empty((len(uncertain), *tensor.shape[1:])))
        for part, chosen in ((known, ~uncertain), (others, uncertain)):
            for target, values in zip(joined.tensors(), part.tensors(), strict=True):
                target[chosen] = values
        return joined

    @abstractmethod
    def _predict_exact(self, inputs: Measure) -> Prediction:
        """Predict z at one chunk of inputs that are known exactly."""

    @abstractmethod
    def _predict_uncertain(self, inputs: Measure) -> Prediction:
        """Predict the first two moments of z at uncertain inputs, in smaller chunks."""

    @abstractmethod
    def predict_mean_chunk(self, inputs: Measure) -> Float64[Tensor, "N T"]:
        """Predict the mean of z at one chunk of inputs."""

    @abstractmethod
    def leave_one_out(self, rows: Rows) -> Prediction:
        """Predict z of each row that the model is conditioned on from all other rows."""

    @abstractmethod
    def covariance(self, inputs: Measure) -> Float64[Tensor, "T N N"]:
        """Return the joint latent covariance of z at inputs, for every target."""

    @abstractmethod
    def predict_jointly(self, points: Measure) -> JointPrediction:
        """Predict z jointly at each of B sets of q exactly known points, (B, q, D).

        Unlike the other methods it is differentiable in the points, and cuts nothing into chunks.
        """

    @abstractmethod
    def sample(
        self, n: int, generator: torch.Generator, *, include_noise: bool = False
    ) -> Callable[[Measure], Float64[Tensor, "n N T"]]:
        """Draw n functions from the posterior of z, or observations of them.

        Returns:
            A function of inputs that returns the values of all n draws there. It can be called any
            number of times; with noise, each call draws new noise. It is differentiable in inputs
            that are known exactly.
        """

    @abstractmethod
    def log_evidence(self) -> Float64[Tensor, ""]:
        """Return log p(y) of the standardised targets of all rows, where that is computed."""

    @torch.no_grad()
    def warp(self, inputs: Measure) -> list[Measure]:
        """Return the measure of the inputs, and the measures after each warp in turn.

        See ``sswim.members.model.warped_measures``.
        """
        parts = [
            warped_measures(self.factors, chunk) for chunk in chunks(inputs, rows_at_once(inputs))
        ]
        return [concatenate(measures) for measures in zip(*parts, strict=True)]

    # Rows: more of them, fewer of them, and those that the ensemble holds for all members.

    @abstractmethod
    def update(self, more: Rows, held: Rows | None = None, joined: Rows | None = None) -> Member:
        """Condition the model on more rows: exactly, with the same parameters.

        Args:
            more: The rows.
            held: The rows that the ensemble holds, on which the member is conditioned now.
            joined: Those rows together with the new ones.
        """

    @abstractmethod
    def without(self, fold: Rows, held: Rows, others: Rows) -> Member:
        """Condition the model on its rows without some of them.

        Args:
            fold: The rows to leave out.
            held: All rows, which the ensemble holds.
            others: All rows but those.
        """

    def on_held_rows(self, rows: Rows) -> Member:
        """Return the member as a file with the rows restores it, to the last bit."""
        return self

    @property
    def held_rows(self) -> Rows | None:
        """The rows that it holds."""
        return None

    def bytes_spared_by(self, rows: Rows) -> int:
        """Return how many bytes a file need not store of the member if it holds the rows."""
        return 0

    @abstractmethod
    def stored(self, rows: Rows | None) -> dict[str, Tensor]:
        """Return what a file stores of the member besides its model.

        Args:
            rows: The rows that the file holds; what follows from them need not be stored.
        """


def count_rows(rows: Rows) -> Float64[Tensor, ""]:
    """Return the number of rows, each counted by its weight."""
    if rows.weight is None:
        return torch.tensor(float(len(rows)), dtype=torch.float64)
    return rows.weight.sum()


def append_rows(rows: Rows, more: Rows) -> Rows:
    """Join two sets of rows, and merge copies.

    Copies are merged whatever the number of rows, so that many small sets appended one after
    another are the same rows as all of them appended at once.
    """
    return merge_copies(join_rows([rows, more]))


def join_rows(parts: Sequence[Rows]) -> Rows:
    """Join sets of rows, of which only some may have weights or input variances."""
    weighted = any(part.weight is not None for part in parts)
    uncertain = any(part.inputs.input_variance is not None for part in parts)

    def complete(rows: Rows) -> Rows:
        weight, inputs = rows.weight, rows.inputs
        if weighted and weight is None:
            weight = rows.targets.new_ones(len(rows))
        if uncertain and inputs.input_variance is None:
            inputs = replace(inputs, input_variance=torch.zeros_like(inputs.mean))
        return replace(rows, weight=weight, inputs=inputs)

    return concatenate(map(complete, parts))
