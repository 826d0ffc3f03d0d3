"""Gaussian processes of GPyTorch, which is imported only when one is fitted."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from jaxtyping import Float64

from sswim.base.devices import resolve_device
from sswim.lab.peers.gpytorch_training import Standardised, quiet, seeded
from sswim.lab.peers.protocol import Fitted
from sswim.lab.peers.scales import Scales

DTYPES = {"float32": torch.float32, "float64": torch.float64}
FIRST_ROWS = {"inducing": "the first training rows, then learnt"}


@dataclass(frozen=True)
class _Process(ABC):
    """What the processes have in common: a Matérn-3/2 kernel, length-scales and Adam."""

    libraries: ClassVar[tuple[str, ...]] = ("gpytorch", "torch")
    max_rows: ClassVar[int | None] = None
    dtype: ClassVar[Literal["float32", "float64"]] = "float64"
    details: ClassVar[Mapping[str, Any]] = {}
    """What the settings say beside the fields."""

    def settings(self) -> Mapping[str, Any]:
        """The kernel, and how it is trained."""
        return {
            **{"kernel": "matern32", "ard": True, **self.details, "optimiser": "adam"},
            **asdict(self),
            "dtype": self.dtype,
        }

    def device(self, wanted: str) -> str:
        """Any that PyTorch has."""
        return str(resolve_device(wanted))

    def fit(
        self, x: Float64[np.ndarray, "N D"], y: Float64[np.ndarray, " N"], seed: int, device: str
    ) -> Fitted:
        """Maximise the evidence, or a bound of it, of standardised rows."""
        scales = Scales.of(x, y, self.device(device), DTYPES[self.dtype])
        with quiet(), seeded(seed, scales.device):
            return self._fit(Standardised.of(x, y, scales, seed))

    @abstractmethod
    def _fit(self, rows: Standardised) -> Fitted:
        """Import what does it, and fit."""


@dataclass(frozen=True)
class ExactGP(_Process):
    """The exact Gaussian process, where nothing is random."""

    max_rows: ClassVar[int | None] = 5000
    steps: int = 150
    learning_rate: float = 0.1

    def _fit(self, rows: Standardised) -> Fitted:
        from sswim.lab.peers.exact_gp import fit_exact_gp  # noqa: PLC0415 (an optional dependency)

        return fit_exact_gp(rows, **vars(self))


@dataclass(frozen=True)
class SGPR(_Process):
    """Sparse Gaussian process regression by inducing points, where nothing is random."""

    details: ClassVar[Mapping[str, Any]] = FIRST_ROWS
    n_inducing: int = 512
    steps: int = 150
    learning_rate: float = 0.1

    def _fit(self, rows: Standardised) -> Fitted:
        from sswim.lab.peers.sgpr import fit_sgpr  # noqa: PLC0415 (an optional dependency)

        return fit_sgpr(rows, **vars(self))


@dataclass(frozen=True)
class SVGP(_Process):
    """The sparse process of stochastic variational inference."""

    details: ClassVar[Mapping[str, Any]] = FIRST_ROWS
    n_inducing: int = 512
    epochs: int = 150
    batch: int = 1024
    learning_rate: float = 0.1

    def _fit(self, rows: Standardised) -> Fitted:
        from sswim.lab.peers.svgp import fit_svgp  # noqa: PLC0415 (an optional dependency)

        return fit_svgp(rows, **vars(self))


@dataclass(frozen=True)
class DKL(_Process):
    """Deep kernel learning: a network in front of a kernel interpolated on a grid."""

    dtype: ClassVar[Literal["float32", "float64"]] = "float32"
    widths: tuple[int, ...] = (1000, 500, 50, 2)
    """Of the network's layers; the last is that of the grid."""
    grid_size: int = 100
    steps: int = 150
    learning_rate: float = 0.001

    def _fit(self, rows: Standardised) -> Fitted:
        from sswim.lab.peers.dkl import fit_dkl  # noqa: PLC0415 (an optional dependency)

        return fit_dkl(rows, **vars(self))


@dataclass(frozen=True)
class DSDGP(_Process):
    """The doubly stochastic deep Gaussian process of two layers.

    Its predictive densities are mixtures over samples of the hidden layer.
    """

    dtype: ClassVar[Literal["float32", "float64"]] = "float32"
    details: ClassVar[Mapping[str, Any]] = {"layers": 2, "inducing": "random, then learnt"}
    n_hidden: int = 10
    """Outputs of the hidden layer."""
    n_inducing: int = 128
    """Of each layer."""
    n_samples: int = 10
    """Of the hidden layer, in a step of training and in a prediction."""
    epochs: int = 150
    batch: int = 1024
    learning_rate: float = 0.01

    def _fit(self, rows: Standardised) -> Fitted:
        from sswim.lab.peers.deep_gp import fit_deep_gp  # noqa: PLC0415 (an optional dependency)

        return fit_deep_gp(rows, **vars(self))
