"""Gaussian processes of GPyTorch, which is imported only when one is fitted."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float64

from sswim.baselines.protocol import Fitted
from sswim.training import resolve_device


class ExactGP:
    """The exact Gaussian process of GPyTorch, with one length-scale for each input."""

    libraries = ("gpytorch", "torch")
    max_rows: int | None = 5000
    kernel, steps, learning_rate = "matern32", 150, 0.1

    def settings(self) -> Mapping[str, Any]:
        """The kernel, and how it is trained."""
        return {
            "kernel": self.kernel,
            "ard": True,
            "optimiser": "adam",
            "steps": self.steps,
            "learning_rate": self.learning_rate,
            "dtype": "float64",
        }

    def device(self, wanted: str) -> str:
        """Any that PyTorch has."""
        return str(resolve_device(wanted))

    def fit(
        self, x: Float64[np.ndarray, "N D"], y: Float64[np.ndarray, " N"], seed: int, device: str
    ) -> Fitted:
        """Maximise the evidence; nothing is random."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # importing it under a new PyTorch warns
            from sswim.baselines.exact_gp import fit_exact_gp  # noqa: PLC0415 (an optional dependency)

        return fit_exact_gp(x, y, self.steps, self.learning_rate, self.device(device))
