"""Predictors: trained models conditioned on rows, in one of two ways.

A :class:`~sswim.members.feature_predictor.FeaturePredictor` is conditioned on all rows by Fourier
features that approximate the kernel; it keeps sums over the rows. A
:class:`~sswim.members.neighbour_predictor.NeighbourPredictor` has the exact kernel and conditions
each prediction on the nearest rows; it keeps the rows.

Rows that predictors hold, to predict from them or to compute statistics again.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter

import torch
from jaxtyping import Float64
from torch import Tensor

from sswim.base.record import Record, chunks, concatenate, map_chunks, rows_at_once
from sswim.members.linear_regression import JointPrediction, Prediction
from sswim.members.model import Factors
from sswim.members.observations import warped_measures
from sswim.rows.rows import Measure, Rows, merge_copies


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
    if any(part.weight is not None for part in parts):
        parts = [
            replace(p, weight=p.targets.new_ones(len(p)) if p.weight is None else p.weight)
            for p in parts
        ]
    if any(part.inputs.input_variance is not None for part in parts):
        parts = [
            p
            if p.inputs.input_variance is not None
            else replace(
                p, inputs=replace(p.inputs, input_variance=torch.zeros_like(p.inputs.mean))
            )
            for p in parts
        ]
    return concatenate(parts)


@dataclass(frozen=True)
class Predictor(Record):
    """A trained model conditioned on rows.

    It predicts the warped targets z = T(y) of standardised rows. There may be any number of rows,
    which are cut into chunks, except in the methods with ``chunk`` in their names.
    """

    factors: Factors
    """Tensors of the model that features, targets and noise are computed from."""

    @property
    @abstractmethod
    def count(self) -> Float64[Tensor, ""]:
        """Number of rows that the model is conditioned on, each counted by its weight."""

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
        joined = known.map(lambda each: each.new_empty((len(uncertain), *each.shape[1:])))
        for part, rows in ((known, ~uncertain), (others, uncertain)):
            for target, values in zip(joined.tensors(), part.tensors(), strict=True):
                target[rows] = values
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
    def update(self, rows: Rows) -> Predictor:
        """Condition the model on more rows: exactly, with the same parameters."""

    def log_evidence(self) -> Float64[Tensor, ""]:
        """Return log p(y) of the standardised targets of all rows, where that is computed."""
        raise NotImplementedError("Predictions by neighbours have no evidence of all rows.")

    @torch.no_grad()
    def warp(self, inputs: Measure) -> list[Measure]:
        """Return the measure of the inputs, and the measures after each warp in turn.

        See ``sswim.members.observations.warped_measures``.
        """
        parts = [
            warped_measures(self.factors, chunk) for chunk in chunks(inputs, rows_at_once(inputs))
        ]
        return [concatenate(measures) for measures in zip(*parts, strict=True)]
