"""Held-out folds and calibrations in a model file, with the checks of both."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import torch
from torch import Tensor

from sswim.base.stored_tensors import require_finite, require_form, require_that
from sswim.conformal.scored import Scored
from sswim.estimator.calibration import Calibration
from sswim.estimator.content_checks import read_flag, read_names
from sswim.posterior.ensemble import Ensemble
from sswim.posterior.held_out_folds import HeldOutFolds

FOLDS, HELD_OUT = "folds", "held_out"
"""Prefixes of the names of tensors."""

_LARGEST = 1e150
"""Largest size of a number, whose square is still finite."""


def pack_folds(folds: HeldOutFolds) -> dict[str, Tensor]:
    """Return the tensors of held-out folds by name."""
    return {f"{FOLDS}.{each.name}": getattr(folds, each.name) for each in fields(folds)}


def unpack_folds(
    tensors: dict[str, Tensor], n_members: int, device: torch.device
) -> HeldOutFolds | None:
    """Restore held-out folds, if there are any, and check them."""
    if f"{FOLDS}.keys" not in tensors:
        return None
    names = [each.name for each in fields(HeldOutFolds)]
    keys, fold, weights = (tensors[f"{FOLDS}.{name}"] for name in names)
    n_keys, n_folds = keys.numel(), weights.shape[0] if weights.ndim else 0
    require_form(f"{FOLDS}.keys", keys, (n_keys,), torch.int64)
    require_form(f"{FOLDS}.fold", fold, (n_keys,), torch.int64)
    require_form(f"{FOLDS}.weights", weights, (n_folds, n_members), torch.float64)
    require_finite(f"{FOLDS}.weights", weights)
    require_that("keys of folds must increase", holds=(keys[1:] > keys[:-1]).all())
    require_that("rows must be in folds", holds=((fold >= 0) & (fold < n_folds)).all())
    require_that("every fold must have rows", holds=len(fold.unique()) == n_folds)
    sums = weights.sum(1) if n_folds else weights.new_zeros(1)
    require_that(
        "weights in a fold must not be negative, and must add up to one",
        holds=(weights >= 0).all() & ((sums - 1).abs() < 1e-6).all(),
    )
    return HeldOutFolds(keys.to(device), fold.to(device), weights.to(device))


def pack_calibration(
    calibration: Calibration | None, tensors: dict[str, Tensor], ensemble: Ensemble, n_stored: int
) -> tuple[dict[str, Tensor], dict[str, Any] | None]:
    """Return the tensors of a calibration by name, and what is JSON-able.

    A file without what the scores are of, all members or the rows of the folds, has none.

    Args:
        calibration: The calibration, if there is one.
        tensors: The tensors of the ensemble that the file holds.
        ensemble: The ensemble.
        n_stored: Number of members that the file holds.
    """
    if calibration is None or n_stored < len(ensemble.members):
        return {}, None
    if calibration.out_of_fold and f"{FOLDS}.keys" not in tensors:
        return {}, None
    scored = calibration.held_out
    found = {f"{HELD_OUT}.{each.name}": getattr(scored, each.name) for each in fields(scored)}
    labels = None if calibration.labels is None else list(calibration.labels)
    return found, {"labels": labels, "out_of_fold": calibration.out_of_fold}


def unpack_calibration(
    content: Any, tensors: dict[str, Tensor], ensemble: Ensemble
) -> Calibration | None:
    """Restore a calibration, if there is one, and check it."""
    found = {name for name in tensors if name.startswith(f"{HELD_OUT}.")}
    if content is None:
        require_that("a calibration must say what it is of", holds=not found)
        return None
    if not isinstance(content, dict) or set(content) != {"labels", "out_of_fold"}:
        raise ValueError("a calibration must have labels and out_of_fold")
    labels = read_names(content["labels"], "labels")
    out_of_fold = read_flag(content["out_of_fold"], "out_of_fold")
    n_folds = 1
    if out_of_fold:
        require_that(
            "a calibration out of fold needs folds and rows",
            holds=ensemble.folds is not None and bool(ensemble.rows),
        )
        assert ensemble.folds is not None
        n_folds = ensemble.folds.n_folds
    parts = {each.name: tensors[f"{HELD_OUT}.{each.name}"] for each in fields(Scored)}
    n_rows, n_targets = len(parts["scores"]), len(ensemble.scaling.target_mean)
    n_groups = 1 if labels is None else len(labels)
    for name, tensor in parts.items():
        shape = (n_rows, n_targets) if name in ("scores", "pit", "median") else (n_rows,)
        is_number = name in ("fold", "group")
        require_form(
            f"{HELD_OUT}.{name}", tensor, shape, torch.int64 if is_number else torch.float64
        )
        require_finite(f"{HELD_OUT}.{name}", tensor)
    for name, number in (("fold", n_folds), ("group", n_groups)):
        holds = ((parts[name] >= 0) & (parts[name] < number)).all()
        require_that(f"held-out rows must be in a {name}", holds=holds)
    for name in ("distance", "weight", "pit"):
        require_that(f"{HELD_OUT}.{name} must not be negative", holds=(parts[name] >= 0).all())
    require_that("probabilities must be at most one", holds=(parts["pit"] <= 1).all())
    for name in ("scores", "median", "distance", "weight"):
        holds = (parts[name].abs() <= _LARGEST).all()
        require_that(f"{HELD_OUT}.{name} must have numbers of at most {_LARGEST:g}", holds=holds)
    held_out = Scored(**parts).to(device=ensemble.weights.device)
    return Calibration(held_out, labels, out_of_fold)
