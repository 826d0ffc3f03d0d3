"""Members by features: models conditioned on the statistics of all rows.

Fourier features approximate the kernel. A model is trained on the evidence of all rows, a batch of
members at a time, and conditioned on sums over the rows; it keeps these sums, and none of the rows.

A member that predicts the mean of all rows everywhere is one by features whose function has no
variance: the other kinds' corrections, noise and densities then apply to it as they are.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from operator import itemgetter
from typing import ClassVar

import torch
from jaxtyping import Float64, Int64
from torch import Tensor

from sswim.base.cholesky import FactorisationError
from sswim.base.record import chunks, concatenate, map_chunks, rows_at_once
from sswim.base.validation import draw_generator
from sswim.distributed.processes import ALONE, Processes
from sswim.kernels.features import expected_features, expected_quadratic
from sswim.members.checkpoints import CheckpointFile, MemberCallback, Training
from sswim.members.density import OutOfFold, out_of_fold
from sswim.members.kinds import Batch, Draw, Kind, Plan, leave_out
from sswim.members.linear_regression import (
    JointPrediction,
    Posterior,
    Prediction,
    Statistics,
    leave_one_out,
    negative_log_evidence,
    posterior,
    total_statistics,
    unpack_gram,
)
from sswim.members.member import LeftOut, Member, NewStore, count_rows
from sswim.members.model import (
    SSWIM,
    Factors,
    log_precision,
    observe,
    row_features,
    stack_models,
    warped_measures,
)
from sswim.members.objective import members_together
from sswim.members.start import StartingPoint, enrich
from sswim.members.training import Adam, train_batch
from sswim.rows.rows import Measure, Rows
from sswim.rows.training_rows import Stream, TrainingRows

SINGLE_MIN_RIDGE = 1e-4
"""Smallest λ = σ²/s² at the start for which features in single precision are used."""

SINGLE_MIN_ROWS = 256
"""Smallest number of rows for which single precision is used; fewer are fast in double."""

NO_SIGNAL = 1e-9
"""s² below which standardised targets are not followed at all."""

PAIRS = 2**22
"""Largest number of pairs of frequencies, over all rows of a chunk, where inputs are uncertain; it
limits the memory."""

ROWS_PER_FEATURE = 4
"""Largest number of rows per feature of which the statistics are quickly computed again."""

MAX_QUICK_ENTRIES = 2**26
"""Largest number of entries of a Gram matrix that is computed again rather than stored: 512 MiB."""


@dataclass(frozen=True)
class FeatureMember(Member):
    """A trained model conditioned on all rows by their features.

    It holds all that predictions and updates need, and none of the rows.
    """

    way: ClassVar[str] = "features"
    is_screened: ClassVar[bool] = True
    sums_rows: ClassVar[bool] = True

    signal: Float64[Tensor, " T"]
    """s², the prior variance of the weights."""
    statistics: Statistics
    """Sums over all rows, to which further rows can be added."""
    posterior: Posterior
    """Posterior of the weights."""

    @classmethod
    def start(cls, kind: Kind, first: int, draw: Draw) -> Iterator[Batch]:
        """Yield the members of a kind before training; see :meth:`Member.start`."""
        plan, rows = draw.plan, draw.rows
        seen: Rows | Stream = rows.everything
        if plan.cross_fitting or plan.deals_members(rows):
            seen = rows.device_sample
        folds: list[Int64[Tensor, " _"] | None] = [None] * kind.n_members
        if draw.folds is not None:
            chosen = [draw.folds[member % len(draw.folds)] for member in range(kind.n_members)]
            seen = leave_out(rows.device_sample, chosen, draw_generator(draw.random))
            folds = list(chosen)
        seen = in_precision(seen, _start_precision(plan, draw.starts, rows.n_rows))
        own_rows = isinstance(seen, Rows) and seen.axis > 0
        n_rows = len(seen) if isinstance(seen, Rows) and own_rows else rows.n_rows
        inputs = seen.inputs if isinstance(seen, Rows) else rows.sample.inputs
        size = members_together(kind.architecture, inputs, n_rows, kind.n_members)
        point = cls._starting_point(kind, draw)
        for numbers in draw.batches_of(kind, size):
            models = [draw.start(kind, folds[number], point) for number in numbers]
            for model in models:
                if model.output_warp is not None and plan.cross_fitting:
                    model.output_warp.set_range(rows.lowest, rows.highest)
            # A model alone is faster than a batch of one.
            model = models[0] if len(models) == 1 else stack_models(models)
            batch_rows = seen
            if isinstance(seen, Rows) and own_rows:
                part = slice(numbers.start, numbers.stop)
                batch_rows = seen.map(itemgetter(part if model.batch else numbers.start))
            yield Batch(cls, first + numbers.start, model.to(rows.device), batch_rows, kind)

    @classmethod
    def _starting_point(cls, kind: Kind, draw: Draw) -> StartingPoint | None:
        """Return the hyper-parameters at which the members of a kind start."""
        point = draw.starts.get(kind.architecture.inputs)
        if point is None or kind.architecture.depth <= 1:
            return point
        # Warps can make a long length-scale short where it must be; so not all starts are alike.
        usual = math.sqrt(draw.rows.sample.inputs.mean.shape[1])
        return replace(point, length_scale=math.sqrt(point.length_scale * usual))

    @classmethod
    def train(
        cls, batch: Batch, callback: MemberCallback, processes: Processes, store: NewStore
    ) -> list[Training]:
        """Train a batch; train it again in double precision if single precision fails."""
        optimiser = batch.kind.optimiser
        assert isinstance(optimiser, Adam)

        def run(rows: Rows | Stream, checkpoint: CheckpointFile | None) -> list[Training]:
            return train_batch(
                batch.model,
                rows,
                batch.kind.objective,
                optimiser,
                callback=callback,
                device=batch.model.log_noise.device,
                processes=processes,
                checkpoint=checkpoint,
            )

        double = store("")
        if _precision(batch.rows) == torch.float64:
            return run(batch.rows, double)
        if double is None or not double.exists():
            start = copy.deepcopy(batch.model.state_dict())
            with suppress(FactorisationError):  # the noise fell below single precision
                return run(batch.rows, store("-single"))
            batch.model.load_state_dict(start)
        return run(in_precision(batch.rows, torch.float64), double)

    @classmethod
    def enrich(
        cls, kind: Kind, models: list[SSWIM], new_generator: Callable[[], torch.Generator]
    ) -> list[SSWIM]:
        """Return trained models with more frequencies."""
        if not kind.n_more:
            return models
        return [enrich(model, kind.n_more, new_generator()) for model in models]

    @classmethod
    def leave_out(
        cls,
        models: Sequence[SSWIM],
        rows: TrainingRows,
        folds: Sequence[Int64[Tensor, " _"]],
        totals: Sequence[Statistics],
    ) -> LeftOut:
        """Predict the folds of a kind by the statistics of the rows outside each.

        Where the sample has all rows, sums over a fold and over the others make the total.
        """
        sample = rows.device_sample
        member_factors = [model.factors()[0] for model in models]
        known_totals = dict(enumerate(totals))
        parts = []
        for place, fold in enumerate(folds):
            number = place % len(models)
            model, factors = models[number], member_factors[number]
            inside = sample.take(fold)
            of_fold = total_statistics(factors, inside)
            if rows.complete:
                # A sum rather than a difference, which would lose what is below the rounding of
                # the total.
                outside = torch.ones(len(sample), dtype=torch.bool, device=fold.device)
                outside[fold] = False
                known = total_statistics(factors, sample.take(outside.nonzero()[:, 0]))
                known_totals.setdefault(number, known + of_fold)
            else:
                known = known_totals[number] - of_fold
            given = posterior(known, model.noise(), model.signal())
            parts.append(_predict_fold(factors, given, inside))
        for number in range(len(folds), len(models)):  # members beyond the folds
            if number not in known_totals:
                known_totals[number] = total_statistics(member_factors[number], sample)
        return LeftOut(concatenate(parts), [known_totals[number] for number in range(len(models))])

    @classmethod
    def condition(
        cls,
        models: Sequence[SSWIM],
        rows: TrainingRows,
        totals: Sequence[Statistics],
    ) -> list[Member]:
        """Condition models on all rows, by their statistics."""
        return [cls.from_statistics(*pair) for pair in zip(models, totals, strict=True)]

    @classmethod
    def condition_on(
        cls, model: SSWIM, rows: Rows | Iterable[Rows], processes: Processes = ALONE
    ) -> FeatureMember:
        """Condition a model on rows, or on chunks of rows."""
        return cls.from_statistics(model, total_statistics(model.factors()[0], rows, processes))

    @classmethod
    @torch.no_grad()
    def from_statistics(cls, model: SSWIM, statistics: Statistics) -> FeatureMember:
        """Condition a model on rows whose statistics were computed with its present parameters."""
        factors = model.factors()[0].map(torch.clone)  # some of them are the model's parameters
        signal, noise = model.signal(), model.noise()
        corrections = model.noise_correction.clone(), model.latent_correction.clone()
        conditioned = posterior(statistics, noise, signal, *corrections)
        return cls(model, factors, signal, statistics, conditioned)

    @classmethod
    def restore(
        cls, model: SSWIM, tensors: Mapping[str, Tensor], rows: Rows | None
    ) -> FeatureMember:
        """Restore a member from its statistics, or from the rows if these were not stored."""
        if not tensors:
            assert rows is not None
            return cls.condition_on(model, rows)
        parts = {field.name: tensors[field.name] for field in fields(Statistics)}
        parts["gram"] = unpack_gram(parts["gram"], len(parts["moment"]))
        device = model.log_noise.device
        return cls.from_statistics(model, Statistics(**parts).to(device=device))

    def bytes_spared_by(self, rows: Rows) -> int:
        """Return the size of the statistics, if they are quickly computed from the rows."""
        return self.statistics.packed_bytes() if self._follows_from(rows) else 0

    def stored(self, rows: Rows | None) -> dict[str, Tensor]:
        """Return the statistics, unless they are quickly computed from the rows."""
        if rows is not None and self._follows_from(rows):
            return {}
        parts = {field.name: getattr(self.statistics, field.name) for field in fields(Statistics)}
        return parts | {"gram": self.statistics.packed_gram()}

    @property
    def count(self) -> Float64[Tensor, ""]:
        """Number of rows that the model is conditioned on, each counted by its weight."""
        return self.statistics.count

    def _is_quick(self, rows: Rows) -> bool:
        """Return whether the statistics of rows are computed quickly."""
        n_features = self.statistics.gram.shape[-1]
        return n_features**2 <= MAX_QUICK_ENTRIES and len(rows) <= ROWS_PER_FEATURE * n_features

    def _follows_from(self, rows: Rows) -> bool:
        """Return whether rows are those of the statistics, and these are computed quickly.

        Rows that count as many times in total are taken to be the same.
        """
        same = torch.isclose(count_rows(rows).to(self.count.device), self.count, rtol=1e-9)
        return self._is_quick(rows) and bool(same)

    @property
    def is_constant(self) -> bool:
        """Whether it predicts the same for all inputs, because it has no signal."""
        return bool((self.signal < NO_SIGNAL).all())

    def _predict_exact(self, inputs: Measure) -> Prediction:
        return self.posterior.predict(
            row_features(self.factors, inputs), log_precision(self.factors, inputs)
        )

    @torch.no_grad()
    def predict_mean_chunk(self, inputs: Measure) -> Float64[Tensor, "N T"]:
        """Predict the mean of z at one chunk of inputs, for a fraction of the cost."""
        return row_features(self.factors, inputs).to(torch.float64) @ self.posterior.mean

    def _predict_uncertain(self, inputs: Measure) -> Prediction:
        """Predict z at uncertain inputs, with the expected features φ̄.

            mean φ̄ᵀα,    latent variance E[φᵀ(e^a·σ²A⁻¹ + ααᵀ)φ] − (φ̄ᵀα)²

        The latent variance includes how much the function varies with the uncertain input.
        """
        alpha, noise = self.posterior.mean.mT, self.posterior.latent_scale
        forms = noise[:, None, None] * torch.cholesky_inverse(self.posterior.factor)
        forms = forms + alpha[:, :, None] * alpha[:, None, :]
        factors = self.factors
        size = max(1, PAIRS // len(factors.frequencies) ** 2)

        def predict(chunk: Measure) -> Prediction:
            top = warped_measures(factors, chunk)[-1].to(dtype=torch.float64)
            mean = expected_features(factors.frequencies, top) @ self.posterior.mean
            second_moments = [expected_quadratic(factors.frequencies, top, form) for form in forms]
            latent = (torch.stack(second_moments, dim=-1) - mean.square()).clamp(min=0)
            row_noise = self.posterior.noise_at(log_precision(factors, chunk))
            return Prediction(mean, latent, latent + row_noise)

        return map_chunks(predict, inputs, size)

    @torch.no_grad()
    def leave_one_out(self, rows: Rows) -> Prediction:
        """Predict z of each row that the model is conditioned on from all other rows."""
        return map_chunks(
            lambda chunk: leave_one_out(observe(self.factors, chunk), self.posterior),
            rows,
            rows_at_once(rows),
        )

    @torch.no_grad()
    def covariance(self, inputs: Measure) -> Float64[Tensor, "T N N"]:
        """Return the joint latent covariance of z at inputs, for every target."""
        covariance = self.posterior.covariance(row_features(self.factors, inputs))
        if inputs.input_variance is not None:
            # Inputs are uncertain independently of each other, which changes only the diagonal.
            latent = self.predict(inputs).latent_variance
            covariance.diagonal(dim1=-2, dim2=-1).copy_(latent.mT)
        return covariance

    def predict_jointly(self, points: Measure) -> JointPrediction:
        """Predict z jointly at sets of points; see :meth:`Member.predict_jointly`."""
        sets = points.mean.shape[:2]
        flat = Measure(points.mean.flatten(0, 1))
        features = row_features(self.factors, flat).to(torch.float64).unflatten(0, sets)
        noise = self.posterior.noise_at(log_precision(self.factors, flat))
        return JointPrediction(
            features @ self.posterior.mean,
            self.posterior.set_covariance(features),
            noise.expand(len(flat.mean), -1).unflatten(0, sets),
        )

    def sample(
        self, n: int, generator: torch.Generator, *, include_noise: bool = False
    ) -> Callable[[Measure], Float64[Tensor, "n N T"]]:
        """Draw n functions, each by its weights; see :meth:`Member.sample`."""
        weights = self.posterior.sample_weights(n, generator)

        def functions(inputs: Measure) -> Float64[Tensor, "n N T"]:
            parts = []
            for chunk in chunks(inputs, rows_at_once(inputs)):
                values = row_features(self.factors, chunk).to(torch.float64) @ weights
                if include_noise:
                    noise = self.posterior.noise_at(log_precision(self.factors, chunk))
                    normal = torch.randn(values.shape, generator=generator, dtype=torch.float64)
                    values = values + noise.sqrt() * normal.to(values.device)
                parts.append(values)
            return torch.cat(parts, dim=1)

        return functions

    @torch.no_grad()
    def update(
        self, more: Rows, held: Rows | None = None, joined: Rows | None = None
    ) -> FeatureMember:
        """Condition the model on more rows: exactly, with the same parameters."""
        known = held is not None and self._follows_from(held)
        if known and joined is not None and self._is_quick(joined):
            return self._condition_again(joined)
        return self._with_statistics(self.statistics + total_statistics(self.factors, more))

    @torch.no_grad()
    def without(self, fold: Rows, held: Rows, others: Rows) -> FeatureMember:
        """Condition the model on its rows without some of them."""
        if self._follows_from(held):
            # A difference of statistics loses what is below the rounding of the total.
            return self._condition_again(others)
        return self._with_statistics(self.statistics - total_statistics(self.factors, fold))

    def on_held_rows(self, rows: Rows) -> FeatureMember:
        """Return the member as a file with the rows restores it, to the last bit."""
        return self._condition_again(rows) if self._follows_from(rows) else self

    @torch.no_grad()
    def _condition_again(self, rows: Rows) -> FeatureMember:
        """Condition the model on rows in place of those that it is conditioned on now."""
        return self._with_statistics(total_statistics(self.factors, rows))

    def _with_statistics(self, total: Statistics) -> FeatureMember:
        old = self.posterior
        updated = posterior(
            total, old.noise, self.signal, old.noise_correction, old.latent_correction
        )
        return replace(self, statistics=total, posterior=updated)

    def log_evidence(self) -> Float64[Tensor, ""]:
        """Return log p(y) of the standardised targets of all rows."""
        return -negative_log_evidence(self.statistics, self.posterior.noise, self.signal)


def in_precision(rows: Rows | Stream, dtype: torch.dtype) -> Rows | Stream:
    """Return the rows with features of another precision."""
    if isinstance(rows, Rows):
        return replace(rows, inputs=rows.inputs.to(dtype=dtype))
    return replace(rows, dtype=dtype)


def _precision(rows: Rows | Stream) -> torch.dtype:
    """Return the precision of the features of rows."""
    return rows.inputs.mean.dtype if isinstance(rows, Rows) else rows.dtype


def _start_precision(plan: Plan, starts: Mapping[str, StartingPoint], n_rows: int) -> torch.dtype:
    """Return the precision of the features in training."""
    if plan.precision != "by noise":
        return torch.float32 if plan.precision == "float32" else torch.float64
    ridges = [(point.noise / point.signal).min().item() for point in starts.values()]
    single = bool(starts) and min(ridges) > SINGLE_MIN_RIDGE and n_rows >= SINGLE_MIN_ROWS
    return torch.float32 if single else torch.float64


def _predict_fold(factors: Factors, given: Posterior, fold: Rows) -> OutOfFold:
    """Predict a fold, given the posterior of the rows outside it."""

    def predict(rows: Rows) -> OutOfFold:
        features = row_features(factors, rows.inputs)
        prediction = given.predict(features, log_precision(factors, rows.inputs))
        return out_of_fold(prediction, factors.output, rows)

    return map_chunks(predict, fold, rows_at_once(fold))


MEAN_SIGNAL = 1e-10
"""s² of the function, in units of the variance of the targets."""


@dataclass(frozen=True)
class MeanMember(FeatureMember):
    """The mean of all rows, with their variance."""

    way: ClassVar[str] = "mean"
    is_screened: ClassVar[bool] = False
    is_mean: ClassVar[bool] = True

    @classmethod
    def _starting_point(cls, kind: Kind, draw: Draw) -> StartingPoint:
        """Return the hyper-parameters of a function without variance, and of noise alone."""
        rows = draw.rows.sample
        one = torch.ones(rows.targets.shape[1], dtype=torch.float64)
        return StartingPoint(math.sqrt(rows.inputs.mean.shape[1]), MEAN_SIGNAL * one, one)
