"""Stacking: weights and variances of the kinds of members, learnt from held-out rows.

With the kinds' out-of-fold predictions of z_k = T_k(y), of mean μ_k, latent variance v_k and noise
σ_k², the weights w and the corrections a and c maximise the mean over the rows of

    log Σ_k w_k p(z_k; μ_k, e^{a_k}v_k + e^{c_k}σ_k²) T_k'(y),

less ½κ times the log of the mean squared error of Σ_k w_k E_k y, and with priors: a Dirichlet prior
that keeps every kind in, and Gaussian ones of a and c. The squared error keeps out kinds whose
means are far off at times, which their densities need not show.

Then kinds that do not pay are pruned: the one whose loss costs least is taken away, again and
again, until all that is lost would be more than a small part of a nat per row.

Last, one input-dependent noise is learnt for all members:

    η maximises Σ log Σ_k w_k p(z_k; μ_k, e^{a_k}v_k + e^{c_k + η(x)}σ_k²) T_k'(y) + log prior.

η only describes how the noise varies over the inputs: the regression weights rows as before
(τ = 0), so the means do not change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from sswim.base.minimise import minimise
from sswim.base.record import Record
from sswim.members.density import Correction, OutOfFold
from sswim.members.model import Architecture
from sswim.members.start import start_noise_field
from sswim.rows.rows import Measure
from sswim.warps.noise_field import NoiseField, fit_noise_field, log_noise_ratio

STEPS = 100
"""Largest number of L-BFGS steps; there are few unknowns."""

NOISE_STRENGTH = 0.1
"""Inverse prior variance of c; noise levels may be wrong by orders of magnitude."""

LATENT_STRENGTH = 1.0
"""Inverse prior variance of a."""

PRUNING_LOSS = 0.002
"""Out-of-fold density that pruning may cost, in nats per row."""

PRUNING_ROWS = 200
"""Smallest number of held-out rows for which kinds are pruned; fewer do not tell which one pays."""

SQUARED_ERROR_ROWS = 1000
"""Number of rows N₀ in κ = N/(N + N₀), the importance of the squared error beside the density:
squared errors of few rows depend on the largest of them."""

WEIGHING_STEPS = 30
"""Largest number of L-BFGS steps for the weights alone."""


@dataclass(frozen=True)
class Stacking(Record):
    """Weights and corrections of the kinds."""

    weights: Float64[Tensor, " K"]
    """w, adding up to one; zero for a kind that is pruned."""
    corrections: tuple[Correction, ...]


def mixture_log_density(
    kinds: Sequence[OutOfFold],
    stacking: Stacking,
    log_noise_ratio: Float64[Tensor, "N T"] | None = None,
) -> Float64[Tensor, "N T"]:
    """Return log p(y) of the rows under the mixture of the kinds."""
    densities = [
        kind.log_density(correction, log_noise_ratio) + weight.log()
        for kind, correction, weight in zip(
            kinds, stacking.corrections, stacking.weights, strict=True
        )
        if weight > 0
    ]
    return torch.stack(densities).logsumexp(0)


def equal_stacking(kinds: Sequence[OutOfFold]) -> Stacking:
    """Return equal weights, and variances as they were learnt."""
    zero = kinds[0].residual.new_zeros(kinds[0].residual.shape[1])
    weights = kinds[0].residual.new_full((len(kinds),), 1 / len(kinds))
    return Stacking(weights, tuple(Correction(zero, zero) for _ in kinds))


def learn_stacking(
    kinds: Sequence[OutOfFold],
    weight: Float64[Tensor, " N"] | None = None,
    mean_kind: int | None = None,
    *,
    stack: bool = True,
    correct: bool = True,
    pruning_loss: float | None = PRUNING_LOSS,
) -> Stacking:
    """Return the weights and corrections with the greatest out-of-fold density.

    Args:
        kinds: Out-of-fold predictions of the same rows by every kind.
        weight: How many times each row counts; None for once.
        mean_kind: Number of the kind that predicts the mean of all rows, if there is one. It stays
            only if it makes the squared error smaller: its broad density is always of some use.
        stack: Whether weights are learnt; else all are equal.
        correct: Whether variances are corrected.
        pruning_loss: How much of the mean density may be lost, in nats per row, by taking weight
            from kinds that do not pay; None to keep all kinds.
    """
    start = equal_stacking(kinds)
    n_kinds, (n_rows, n_targets) = len(kinds), kinds[0].residual.shape
    share = start.weights.new_full((n_rows,), 1 / n_rows)
    if weight is not None:
        share = weight / weight.sum()
    errors = torch.stack([kind.error for kind in kinds])
    logits = start.weights.log().requires_grad_(stack)
    corrections = logits.new_zeros(2, n_kinds, n_targets).requires_grad_(correct)
    free = [parameter for parameter in (logits, corrections) if parameter.requires_grad]
    if not free:
        return start

    def current() -> list[Correction]:
        return [Correction(*corrections[:, number]) for number in range(n_kinds)]

    def add_gradients() -> Tensor:
        log_weights = logits.log_softmax(0)
        densities = _densities(kinds, current())
        fit = _merit(densities, errors, share, log_weights)
        strength = torch.tensor([NOISE_STRENGTH, LATENT_STRENGTH], dtype=logits.dtype)
        squares = corrections.square().sum((1, 2)) @ strength.to(logits.device)
        loss = (0.5 * squares - log_weights.sum()) / n_rows - fit
        loss.backward()
        return loss

    minimise(free, add_gradients, STEPS)
    corrections = corrections.detach()
    weights = logits.detach().softmax(0)
    if not bool(weights.isfinite().all() & corrections.isfinite().all()):
        return start  # the search ran away
    if stack and mean_kind is not None and n_kinds > 1:
        weights = _without_mean(_densities(kinds, current()), errors, share, weights, mean_kind)
    if stack and pruning_loss is not None and n_rows >= PRUNING_ROWS:
        densities = _densities(kinds, current())
        weights = pruned_weights(densities, errors, share, weights, pruning_loss)
    return Stacking(weights, tuple(current()))


def _densities(
    kinds: Sequence[OutOfFold], corrections: Sequence[Correction]
) -> Float64[Tensor, "K N"]:
    """Return the log density of every row under every kind, summed over the targets."""
    pairs = zip(kinds, corrections, strict=True)
    return torch.stack([kind.log_density(correction).sum(-1) for kind, correction in pairs])


def pruned_weights(
    densities: Float64[Tensor, "K N"],
    errors: Float64[Tensor, "K N T"],
    share: Float64[Tensor, " N"],
    weights: Float64[Tensor, " K"],
    loss: float = PRUNING_LOSS,
) -> Float64[Tensor, " K"]:
    """Return the weights of the smallest mixture that loses little.

    Args:
        densities: Log density of every row under every kind.
        errors: Errors of every kind's means.
        share: Shares of the rows in the mean density.
        weights: Weights of all kinds.
        loss: How much of the mean density may be lost, in nats per row.
    """
    kept = [number for number in range(len(weights)) if weights[number] > 0]
    whole = _merit(densities[kept], errors[kept], share, weights[kept].log()).item()
    while len(kept) > 1:
        tried = []
        for kind in kept:
            rest = [other for other in kept if other != kind]
            refitted = _weigh(densities[rest], errors[rest], share, weights[rest])
            value = _merit(densities[rest], errors[rest], share, refitted.log()).item()
            tried.append((value, rest, refitted))
        best, rest, refitted = max(tried, key=lambda trial: trial[0])
        if best < whole - loss:
            break
        kept = rest
        weights = torch.zeros_like(weights)
        weights[kept] = refitted
    return weights


def _without_mean(
    densities: Float64[Tensor, "K N"],
    errors: Float64[Tensor, "K N T"],
    share: Float64[Tensor, " N"],
    weights: Float64[Tensor, " K"],
    mean_kind: int,
) -> Float64[Tensor, " K"]:
    """Return the weights without the kind that predicts the mean, if the error is smaller so."""
    rest = [number for number in range(len(weights)) if number != mean_kind]
    kept = torch.zeros_like(weights)
    kept[rest] = _weigh(densities[rest], errors[rest], share, weights[rest])
    mixed = [torch.einsum("k,knt->nt", parts, errors).square() for parts in (kept, weights)]
    without, whole = (float((share @ squares).sum()) for squares in mixed)
    return kept if without <= whole else weights


def _weigh(
    densities: Float64[Tensor, "K N"],
    errors: Float64[Tensor, "K N T"],
    share: Float64[Tensor, " N"],
    weights: Float64[Tensor, " K"],
) -> Float64[Tensor, " K"]:
    """Return the best weights of kinds, with the same prior."""
    logits = (weights / weights.sum()).log().requires_grad_()

    def add_gradients() -> Tensor:
        log_weights = logits.log_softmax(0)
        loss = -log_weights.sum() / len(share) - _merit(densities, errors, share, log_weights)
        loss.backward()
        return loss

    minimise([logits], add_gradients, WEIGHING_STEPS)
    return logits.detach().softmax(0)


def _merit(
    densities: Float64[Tensor, "K N"],
    errors: Float64[Tensor, "K N T"],
    share: Float64[Tensor, " N"],
    log_weights: Float64[Tensor, " K"],
) -> Float64[Tensor, ""]:
    """Return the mean log density of the mixture, less a part of that of its squared error."""
    density = share @ (densities + log_weights[:, None]).logsumexp(0)
    squares = share @ torch.einsum("k,knt->nt", log_weights.exp(), errors).square()  # (T,)
    smallest = torch.finfo(torch.float64).tiny
    importance = len(share) / (len(share) + SQUARED_ERROR_ROWS)
    return density - 0.5 * importance * squares.clamp(min=smallest).log().sum()


def learn_shared_noise(
    inputs: Measure,
    kinds: Sequence[OutOfFold],
    weight: Float64[Tensor, " N"] | None,
    stacking: Stacking,
    architecture: Architecture,
    sample: Float[Tensor, "S D"],
    generator: torch.Generator,
) -> NoiseField:
    """Return the noise field with the greatest out-of-fold density.

    Args:
        inputs: Standardised inputs of the rows.
        kinds: The kinds' out-of-fold predictions of the rows.
        weight: How many times each row counts; None for once.
        stacking: Weights and corrections of the kinds.
        architecture: Architecture of the members.
        sample: Some rows of the inputs, for the start of length-scales.
        generator: Generator on the CPU for the field's frequencies.
    """
    residual = kinds[0].residual
    field = start_noise_field(architecture, residual.shape[-1], sample, generator)
    field.to(residual.device)

    def add_gradients() -> Tensor:
        factors, prior = field.factors()
        density = mixture_log_density(kinds, stacking, log_noise_ratio(factors, inputs)).sum(-1)
        loss = prior - (density if weight is None else weight * density).sum()
        loss.backward()
        return loss

    fit_noise_field(field, add_gradients)
    return field
