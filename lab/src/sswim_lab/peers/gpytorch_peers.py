"""GPs of GPyTorch, which is imported only when one of them is fitted."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from jaxtyping import Float64

from sswim_lab.peers.protocol import Fitted, TorchMethod, standardise

DTYPES = {"float32": torch.float32, "float64": torch.float64}
FIRST_ROWS = {"inducing": "the first training rows, then learnt"}


@dataclass(frozen=True)
class _GPyTorchMethod(TorchMethod):
    """A method with a Matérn-3/2 kernel and a length-scale for each input."""

    libraries: ClassVar[tuple[str, ...]] = ("gpytorch", "torch")
    dtype: ClassVar[Literal["float32", "float64"]] = "float64"
    optimiser: ClassVar[Literal["adam", "l-bfgs"]] = "adam"
    details: ClassVar[Mapping[str, Any]] = {}
    """Settings that are not fields."""
    fit_model: ClassVar[str]
    """Name of the function of ``gpytorch_models`` that fits the model."""

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
            models = importlib.import_module("sswim_lab.peers.gpytorch_models")  # needs GPyTorch
            fitted: Fitted = getattr(models, self.fit_model)(rows, seed, **vars(self))
            return fitted


@dataclass(frozen=True)
class ExactGP(_GPyTorchMethod):
    """The exact GP, where nothing is random."""

    fit_model: ClassVar[str] = "fit_exact_gp"
    max_rows: ClassVar[int | None] = 5000
    steps: int = 150
    learning_rate: float = 0.1


@dataclass(frozen=True)
class WellTrainedGP(_GPyTorchMethod):
    """The exact GP of the highest evidence that several starts reach; nothing is random."""

    fit_model: ClassVar[str] = "fit_best_exact_gp"
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


@dataclass(frozen=True)
class SGPR(_GPyTorchMethod):
    """Sparse GP regression by inducing points, where nothing is random."""

    fit_model: ClassVar[str] = "fit_sgpr"
    details: ClassVar[Mapping[str, Any]] = FIRST_ROWS
    n_inducing: int = 512
    steps: int = 150
    learning_rate: float = 0.1


@dataclass(frozen=True)
class SVGP(_GPyTorchMethod):
    """The sparse GP of stochastic variational inference."""

    fit_model: ClassVar[str] = "fit_svgp"
    details: ClassVar[Mapping[str, Any]] = FIRST_ROWS
    n_inducing: int = 512
    epochs: int = 150
    batch: int = 1024
    """Number of rows of a mini-batch."""
    learning_rate: float = 0.1


@dataclass(frozen=True)
class DKL(_GPyTorchMethod):
    """Deep kernel learning: a network in front of a kernel interpolated on a grid."""

    fit_model: ClassVar[str] = "fit_dkl"
    dtype: ClassVar[Literal["float32", "float64"]] = "float32"
    widths: tuple[int, ...] = (1000, 500, 50, 2)
    """Widths of the network's layers; the last is the dimension of the grid."""
    grid_size: int = 100
    steps: int = 150
    learning_rate: float = 0.001


@dataclass(frozen=True)
class DSDGP(_GPyTorchMethod):
    """The doubly stochastic deep GP of two layers.

    Its predictive densities are mixtures over samples of the hidden layer.
    """

    fit_model: ClassVar[str] = "fit_deep_gp"
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
