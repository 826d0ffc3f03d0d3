"""The protocol of the methods that are compared, and what several of them need.

That is the device of PyTorch, standardised rows, and restoring the global state that other
libraries change.
"""

from __future__ import annotations

import io
import logging
import random
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float, Float64
from scipy.special import ndtr
from torch import Tensor

from sswim.base.record import Record
from sswim.distributed.processes import resolve_device
from sswim.rows import Scaling, as_measure, as_rows, learn_scaling


@runtime_checkable
class Predictive(Protocol):
    """Predictive densities of M observations, in the units of the target."""

    @property
    def mean(self) -> Float64[np.ndarray, " M"]:
        """Means of the densities."""

    @property
    def variance(self) -> Float64[np.ndarray, " M"]:
        """Variances of the densities."""

    def log_density(self, y: Float64[np.ndarray, " M"]) -> Float64[np.ndarray, " M"]:
        """Return log p(y) of every observation."""

    def interval(
        self, coverage: float
    ) -> tuple[Float64[np.ndarray, " M"], Float64[np.ndarray, " M"]]:
        """Return the ends of the central intervals with a nominal coverage."""

    def crps(self, y: Float64[np.ndarray, " M"]) -> Float64[np.ndarray, " M"]:
        """Return the continuous ranked probability score of every observation."""


@runtime_checkable
class Fitted(Protocol):
    """A fitted model."""

    def predict(self, x: Float64[np.ndarray, "M D"]) -> Predictive:
        """Return the predictive densities at rows."""


@runtime_checkable
class Method(Protocol):
    """A way to fit a model to rows, with every setting fixed."""

    @property
    def libraries(self) -> tuple[str, ...]:
        """Distributions that do the work, whose versions are stored with a result."""

    @property
    def max_rows(self) -> int | None:
        """Largest number of training rows that the method is meant for; None without a limit."""

    def settings(self) -> Mapping[str, Any]:
        """Return the settings that a reader needs to repeat a fit, in types that JSON has."""

    def device(self, wanted: str) -> str:
        """Return the name of the device that is used if this one is wanted."""

    def fit(
        self, x: Float64[np.ndarray, "N D"], y: Float64[np.ndarray, " N"], seed: int, device: str
    ) -> Fitted:
        """Fit a model to rows, without changing the global random state."""


@runtime_checkable
class TunedPerDataSet(Protocol):
    """A method whose settings were published for every data set."""

    def for_data_set(self, name: str) -> Method:
        """Return the method with the settings of a data set."""


@dataclass(frozen=True)
class Gaussian:
    """Gaussian predictive densities."""

    mean: Float64[np.ndarray, " M"]
    variance: Float64[np.ndarray, " M"]

    def log_density(self, y: Float64[np.ndarray, " M"]) -> Float64[np.ndarray, " M"]:
        """Return log p(y) of every observation."""
        error = np.square(y - self.mean) / self.variance
        return -0.5 * (error + np.log(2 * np.pi * self.variance))

    def interval(
        self, coverage: float
    ) -> tuple[Float64[np.ndarray, " M"], Float64[np.ndarray, " M"]]:
        """Return the ends of the central intervals with a nominal coverage."""
        half = NormalDist().inv_cdf(0.5 * (1 + coverage)) * np.sqrt(self.variance)
        return self.mean - half, self.mean + half

    def crps(self, y: Float64[np.ndarray, " M"]) -> Float64[np.ndarray, " M"]:
        """Return σ(z(2Φ(z) − 1) + 2φ(z) − 1/√π), z = (y − mean)/σ, of every observation."""
        deviation = np.sqrt(self.variance)
        z = (y - self.mean) / deviation
        density = np.exp(-0.5 * np.square(z)) / np.sqrt(2 * np.pi)
        return deviation * (z * (2 * ndtr(z) - 1) + 2 * density - 1 / np.sqrt(np.pi))


class TorchMethod:
    """A method that runs on any device of PyTorch."""

    libraries: ClassVar[tuple[str, ...]] = ("torch",)
    max_rows: ClassVar[int | None] = None

    def device(self, wanted: str) -> str:
        """Return the name of the device; ``"auto"`` is CUDA where there is one."""
        return str(resolve_device(wanted))


@dataclass(frozen=True)
class StandardisedRows(Record):
    """Training rows with zero mean and unit spread, on the device that computes."""

    x: Float[Tensor, "N D"]
    y: Float[Tensor, " N"]
    scaling: Scaling
    """Means and spreads of the original rows, in float64."""

    def inputs(self, x: Float64[np.ndarray, "M D"]) -> Float[Tensor, "M D"]:
        """Standardise the inputs of other rows, and move them to the device."""
        measure = as_measure(x).to(device=self.x.device)
        return self.scaling.inputs(measure).mean.to(self.x.dtype)

    def gaussian(self, mean: Float[Tensor, " M"], variance: Float[Tensor, " M"]) -> Gaussian:
        """Return Gaussian densities in the units of the target, from standardised moments."""
        mean, variance = mean.to(torch.float64), variance.to(torch.float64)
        original = self.scaling.original_targets(mean[:, None])[:, 0]
        variance = variance * self.scaling.target_spread.square()
        return Gaussian(original.cpu().numpy(), variance.cpu().numpy())


def standardise(
    x: Float64[np.ndarray, "N D"],
    y: Float64[np.ndarray, " N"],
    device: str,
    dtype: torch.dtype = torch.float64,
) -> StandardisedRows:
    """Standardise training rows; a constant column becomes zeros."""
    rows = as_rows(x, y)
    scaling = learn_scaling(rows)
    rows, place = scaling.rows(rows), torch.device(device)
    return StandardisedRows(
        rows.inputs.mean.to(place, dtype),
        rows.targets[:, 0].to(place, dtype),
        scaling.to(device=place),
    )


@contextmanager
def kept_random_state(seed: int) -> Iterator[None]:
    """Seed the global generators of Python, NumPy and PyTorch, and restore them at the end."""
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002 (the global one)
    try:
        with torch.random.fork_rng():
            random.seed(seed)
            np.random.seed(seed)  # noqa: NPY002
            torch.manual_seed(seed)
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002


@contextmanager
def silenced() -> Iterator[None]:
    """Discard what Python code prints, logs below errors, and warns of."""
    disabled = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with (
            warnings.catch_warnings(),
            redirect_stdout(io.StringIO()),
            redirect_stderr(io.StringIO()),
        ):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)
