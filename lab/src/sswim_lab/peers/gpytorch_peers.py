"""GPs of GPyTorch, which is imported only when one of them is fitted."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from jaxtyping import Float64

from sswim_lab.peers.protocol import Fitted, StandardisedRows, TorchMethod, standardise

DTYPES = {"float32": torch.float32, "float64": torch.float64}
FIRST_ROWS = {"inducing": "the first training rows, then learnt"}


@dataclass(frozen=True)
class _GPyTorchMethod(TorchMethod, ABC):
    """A method with a Matérn-3/2 kernel and a length-scale for each input."""

    libraries: ClassVar[tuple[str, ...]] = ("gpytorch", "torch")
    dtype: ClassVar[Literal["float32", "float64"]] = "float64"
    optimiser: ClassVar[Literal["adam", "l-bfgs"]] = "adam"
    details: ClassVar[Mapping[str, Any]] = {}
    """Settings that are not fields."""

    def settings(self) -> Mapping[str, Any]:
        """Return the kernel and the settings of its training."""
        return {
            **{"kernel": "matern32", "ard": True, **self.details, "optimiser": self.optimiser},
            **asdict(self),
            "dtype": self.dtype,
        }

    def fit(
        self, x: Float64[np.ndarray, "N D"], y: Float64[np.ndarray, " N"], seed: int, device: str
    ) -> Fitted:
        """Maximise the evidence of standardised rows, or a bound of it."""
        rows = standardise(x, y, self.device(device), DTYPES[self.dtype])
        with quiet(), seeded(seed, rows.x.device):
            return self._fit(rows, seed)

    @abstractmethod
    def _fit(self, rows: StandardisedRows, seed: int) -> Fitted:
        """Import the model and fit it."""


@dataclass(frozen=True)
class ExactGP(_GPyTorchMethod):
    """The exact GP, where nothing is random."""

    max_rows: ClassVar[int | None] = 5000
    steps: int = 150
    learning_rate: float = 0.1

    def _fit(self, rows: StandardisedRows, seed: int) -> Fitted:
        from sswim_lab.peers.gpytorch_models import fit_exact_gp  # noqa: PLC0415 (an optional dependency)

        return fit_exact_gp(rows, seed, **vars(self))


@dataclass(frozen=True)
class WellTrainedGP(_GPyTorchMethod):
    """The exact GP of the highest evidence that several starts reach; nothing is random."""

    max_rows: ClassVar[int | None] = 10_000
    optimiser: ClassVar[Literal["adam", "l-bfgs"]] = "l-bfgs"
    length_scales: tuple[float, ...] = (0.1, 0.5, 2.5)
    """Starts of all length-scales, in units of the square root of the number of inputs."""
    noise: float = 0.1
    """Start of the variance of the noise."""
    least_noise: float = 1e-6
    """Smallest variance of the noise."""
    iterations: int = 100
    """Largest number of iterations from every start."""

    def _fit(self, rows: StandardisedRows, seed: int) -> Fitted:
        from sswim_lab.peers.gpytorch_models import fit_best_exact_gp  # noqa: PLC0415 (as above)

        return fit_best_exact_gp(rows, seed, **vars(self))


@dataclass(frozen=True)
class SGPR(_GPyTorchMethod):
    """Sparse GP regression by inducing points, where nothing is random."""

    details: ClassVar[Mapping[str, Any]] = FIRST_ROWS
    n_inducing: int = 512
    steps: int = 150
    learning_rate: float = 0.1

    def _fit(self, rows: StandardisedRows, seed: int) -> Fitted:
        from sswim_lab.peers.gpytorch_models import fit_sgpr  # noqa: PLC0415 (an optional dependency)

        return fit_sgpr(rows, seed, **vars(self))


@dataclass(frozen=True)
class SVGP(_GPyTorchMethod):
    """The sparse GP of stochastic variational inference."""

    details: ClassVar[Mapping[str, Any]] = FIRST_ROWS
    n_inducing: int = 512
    epochs: int = 150
    batch: int = 1024
    """Number of rows of a mini-batch."""
    learning_rate: float = 0.1

    def _fit(self, rows: StandardisedRows, seed: int) -> Fitted:
        from sswim_lab.peers.gpytorch_models import fit_svgp  # noqa: PLC0415 (an optional dependency)

        return fit_svgp(rows, seed, **vars(self))


@dataclass(frozen=True)
class DKL(_GPyTorchMethod):
    """Deep kernel learning: a network in front of a kernel interpolated on a grid."""

    dtype: ClassVar[Literal["float32", "float64"]] = "float32"
    widths: tuple[int, ...] = (1000, 500, 50, 2)
    """Widths of the network's layers; the last is the dimension of the grid."""
    grid_size: int = 100
    steps: int = 150
    learning_rate: float = 0.001

    def _fit(self, rows: StandardisedRows, seed: int) -> Fitted:
        from sswim_lab.peers.gpytorch_models import fit_dkl  # noqa: PLC0415 (an optional dependency)

        return fit_dkl(rows, seed, **vars(self))


@dataclass(frozen=True)
class DSDGP(_GPyTorchMethod):
    """The doubly stochastic deep GP of two layers.

    Its predictive densities are mixtures over samples of the hidden layer.
    """

    dtype: ClassVar[Literal["float32", "float64"]] = "float32"
    details: ClassVar[Mapping[str, Any]] = {"layers": 2, "inducing": "random, then learnt"}
    n_hidden: int = 10
    """Number of outputs of the hidden layer."""
    n_inducing: int = 128
    """Number of inducing points of each layer."""
    n_samples: int = 10
    """Number of samples of the hidden layer, in a step of training and in a prediction."""
    epochs: int = 150
    batch: int = 1024
    """Number of rows of a mini-batch."""
    learning_rate: float = 0.01

    def _fit(self, rows: StandardisedRows, seed: int) -> Fitted:
        from sswim_lab.peers.gpytorch_models import fit_deep_gp  # noqa: PLC0415 (an optional dependency)

        return fit_deep_gp(rows, seed, **vars(self))


@contextmanager
def quiet() -> Iterator[None]:
    """Suppress warnings: GPyTorch warns under a new PyTorch, and of added jitter."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Seed the global random state, which GPyTorch draws from, and restore it at the end."""
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        torch.default_generator.manual_seed(seed)
        if devices:
            with torch.cuda.device(device):
                torch.cuda.manual_seed(seed)
        yield
