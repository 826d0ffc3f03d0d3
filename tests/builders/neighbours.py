"""Models that predict by neighbours, and the exact GP that they are with all rows as neighbours."""

from __future__ import annotations

from functools import partial
from operator import itemgetter
from typing import Any

import numpy as np
import torch
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, Matern
from torch import Tensor

from builders.models import small_model
from sswim.base.record import RecordT
from sswim.kernels import Kernel
from sswim.members.linear_regression import Prediction
from sswim.members.model import SSWIM, warped_measures
from sswim.rows import Measure, Rows
from sswim.warps import log_noise_ratio

KERNELS: tuple[Kernel, ...] = ("rbf", "matern12", "matern32", "matern52")

SCIKIT_LEARN: dict[Kernel, Any] = {
    "rbf": RBF,
    "matern12": partial(Matern, nu=0.5),
    "matern32": partial(Matern, nu=1.5),
    "matern52": partial(Matern, nu=2.5),
}
"""Scikit-learn's kernels by our names; they take the length-scales."""


def neighbour_model(
    rows: Rows, generator: torch.Generator, n_neighbors: int | None = None, **changes: Any
) -> SSWIM:
    """Make a model with random parameters whose neighbours are all rows, unless a number is given.

    The noise of the rows' weights is tempered, so that no term vanishes.
    """
    n_neighbors = len(rows) if n_neighbors is None else n_neighbors
    model = small_model(rows, generator, n_neighbors=n_neighbors, **{"depth": 0, **changes})
    if model.noise_field is not None:
        tempers = torch.linspace(0.5, 1, model.n_targets)
        model.noise_field.temper.copy_(tempers)
    return model


@torch.no_grad()
def exact_prediction(model: SSWIM, rows: Rows, inputs: Measure) -> Prediction:
    """Predict by scikit-learn's GPs with fixed kernels on the warped inputs, from all rows.

    Two GPs of zero mean, of the targets and of targets that are all one, make one with an unknown
    constant mean.
    """
    factors, _ = model.factors()
    known, points = (
        warped_measures(factors, each)[-1].mean.double().numpy() for each in (rows.inputs, inputs)
    )
    targets = factors.output.forward(rows.targets)[0].numpy()
    ratio = (model.noise() / model.signal()).expand(len(rows), -1).numpy()
    noise = (model.noise() / model.signal()).expand(len(inputs.mean), -1).numpy()
    if factors.noise is not None:
        temper = factors.noise.temper.numpy()
        ratio = ratio * np.exp(temper * log_noise_ratio(factors.noise, rows.inputs).numpy())
        noise = noise * log_noise_ratio(factors.noise, inputs).exp().numpy()
    if rows.weight is not None:
        ratio = ratio / rows.weight.numpy()[:, None]
    kernel = SCIKIT_LEARN[model.architecture.kernel](model.spectrum.length_scales().numpy())
    degrees = model.degrees()
    columns: list[tuple[Any, ...]] = []
    for target in range(model.n_targets):
        z, ones = targets[:, target], np.ones(len(rows))
        fits = [
            GaussianProcessRegressor(kernel, alpha=ratio[:, target], optimizer=None).fit(known, y)
            for y in (z, ones)
        ]
        means, deviation = zip(*(fit.predict(points, return_std=True) for fit in fits), strict=True)
        mass = ones @ fits[1].alpha_
        constant = ones @ fits[0].alpha_ / mass
        mean = means[0] + constant * (1 - means[1])
        unit = deviation[0] ** 2 + (1 - means[1]) ** 2 / mass
        amplitude, inflation, total = model.signal()[target].item(), 1.0, np.inf
        if degrees is not None:
            q = (z - constant) @ (fits[0].alpha_ - constant * fits[1].alpha_)
            total = degrees[target].item() + len(rows) - 1
            amplitude = (degrees[target].item() * amplitude + q) / total
            inflation = total / (total - 2)
        _, log_slope = factors.output.forward(
            factors.output.inverse(torch.from_numpy(mean)[:, None].expand(-1, model.n_targets))
        )
        step = model.resolution[target].item() * log_slope[:, target].exp().numpy()
        latent = amplitude * unit * inflation
        spread = amplitude * noise[:, target] * model.noise_correction[target].exp().item()
        observation = latent + (spread + step**2 / 12) * inflation
        columns.append((mean, latent, observation, np.full(len(mean), total)))
    first, second, third, last = (
        torch.from_numpy(np.stack(part, axis=-1)) for part in zip(*columns, strict=True)
    )
    return Prediction(first, second, third, None if degrees is None else last)


def without(rows: Rows, row: int) -> Rows:
    """Leave one row out."""
    return rows.map(lambda tensor: torch.cat((tensor[:row], tensor[row + 1 :])))


def spaced(start: float, end: float, n: int) -> Tensor:
    return torch.linspace(start, end, n, dtype=torch.float64)


def row_of(record: RecordT, row: int) -> RecordT:
    """Return one row of a record, as a record of one row."""
    return record.map(itemgetter(slice(row, row + 1)))
