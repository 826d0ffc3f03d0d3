"""Checks of a model file's tensors against the architectures that it names.

They come before anything is built or computed, so that a forged file costs no more time and memory
than its own size.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import Tensor

from sswim.base.record import CPU_ROWS
from sswim.base.stored_tensors import (
    require_finite,
    require_form,
    require_moderate,
    require_ordered,
    require_that,
)
from sswim.conformal.scored import Scored
from sswim.model.architecture import Architecture
from sswim.posterior.ensemble import Ensemble
from sswim.posterior.feature_predictor import MAX_QUICK_ENTRIES, ROWS_PER_FEATURE
from sswim.posterior.held_out_folds import HeldOutFolds
from sswim.posterior.predictor import Predictor
from sswim.posterior.statistics import Statistics
from sswim.rows.gaussian_imputer import GaussianImputer
from sswim.rows.scaling import Scaling

MAX_ENTRIES = 2**30
"""Largest number of entries of all matrices that are computed on loading: 8 GiB."""


def check_scaling(tensors: Mapping[str, Tensor]) -> tuple[int, int]:
    """Check the scaling, and return the numbers of inputs and of targets."""
    sizes = []
    for name in ("scaling.input_mean", "scaling.target_mean"):
        require_that(f"{name} must be a vector", holds=tensors[name].ndim == 1)
        sizes.append(len(tensors[name]))
    n_inputs, n_targets = sizes
    require_that("a model must have targets", holds=n_targets > 0)
    shapes: dict[str, tuple[int, ...]] = {
        "input_mean": (n_inputs,),
        "input_spread": (n_inputs,),
        "target_mean": (n_targets,),
        "target_spread": (n_targets,),
        "weight_unit": (),
        "input_low": (n_inputs,),
        "input_high": (n_inputs,),
    }
    for name, shape in shapes.items():
        tensor = tensors[f"scaling.{name}"]
        require_form(f"scaling.{name}", tensor, shape, torch.float64)
        require_finite(f"scaling.{name}", tensor, infinite=name in ("input_low", "input_high"))
        if name.endswith(("spread", "unit")):
            require_that(f"scaling.{name} must be positive", holds=(tensor > 0).all())
    require_ordered(tensors, "scaling.input")
    return n_inputs, n_targets


def check_weights(weights: Tensor, n_members: int) -> None:
    """Check the weights of the members."""
    require_form("weights", weights, (n_members,), torch.float64)
    require_finite("weights", weights)
    holds = n_members > 0 and bool((weights >= 0).all()) and abs(float(weights.sum()) - 1) < 1e-6
    require_that("weights must not be negative, and must add up to one", holds=holds)


def check_rows(tensors: Mapping[str, Tensor], n_inputs: int, n_targets: int) -> int | None:
    """Check the rows, and return their number; None if there are none."""
    found = {name for name in tensors if name.startswith("rows.")}
    if not found:
        return None
    inputs, n_rows = tensors["rows.inputs"], len(tensors["rows.targets"])
    dtype = torch.float32 if inputs.dtype == torch.float32 else torch.float64
    forms: dict[str, tuple[tuple[int, ...], torch.dtype]] = {
        "rows.inputs": ((n_rows, n_inputs), dtype),
        "rows.input_variance": ((n_rows, n_inputs), dtype),
        "rows.targets": ((n_rows, n_targets), torch.float64),
        "rows.weight": ((n_rows,), torch.float64),
    }
    for name in sorted(found):
        require_that(f"there is a tensor {name!r}, which nothing needs", holds=name in forms)
        require_form(name, tensors[name], *forms[name])
        require_moderate(name, tensors[name])
        if name in ("rows.weight", "rows.input_variance"):
            require_that(f"{name} must not be negative", holds=(tensors[name] >= 0).all())
    return n_rows


def check_names(tensors: Mapping[str, Tensor], n_members: int) -> None:
    """Check that there are no tensors which nothing needs."""
    fields = {
        "scaling": Scaling,
        "imputer": GaussianImputer,
        "statistics": Statistics,
        "folds": HeldOutFolds,
        "held_out": Scored,
    }
    names = {kind: {each.name for each in dataclasses.fields(fields[kind])} for kind in fields}
    for name in tensors:
        match name.split(".", 3):
            case ["weights"] | ["rows", _]:  # rows have a check of their own
                continue
            case ["scaling" | "imputer" | "folds" | "held_out" as kind, field] if (
                field in names[kind]
            ):
                continue
            case ["members", number, "statistics", field] if field in names["statistics"]:
                pass
            case ["members", number, "model", _]:  # as have models
                pass
            case _:
                number = ""
        is_member = number.isascii() and number.isdecimal() and len(number) < 10
        if not is_member or str(int(number)) != number or int(number) >= n_members:
            raise ValueError(f"there is a tensor {name!r}, which nothing needs")


def check_sizes(
    tensors: Mapping[str, Tensor],
    architectures: Sequence[Architecture],
    n_inputs: int,
    n_targets: int,
) -> None:
    """Check that the large tensors of every member have the shapes that its architecture implies.

    The members can then be built: they are no larger than the file.
    """
    for number, architecture in enumerate(architectures):
        require_that(
            f"member {number} has more warps than the file has tensors",
            holds=architecture.depth <= len(tensors),
        )
        for parameter, shape in _large_tensors(architecture, n_inputs, n_targets):
            name = f"members.{number}.model.{parameter}"
            require_form(name, tensors[name], shape, torch.float64)


def check_statistics(
    tensors: Mapping[str, Tensor], architecture: Architecture, n_inputs: int, n_targets: int
) -> None:
    """Check the statistics of a member, by their names, before its Gram matrix is unpacked."""
    n_features = _n_features(architecture, n_inputs)
    gram = tensors["gram"]
    require_that(
        "members that predict by neighbours have no statistics",
        holds=not architecture.n_neighbors,
    )
    require_that(
        "there must be one Gram matrix, or one for each target",
        holds=gram.ndim == 2 and len(gram) in (1, n_targets),
    )
    shapes: dict[str, tuple[int, ...]] = {
        "gram": (len(gram), n_features * (n_features + 1) // 2),
        "moment": (n_features, n_targets),
        "energy": (n_targets,),
        "log_scale": (n_targets,),
        "count": (),
    }
    for name, shape in shapes.items():
        require_form(f"statistics.{name}", tensors[name], shape, torch.float64)
        require_moderate(f"statistics.{name}", tensors[name])
    for name in ("energy", "count"):
        require_that(f"statistics.{name} must not be negative", holds=(tensors[name] >= 0).all())


def check_cost(
    architectures: Sequence[Architecture],
    has_statistics: Sequence[bool],
    n_rows: int | None,
    n_inputs: int,
) -> None:
    """Check that what is computed from the tensors fits in a bounded memory."""
    total = 0
    for architecture, is_stored in zip(architectures, has_statistics, strict=True):
        n_gps = architecture.depth * (1 if architecture.warps == "joint" else 2)
        n_pseudo = architecture.n_pseudo
        total += n_gps * n_pseudo * (n_pseudo + 2 * architecture.warp_frequencies)
        if architecture.warp_matrix == "full" and n_rows is not None:
            n_largest = max(n_inputs, architecture.warped_dim(n_inputs))
            total += min(n_rows, CPU_ROWS) * (n_largest + 1) * architecture.warped_dim(n_inputs)
        require_that(
            "members without statistics, but no rows",
            holds=is_stored or n_rows is not None,
        )
        if architecture.n_neighbors or is_stored or n_rows is None:
            continue
        n_features = _n_features(architecture, n_inputs)
        is_quick = n_features**2 <= MAX_QUICK_ENTRIES and n_rows <= ROWS_PER_FEATURE * n_features
        require_that(
            "members without statistics must have few features, and few rows for these",
            holds=n_rows > 0 and is_quick,
        )
        total += n_features**2
    require_that("a model must need no more than 8 GiB", holds=total <= MAX_ENTRIES)


def check_ensemble(ensemble: Ensemble) -> None:
    """Check the predictors: numbers may be right alone, but not together."""
    for number, member in enumerate(ensemble.members):
        require_that(
            f"the parameters of member {number} must give finite predictions",
            holds=not any(each.isnan().any() for each in _floats(member)),
        )


def _floats(member: Predictor) -> Iterator[Tensor]:
    return (each for each in member.tensors() if each.is_floating_point())


def _n_features(architecture: Architecture, n_inputs: int) -> int:
    """Return F of the top level."""
    return 2 * architecture.n_frequencies + (n_inputs + 1 if architecture.linear else 0)


def _large_tensors(
    architecture: Architecture, n_inputs: int, n_targets: int
) -> Iterator[tuple[str, tuple[int, int]]]:
    """Yield the names and shapes of the tensors whose sizes the architecture sets."""
    n_frequencies = 0 if architecture.n_neighbors else architecture.n_frequencies
    warped_dim = architecture.warped_dim(n_inputs)
    yield "spectrum.unit_frequencies", (n_frequencies, warped_dim)
    is_full = architecture.warp_matrix == "full"
    for layer in range(architecture.depth):
        n_before = n_inputs if layer == 0 else warped_dim
        if layer == 0 and architecture.warp_matrix != "diagonal":
            yield "layers.0.projection.directions", (warped_dim, n_inputs)
            yield "layers.0.projection.deviations", (warped_dim, n_inputs)
        n_seen, n_columns = (n_before, n_before) if is_full else (warped_dim, 1)
        is_joint = architecture.warps == "joint"
        for part, n_functions in enumerate((n_columns + 1,) if is_joint else (n_columns, 1)):
            prefix = f"layers.{layer}.parts.{part}"
            n_frequencies, n_pseudo = architecture.warp_frequencies, architecture.n_pseudo
            yield f"{prefix}.spectrum.unit_frequencies", (n_frequencies, n_seen)
            yield f"{prefix}.pseudo_inputs", (n_pseudo, n_seen)
            yield f"{prefix}.pseudo_targets", (n_pseudo, n_functions * warped_dim)
    if architecture.output_warp != "none":
        n_terms = architecture.n_output_terms
        is_sinh = architecture.output_warp == "sinh-arcsinh"
        n_coordinates = 4 * n_terms if is_sinh else 3 * n_terms + 1
        yield "output_warp.coordinates", (n_coordinates, n_targets)
    if architecture.noise == "input-dependent":
        n_frequencies = architecture.n_noise_frequencies
        yield "noise_field.spectrum.unit_frequencies", (n_frequencies, n_inputs)
        yield "noise_field.coefficients", (2 * n_frequencies, n_targets)
