"""The GP of GPBoost by Vecchia's approximation; the library is imported only by a fit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Bool, Float64

from sswim_lab.peers.protocol import Fitted, Gaussian, StandardisedRows, standardise


@dataclass(frozen=True)
class GPBoost:
    """A GP in which each row depends on its nearest neighbours among the rows before it.

    The rows are in a random order. Distances are in units of the length-scales, and the neighbours
    are chosen anew as these are learnt.
    """

    libraries: ClassVar[tuple[str, ...]] = ("gpboost",)
    max_rows: ClassVar[int | None] = None
    n_neighbors: int = 20
    """Number of neighbours in training, the library's default; predictions use twice as many."""

    def settings(self) -> Mapping[str, Any]:
        """Return the kernel and the number of neighbours."""
        return {
            "kernel": "matern32",
            "ard": True,
            "mean": "constant",
            "approximation": "vecchia",
            "n_neighbors": self.n_neighbors,
        }

    def device(self, wanted: str) -> str:
        """Return the CPU, whatever is wanted."""
        return "cpu"

    def fit(
        self, x: Float64[np.ndarray, "N D"], y: Float64[np.ndarray, " N"], seed: int, device: str
    ) -> Fitted:
        """Maximise the approximate evidence of standardised rows."""
        import gpboost  # noqa: PLC0415 (an optional dependency)

        rows = standardise(x, y, "cpu")
        inputs = rows.x.numpy()
        varying = np.ptp(inputs, axis=0) > 0  # the library refuses a constant input
        model = gpboost.GPModel(
            likelihood="gaussian",
            gp_coords=inputs[:, varying],
            cov_function="matern_ard",
            cov_fct_shape=1.5,
            gp_approx="vecchia",
            num_neighbors=min(self.n_neighbors, len(y) - 1),
            num_parallel_threads=torch.get_num_threads(),
            seed=seed,
        )
        model.fit(y=rows.y.numpy(), X=np.ones((len(y), 1)))
        # The library's default, but it prints a line if there are not so many rows.
        model.set_prediction_data(num_neighbors_pred=min(2 * self.n_neighbors, len(y)))
        return FittedGPBoost(model, rows, varying)


@dataclass(frozen=True)
class FittedGPBoost:
    """A trained GP of GPBoost."""

    model: Any
    rows: StandardisedRows
    varying: Bool[np.ndarray, " D"]
    """Inputs that the GP sees: those with more than one value."""

    def predict(self, x: Float64[np.ndarray, "M D"]) -> Gaussian:
        """Return the predictive densities at rows."""
        predicted = self.model.predict(
            gp_coords_pred=self.rows.inputs(x).numpy()[:, self.varying],
            X_pred=np.ones((len(x), 1)),
            predict_var=True,
            predict_response=True,
        )
        return self.rows.gaussian(torch.tensor(predicted["mu"]), torch.tensor(predicted["var"]))
