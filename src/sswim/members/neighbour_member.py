"""Members by neighbours: the exact kernel, conditioned on the nearest rows of each point.

A model is trained on mini-batches of rows given their neighbours, at the same cost per step
whatever the number of rows, and keeps the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from typing import Any, ClassVar

import torch
from jaxtyping import Float64, Int64
from torch import Tensor

from sswim.base.numerics import N_NODES, normal_nodes, symmetric_root
from sswim.base.record import Record, chunks, concatenate, map_chunks, rows_at_once
from sswim.base.threads import map_in_threads
from sswim.base.validation import UserError
from sswim.distributed.processes import ALONE, Processes
from sswim.kernels.features import Kernel
from sswim.members.checkpoints import MemberCallback, Training
from sswim.members.density import out_of_fold
from sswim.members.kinds import Batch, Draw, Kind, outside
from sswim.members.linear_regression import JointPrediction, Prediction, Statistics
from sswim.members.member import LeftOut, Member, NewStore, append_rows, count_rows
from sswim.members.model import SSWIM, kernel_points, log_precision, stack_models
from sswim.members.neighbour_training import MiniBatches, train_by_neighbours
from sswim.members.neighbourhood import (
    LocalPrediction,
    NeighbourRows,
    neighbour_rows,
    predict_locally,
)
from sswim.members.pathwise import Kriging, PriorDraws, draw_prior, joint_covariance, set_covariance
from sswim.rows.rows import Measure, Rows, full_covariance
from sswim.rows.summary import target_resolution
from sswim.rows.training_rows import TrainingRows

ENTRIES = {"cpu": 2**18, "cuda": 2**26}
"""Number of entries of all covariances that are factorised together."""

MEMBERS_TOGETHER = 4
"""Largest number of members that are trained in one batch."""


@dataclass(frozen=True)
class _Query(Record):
    """Points to predict, and their neighbours."""

    points: Float64[Tensor, "Q D"]
    variance: Float64[Tensor, "Q D"] | None
    indices: Int64[Tensor, "Q m"]
    ridge_ratio: Float64[Tensor, "Q m"] | None = None


@dataclass(frozen=True)
class NeighbourMember(Member):
    """A trained model with its exact kernel, which conditions each prediction on nearby rows.

    It holds the rows.
    """

    way: ClassVar[str] = "neighbours"
    needs_rows: ClassVar[bool] = True

    kernel: Kernel
    n_neighbors: int
    """m, the number of rows that a prediction is conditioned on; fewer if there are fewer."""
    signal: Float64[Tensor, " T"]
    """s², the amplitude around which those of neighbourhoods lie."""
    noise: Float64[Tensor, " T"]
    """σ², the noise variance where the amplitude is s²."""
    degrees: Float64[Tensor, " T"] | None
    """ν, the degrees of freedom of the amplitudes; None for the same amplitude everywhere."""
    resolution: Float64[Tensor, " T"]
    """Step of the standardised targets: an observation has at least the variance of rounding."""
    noise_correction: Float64[Tensor, " T"]
    """c: observations are predicted with e^c·σ² in place of σ²."""
    latent_correction: Float64[Tensor, " T"]
    """a: the variance of the function is multiplied by e^a."""
    rows: Rows
    """The standardised rows."""

    @classmethod
    def start(cls, kind: Kind, first: int, draw: Draw) -> Iterator[Batch]:
        """Yield the members of a kind before training; they share the rows.

        If there are fewer members than folds, each leaves out several folds; a kind with one member
        leaves out all, so that it need not be trained again for each.
        """
        rows, folds = draw.rows, draw.folds
        assert rows.kept is not None
        dtype = torch.float64 if draw.plan.precision == "float64" else torch.float32
        shared = replace(rows.kept, inputs=rows.kept.inputs.to(dtype=dtype))
        models, seen, seeds = [], [], []
        for member in range(kind.n_members):
            left_out = None
            numbers = torch.arange(len(shared), device=rows.device)
            if folds is not None:
                left_out = torch.cat(folds[member :: kind.n_members])
                numbers = outside(rows.kept, rows.device_sample.take(left_out))
            model = draw.start(kind, left_out)
            model.resolution.copy_(target_resolution(rows.sample))
            if model.output_warp is not None:
                model.output_warp.set_range(rows.lowest, rows.highest)
            models.append(model)
            seen.append(numbers)
            seeds.append(int(draw.random.randint(2**31)))
        for members in draw.batches_of(kind, MEMBERS_TOGETHER):
            part = slice(members.start, members.stop)
            few = models[part]
            model = (few[0] if len(few) == 1 else stack_models(few)).to(rows.device)
            number = first + members.start
            yield Batch(cls, number, model, shared, kind, tuple(seen[part]), tuple(seeds[part]))

    @classmethod
    def train(
        cls, batch: Batch, callback: MemberCallback, processes: Processes, store: NewStore
    ) -> list[Training]:
        """Train members in place, on mini-batches of rows given their neighbours."""
        assert isinstance(batch.rows, Rows)
        assert isinstance(batch.kind.optimiser, MiniBatches)
        return train_by_neighbours(
            batch.model,
            batch.rows,
            batch.kind.optimiser,
            prior_weight=batch.kind.objective.prior_weight,
            seen=batch.seen,
            seeds=batch.seeds,
            callback=callback,
            processes=processes,
            checkpoint=store(""),
        )

    @classmethod
    def leave_out(
        cls,
        models: Sequence[SSWIM],
        rows: TrainingRows,
        folds: Sequence[Int64[Tensor, " _"]],
        totals: Sequence[Statistics],
    ) -> LeftOut:
        """Predict the folds of a kind from the nearest rows outside each."""
        assert rows.kept is not None
        parts = []
        for number, fold in enumerate(folds):
            inside = rows.device_sample.take(fold)
            others = rows.kept.take(outside(rows.kept, inside))
            member = cls.condition_on(models[number % len(models)], others)
            prediction = member.predict(inside.inputs)
            rounding = member.rounding_variance(prediction)
            parts.append(out_of_fold(prediction, member.factors.output, inside, rounding))
        return LeftOut(concatenate(parts))

    @classmethod
    def condition(
        cls, models: Sequence[SSWIM], rows: TrainingRows, totals: Sequence[Statistics]
    ) -> list[Member]:
        """Condition models on the rows that are kept, which they share."""
        assert rows.kept is not None
        return [cls.condition_on(model, rows.kept) for model in models]

    @classmethod
    @torch.no_grad()
    def condition_on(
        cls, model: SSWIM, rows: Rows | Iterable[Rows], processes: Processes = ALONE
    ) -> NeighbourMember:
        """Condition a model on rows, which every process has."""
        return cls(
            model=model,
            factors=model.factors()[0].map(torch.clone),
            kernel=model.architecture.kernel,
            n_neighbors=model.architecture.n_neighbors,
            signal=model.signal(),
            noise=model.noise(),
            degrees=model.degrees(),
            resolution=model.resolution.clone(),
            noise_correction=model.noise_correction.clone(),
            latent_correction=model.latent_correction.clone(),
            rows=rows if isinstance(rows, Rows) else concatenate(rows),
        )

    @classmethod
    def restore(
        cls, model: SSWIM, tensors: Mapping[str, Tensor], rows: Rows | None
    ) -> NeighbourMember:
        """Restore a member from the rows."""
        assert rows is not None
        return cls.condition_on(model, rows)

    def stored(self, rows: Rows | None) -> dict[str, Tensor]:
        """Return nothing: the member follows from its model and the rows."""
        return {}

    def log_evidence(self) -> Float64[Tensor, ""]:
        """Raise: a member by neighbours is trained on densities of rows given their neighbours."""
        raise NotImplementedError("Predictions by neighbours have no evidence of all rows.")

    @property
    def count(self) -> Float64[Tensor, ""]:
        """Number of rows that the model is conditioned on, each counted by its weight."""
        return count_rows(self.rows)

    @cached_property
    def known(self) -> NeighbourRows:
        """The rows as predictions use them."""
        return neighbour_rows(self.factors, self.rows, self.noise / self.signal)

    def _predict_exact(self, inputs: Measure) -> Prediction:
        return self._as_prediction(self._locally(self._query(inputs)), inputs)

    @torch.no_grad()
    def predict_mean_chunk(self, inputs: Measure) -> Float64[Tensor, "N T"]:
        """Predict the mean of z at one chunk of inputs."""
        return self.predict_chunk(inputs).mean

    @torch.no_grad()
    def leave_one_out(self, rows: Rows) -> Prediction:
        """Predict z of each row that the model is conditioned on from all other rows.

        A row that counts several times is left out once, or as many times as its weight says.
        """
        return map_chunks(self._leave_one_out_chunk, rows, rows_at_once(rows))

    def _leave_one_out_chunk(self, rows: Rows) -> Prediction:
        at = kernel_points(self.factors, rows.inputs)
        indices = self.known.neighbours(at.mean, min(self.n_neighbors + 1, len(self.rows)))
        known = self.rows
        same = (known.inputs.mean[indices] == rows.inputs.mean[:, None]).all(-1)
        same &= (known.targets[indices] == rows.targets[:, None]).all(-1) & (indices >= 0)
        same &= same.cumsum(-1) == 1  # one of several copies
        left = rows.targets.new_ones(len(rows)) if rows.weight is None else rows.weight
        total = torch.ones_like(indices, dtype=torch.float64)
        if known.weight is not None:
            total = known.weight[indices.clamp(min=0)]
        rest = torch.where(same, total - left[:, None], total)
        gone = rest <= 1e-9 * total
        # Without its own row, or without the last neighbour where that is not among them.
        last = torch.zeros_like(gone)
        last[:, -1] = ~same.any(-1)
        if len(self.rows) > self.n_neighbors:
            gone = gone | last
        indices = torch.where(gone, -1, indices)
        ratio = torch.where(gone, 1.0, total / rest)
        local = self._locally(_Query(at.mean, at.variance, indices, ratio))
        return self._as_prediction(local, rows.inputs)

    @torch.no_grad()
    def covariance(self, inputs: Measure) -> Float64[Tensor, "T N N"]:
        """Return the joint latent covariance of z at inputs, for every target.

        It is the covariance of the functions that :meth:`sample` draws.
        """
        prediction = self.predict(inputs)
        # Inputs are uncertain independently of each other, which changes only the diagonal.
        query = self._query(replace(inputs, input_variance=None))
        local = self._locally(query, weights=True)
        kriging = _kriging(query, local)
        scale = (self._latent_amplitude(local) * _inflation(local.degrees)).sqrt()
        covariance = joint_covariance(self.known, kriging, self.kernel)
        covariance = covariance * (scale.mT[:, :, None] * scale.mT[:, None, :])
        covariance.diagonal(dim1=-2, dim2=-1).copy_(prediction.latent_variance.mT)
        return covariance

    def predict_jointly(self, points: Measure) -> JointPrediction:
        """Predict z jointly at sets of points; see :meth:`Member.predict_jointly`.

        The neighbours of a point are as they are: gradients do not know that they may change.
        """
        sets = points.mean.shape[:2]
        flat = Measure(points.mean.flatten(0, 1))
        query = self._query(flat)
        alone = sets[1] == 1
        local = self._locally(query, weights=not alone)
        predicted = self._as_prediction(local, flat).map(lambda tensor: tensor.unflatten(0, sets))
        covariance = predicted.latent_variance.mT[..., None]  # (B, T, q, 1)
        if not alone:
            scale = (self._latent_amplitude(local) * _inflation(local.degrees)).sqrt()
            scale = scale.unflatten(0, sets).mT
            krigings = _kriging(query, local).map(lambda tensor: tensor.unflatten(0, sets))
            joint = set_covariance(self.known, krigings, self.kernel)
            joint = joint * (scale[..., :, None] * scale[..., None, :])
            same = torch.eye(sets[1], dtype=torch.bool, device=joint.device)
            covariance = torch.where(same, covariance, joint)
        noise = predicted.observation_variance - predicted.latent_variance
        return JointPrediction(predicted.mean, covariance, noise)

    def sample(
        self, n: int, generator: torch.Generator, *, include_noise: bool = False
    ) -> Callable[[Measure], Float64[Tensor, "n N T"]]:
        """Draw n functions by pathwise conditioning; see :meth:`Member.sample`."""
        n_inputs = self.known.points.shape[1]
        draws = draw_prior(
            self.kernel, n, n_inputs, len(self.signal), len(self.rows), generator
        ).to(device=self.signal.device)
        return partial(self._draw, draws, generator if include_noise else None)

    def _draw(
        self, draws: PriorDraws, generator: torch.Generator | None, inputs: Measure
    ) -> Float64[Tensor, "n N T"]:
        """Evaluate drawn functions at inputs; add noise if there is a generator of it."""
        return torch.cat(
            [self._draw_chunk(draws, generator, chunk) for chunk in chunks(inputs, 1024)], dim=1
        )

    def _draw_chunk(
        self, draws: PriorDraws, generator: torch.Generator | None, inputs: Measure
    ) -> Float64[Tensor, "n N T"]:
        query = self._query(inputs)
        local = self._locally(query, weights=True)
        errors = draws.errors(self.known, _kriging(query, local))  # (n, N, T)
        scale = draws.scales(local.degrees) * self._latent_amplitude(local).sqrt()
        values = local.mean + scale * errors
        if generator is None:
            return values
        noise = self._noise(local, inputs) * _inflation(local.degrees)
        normal = torch.randn(values.shape, generator=generator, dtype=torch.float64)
        return values + noise.sqrt() * normal.to(values.device)

    @torch.no_grad()
    def update(
        self, more: Rows, held: Rows | None = None, joined: Rows | None = None
    ) -> NeighbourMember:
        """Condition the model on more rows, which members share where the ensemble holds them."""
        return replace(self, rows=append_rows(self.rows, more) if joined is None else joined)

    def without(self, fold: Rows, held: Rows, others: Rows) -> NeighbourMember:
        """Condition the model on its rows without some of them."""
        return replace(self, rows=others)

    @property
    def held_rows(self) -> Rows:
        """The rows that it holds."""
        return self.rows

    def _query(self, inputs: Measure) -> _Query:
        if len(self.rows) == 0:
            raise UserError(
                "This model predicts from rows, and was saved without them. Give it rows with "
                "partial_fit(X, y) first."
            )
        at = kernel_points(self.factors, inputs)
        indices = self.known.neighbours(at.mean.detach(), self.n_neighbors)
        return _Query(at.mean, at.variance, indices)

    def _locally(self, query: _Query, *, weights: bool = False) -> LocalPrediction:
        """Predict points in small chunks: in the cache, and on all cores."""
        n_entries = query.indices.shape[1] ** 2 * len(self.signal)
        if self.known.variance is not None:  # distances along every input
            n_entries *= query.points.shape[1]
        size = max(1, ENTRIES[query.points.device.type] // n_entries)
        known = self.known  # computed before the threads start
        function = partial(_predict_query, self, known, weights)
        if len(query.points) <= size:
            return function(query)
        return concatenate(map_in_threads(function, list(chunks(query, size))))

    def _as_prediction(self, local: LocalPrediction, inputs: Measure) -> Prediction:
        inflation = _inflation(local.degrees)
        latent = self._latent_amplitude(local) * local.unit_variance * inflation
        observation = latent + self._noise(local, inputs) * inflation
        return Prediction(
            local.mean, latent, observation, None if self.degrees is None else local.degrees
        )

    def _latent_amplitude(self, local: LocalPrediction) -> Float64[Tensor, "N T"]:
        """Return e^a·ŝ²."""
        return local.amplitude * self.latent_correction.exp()

    def _noise(self, local: LocalPrediction, inputs: Measure) -> Float64[Tensor, "N T"]:
        """Return the squared scale of the noise, in proportion to the local amplitude."""
        noise = local.amplitude * (self.noise / self.signal * self.noise_correction.exp())
        precision = log_precision(self.factors, inputs)
        if precision is not None:
            noise = noise * (-precision).exp()
        return noise + self._rounding(local.mean) if self._is_rounded else noise

    def _rounding(self, mean: Float64[Tensor, "N T"]) -> Float64[Tensor, "N T"]:
        """Return the variance of z that comes from the rounding of targets."""
        _, log_slope = self.factors.output.forward(self.factors.output.inverse(mean))
        return (self.resolution * log_slope.exp()).square() / 12

    def rounding_variance(self, prediction: Prediction) -> Float64[Tensor, "N T"]:
        """Return the part of the predicted variance of z that comes from rounded targets."""
        rounding = self._rounding(prediction.mean)
        if prediction.degrees is None:
            return rounding
        return rounding * _inflation(prediction.degrees)

    @cached_property
    def _is_rounded(self) -> bool:
        """Whether any target is rounded."""
        return bool((self.resolution > 0).any())

    def _predict_uncertain(self, inputs: Measure) -> Prediction:
        """Predict z at uncertain inputs by the moments over N_NODES inputs for each."""
        return map_chunks(self._predict_nodes, inputs, max(1, 4096 // N_NODES))

    def _predict_nodes(self, inputs: Measure) -> Prediction:
        assert inputs.input_variance is not None
        root = symmetric_root(full_covariance(inputs.mean, inputs.input_variance))
        nodes = normal_nodes(inputs.mean.shape[1]).to(inputs.mean)  # (nodes, D)
        around = inputs.mean[:, None] + nodes @ root
        exact = Measure(around.flatten(0, 1))
        every = self._as_prediction(self._locally(self._query(exact)), exact)
        at_nodes = every.map(lambda tensor: tensor.unflatten(0, (len(inputs.mean), -1)))
        mean = at_nodes.mean.mean(1)
        between = (at_nodes.mean - mean[:, None]).square().mean(1)
        return Prediction(
            mean,
            at_nodes.latent_variance.mean(1) + between,
            at_nodes.observation_variance.mean(1) + between,
            None if at_nodes.degrees is None else at_nodes.degrees[:, 0],
        )

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for copies and pickles, without what follows from it."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


def _predict_query(
    member: NeighbourMember, known: NeighbourRows, weights: bool, query: _Query
) -> LocalPrediction:
    return predict_locally(
        known,
        query.indices,
        query.points,
        member.kernel,
        member.signal,
        member.degrees,
        query.ridge_ratio,
        query.variance,
        weights=weights,
    )


def _kriging(query: _Query, local: LocalPrediction) -> Kriging:
    assert local.weights is not None
    return Kriging(query.points, query.indices, local.weights, query.variance)


def _inflation(degrees: Float64[Tensor, "*N"]) -> Float64[Tensor, "*N"]:
    """Return n/(n − 2), the variance of a Student-t over its squared scale."""
    return 1 / (1 - 2 / degrees)
