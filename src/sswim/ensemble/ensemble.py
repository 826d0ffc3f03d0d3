"""The ensemble: members trained on the same rows, combined as a mixture, in units of the data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor

from sswim.base.record import Record, chunks, concatenate, map_chunks, rows_at_once
from sswim.ensemble.joint_posterior import JointPosterior, mix_jointly
from sswim.ensemble.mixture import Mixture, Values, mix
from sswim.members.density import Density
from sswim.members.linear_regression import Prediction
from sswim.members.member import Member, append_rows, join_rows
from sswim.rows.rows import Measure, Rows, row_keys
from sswim.rows.scaling import Scaling
from sswim.warps.output_warp import OutputMap


@dataclass(frozen=True)
class Ensemble(Record):
    """Members that predict standardised rows, with weights and the scaling of the data.

    Inputs and targets are in the units of the data; there may be any number of rows, which are cut
    into chunks.
    """

    scaling: Scaling
    """Means and spreads that standardise the data."""
    members: tuple[Member, ...]
    """Members, conditioned on standardised rows."""
    weights: Float64[Tensor, " members"]
    """Weights of the members in the mixture; they add up to one."""
    rows: Rows | None = None
    """Standardised rows that the members are conditioned on; None if they are not kept."""
    folds: HeldOutFolds | None = None
    """Rows that members left out in training; None if they left out none."""

    def alone(self, member: int) -> Ensemble:
        """Return an ensemble of one of the members."""
        weights = torch.ones_like(self.weights[:1])
        return replace(self, members=(self.members[member],), weights=weights)

    def predict(self, inputs: Measure) -> Mixture:
        """Predict the targets at inputs, which may be uncertain."""
        return mix(self._densities(inputs), self.weights)

    def _densities(self, inputs: Measure) -> list[Density]:
        """Return the predictive density of every member."""
        return [self._density(member, self._predict(member, inputs)) for member in self.members]

    def _density(self, member: Member, prediction: Prediction) -> Density:
        return Density(prediction, member.factors.output, self.scaling)

    def predict_mean(self, inputs: Measure) -> Float64[Tensor, "N T"]:
        """Predict the means alone: cheaper, except with output warps, which need the variances."""
        if any(type(member.factors.output) is not OutputMap for member in self.members):
            return self.predict(inputs).mean

        def predict(chunk: Measure) -> Values:
            standardised = self.scaling.inputs(chunk)
            means = [member.predict_mean_chunk(standardised) for member in self.members]
            return Values(torch.einsum("m,mnt->nt", self.weights, torch.stack(means)))

        size = rows_at_once(inputs, in_threads=True)
        predicted = map_chunks(predict, inputs, size, in_threads=True)
        return self.scaling.original_targets(predicted.values)

    def _predict(self, member: Member, inputs: Measure) -> Prediction:
        """Predict by one member; inputs are standardised by chunks, without a copy of them all."""
        return map_chunks(
            lambda chunk: member.predict_chunk(self.scaling.inputs(chunk)),
            inputs,
            rows_at_once(inputs, in_threads=True),
            in_threads=True,
        )

    def leave_one_out(self, rows: Rows) -> Mixture:
        """Predict each row that the members are conditioned on from all other rows."""
        standardised = self.scaling.rows(rows)
        densities = [
            self._density(member, member.leave_one_out(standardised)) for member in self.members
        ]
        return mix(densities, self.weights)

    def update(self, rows: Rows) -> Ensemble:
        """Condition the members on more rows: exactly, with the same parameters."""
        more = self.scaling.rows(rows)
        joined = None if self.rows is None else append_rows(self.rows, more)
        members = tuple(member.update(more, self.rows, joined) for member in self.members)
        return replace(self, members=members, rows=_rows_to_keep(members, joined))

    def covariance(self, inputs: Measure, *, include_noise: bool) -> Float64[Tensor, "T N N"]:
        """Return the joint covariance of the function at inputs, or of observations.

        It has a part within the members and a part between their means.
        """
        standardised = self.scaling.inputs(inputs)
        densities = self._densities(inputs)
        if not include_noise:
            densities = [density.without_noise() for density in densities]
        means = torch.stack([density.mean for density in densities])
        average = torch.einsum("m,mnt->nt", self.weights, means)
        centred = (means - average).permute(2, 1, 0)  # (T, N, members)
        total = (centred * self.weights) @ centred.mT  # between the means
        for member, density, weight in zip(self.members, densities, self.weights, strict=True):
            within = member.covariance(standardised)
            noise = density.warped.observation_variance - density.warped.latent_variance
            within = within + noise.mT.diag_embed()
            total = total + weight * density.covariance(within)
        return total

    def posterior(
        self, points: Float[Tensor, "*B q D"], *, include_noise: bool = False
    ) -> JointPosterior:
        """Return the joint posterior of the function, or of observations, at sets of q points.

        It is differentiable in the points.
        """
        *batch, n_points, _ = points.shape
        if points.numel() == 0:
            return self._empty_posterior(points)
        sets = Measure(points.reshape(-1, *points.shape[-2:]))
        size = max(1, rows_at_once(sets) // n_points)
        parts = [self._posterior(some, include_noise) for some in chunks(sets, size)]
        return concatenate(parts).map(lambda part: part.reshape(*batch, *part.shape[1:]))

    def _posterior(self, points: Measure, include_noise: bool) -> JointPosterior:
        """Return the joint posterior at a limited number of sets of points, (B, q, D)."""
        standardised = self.scaling.inputs(points)
        pairs = zip(self.members, self.weights.tolist(), strict=True)
        used = [(member, weight) for member, weight in pairs if weight > 0]
        return mix_jointly(
            [(member.predict_jointly(standardised), member.factors.output) for member, _ in used],
            [weight for _, weight in used],
            self.scaling,
            include_noise=include_noise,
        )

    def _empty_posterior(self, points: Float[Tensor, "*B q D"]) -> JointPosterior:
        """Return the posterior at no points, which has a graph if the points have one."""
        n_targets = len(self.scaling.target_mean)
        nothing = points.to(torch.float64).sum(-1, keepdim=True).repeat_interleave(n_targets, -1)
        return JointPosterior(nothing, nothing.mT[..., :, None] * nothing.mT[..., None, :])

    def sample(
        self, n: int, generator: torch.Generator, *, include_noise: bool = False
    ) -> Callable[[Measure], Float64[Tensor, "n N T"]]:
        """Draw n functions, each from a member that is drawn by its weight; or observations.

        Returns:
            A function of inputs that returns the values of all n draws there, differentiable in
            inputs that are known exactly.
        """
        weights = self.weights.cpu()
        chosen = torch.multinomial(weights, n, replacement=True, generator=generator)
        counts = chosen.bincount(minlength=len(self.members)).tolist()
        draws = [
            member.sample(count, generator, include_noise=include_noise)
            for member, count in zip(self.members, counts, strict=True)
        ]
        order = chosen.argsort(stable=True).argsort()  # from sorted by member to the order drawn

        def functions(inputs: Measure) -> Float64[Tensor, "n N T"]:
            standardised = self.scaling.inputs(inputs)
            values = [
                member.factors.output.inverse(draw(standardised))
                for member, draw, count in zip(self.members, draws, counts, strict=True)
                if count
            ]
            return self.scaling.original_targets(torch.cat(values)[order])

        return functions

    def warp(self, inputs: Measure, member: int) -> list[Measure]:
        """Return the measure of the inputs, and the measures after each warp of a member.

        They are in the units of the inputs, or in those of the normal scores if the member uses
        them. After a projection they have no units.
        """
        measures = self.members[member].warp(self.scaling.inputs(inputs))
        factors = self.members[member].factors
        if factors.normal_scores is not None:
            return measures
        first, warped = measures[0], measures[1:]
        if all(layer.projection is None for layer in factors.warps):
            warped = [self.scaling.original_warps(measure) for measure in warped]
        return [self.scaling.original_warps(first), *warped]

    def log_evidence(self) -> Float64[Tensor, ""]:
        """Return log p(y) of all rows under the mixture of the members."""
        evidences = [member.log_evidence() for member in self.members]
        mixture = (torch.stack(evidences) + self.weights.log()).logsumexp(0)
        # log p(y) = log p(z) − Σ log spread for the standardised targets z.
        return mixture - self.members[0].count * self.scaling.target_spread.log().sum()


def make_ensemble(
    scaling: Scaling,
    members: Sequence[Member],
    weights: Float64[Tensor, " members"],
    rows: Rows | None,
    folds: HeldOutFolds | None = None,
) -> Ensemble:
    """Make an ensemble that keeps its rows if it needs them, or if a file with them is smaller.

    Members that predict by neighbours need rows. Members that predict by features do not, but a few
    rows are smaller than their statistics, which are then computed again from the rows.

    Args:
        scaling: Means and spreads that standardise the data.
        members: Members, conditioned on standardised rows.
        weights: Weights of the members.
        rows: Standardised rows that the members are conditioned on; None if they are not known.
        folds: Rows that members left out in training; None if they left out none.
    """
    rows = _rows_to_keep(members, rows)
    if rows is not None:
        members = [member.on_held_rows(rows) for member in members]
    return Ensemble(scaling, tuple(members), weights, rows, folds)


def _rows_to_keep(members: Sequence[Member], rows: Rows | None) -> Rows | None:
    """Return the rows that an ensemble keeps; see :func:`make_ensemble`."""
    for member in members:
        if member.held_rows is not None:
            return member.held_rows
    if rows is None:
        return None
    n_bytes = sum(member.bytes_spared_by(rows) for member in members)
    return rows if sum(tensor.nbytes for tensor in rows.tensors()) < n_bytes else None


@dataclass(frozen=True)
class HeldOutFolds(Record):
    """The folds of rows that members left out while their hyper-parameters were learnt.

    Rows with equal inputs are in the same fold, so that inputs tell the fold of a row.
    """

    keys: Int64[Tensor, " n"]
    """Keys of the inputs, standardised, in increasing order."""
    fold: Int64[Tensor, " n"]
    """The fold of each key."""
    weights: Float64[Tensor, "K members"]
    """Weights of the members that left out a fold, for every fold; zero for those that did not."""

    @property
    def n_folds(self) -> int:
        """K, the number of folds."""
        return len(self.weights)

    def fold_of(self, inputs: Float[Tensor, "N D"]) -> Int64[Tensor, " N"]:
        """Return the fold of standardised inputs; −1 for those in none."""
        if len(self.keys) == 0:
            return torch.full((len(inputs),), -1, device=self.keys.device)
        keys = row_keys(inputs.to(torch.float64))
        place = torch.searchsorted(self.keys, keys).clamp(max=len(self.keys) - 1)
        return torch.where(self.keys[place] == keys, self.fold[place], -1)


def held_out_folds(
    folds: list[Float[Tensor, "_ D"]], weights: Float64[Tensor, "K members"]
) -> HeldOutFolds:
    """Make folds of their standardised inputs, and of the weights of members in each."""
    numbered = [torch.full((len(fold),), number) for number, fold in enumerate(folds)]
    keys = row_keys(torch.cat(folds).to(torch.float64))
    distinct, place = keys.unique(return_inverse=True)
    fold = torch.empty_like(distinct)
    fold[place] = torch.cat(numbered).to(fold.device)
    return HeldOutFolds(distinct, fold, weights)


@dataclass(frozen=True)
class PendingUpdates:
    """An ensemble, and pieces of rows that wait until it is used or until they are many.

    A small piece costs far more to condition on alone than among others: a factorisation for every
    member that predicts by features, and a copy of all rows for those that predict by neighbours.
    """

    base: Ensemble
    """Ensemble without the rows that wait."""
    pieces: tuple[Rows, ...] = ()
    """The rows that wait, in units of the data."""
    n_waiting: int = 0
    """Number of the rows that wait."""

    @cached_property
    def ensemble(self) -> Ensemble:
        """The ensemble, conditioned on all rows."""
        return self.base.update(join_rows(self.pieces)) if self.pieces else self.base

    def add(self, rows: Rows) -> PendingUpdates:
        """Return updates with further rows, which are copied where they wait."""
        used = "ensemble" in vars(self)  # and then it has the rows that waited
        start = PendingUpdates(self.ensemble) if used else self
        n_waiting = start.n_waiting + len(rows)
        n_held = 0 if start.base.rows is None else len(start.base.rows)
        # One chunk is enough for sums. Held rows are copied, so the rows must double each time.
        if n_waiting >= max(rows_at_once(rows), n_held):
            return PendingUpdates(start.base.update(join_rows([*start.pieces, rows])))
        return PendingUpdates(start.base, (*start.pieces, rows.map(torch.clone)), n_waiting)
