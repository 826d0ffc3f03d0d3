"""Tuned defaults of pytabkit (Holzmüller, Grinsztajn and Steinwart, NeurIPS 2024, and later).

The library is imported only by a fit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float64

from sswim.base.devices import resolve_device
from sswim_lab.peers.global_state import kept_random_state, silenced
from sswim_lab.peers.held_out_rows import HELD_OUT_VARIANCE, ConstantVariance, hold_out_tenth
from sswim_lab.peers.protocol import Fitted, Gaussian


@dataclass(frozen=True)
class Pytabkit:
    """A regressor of pytabkit with its defaults; it selects its best epoch on a held-out tenth."""

    max_rows: ClassVar[int | None] = None
    estimator: str
    """Name of the class."""
    libraries: tuple[str, ...] = ("pytabkit", "torch")
    runs_on_gpu: bool = True
    changes: Mapping[str, Any] = field(default_factory=dict)
    """Arguments that differ from the library's defaults."""

    def settings(self) -> Mapping[str, Any]:
        """Return the name of the class, and what differs from its defaults."""
        return {"estimator": self.estimator, **self.changes, "density": HELD_OUT_VARIANCE}

    def device(self, wanted: str) -> str:
        """Return the device; ``"auto"`` is CUDA where there is one and the method can use it."""
        return str(resolve_device(wanted)) if self.runs_on_gpu else "cpu"

    def fit(
        self, x: Float64[np.ndarray, "N D"], y: Float64[np.ndarray, " N"], seed: int, device: str
    ) -> Fitted:
        """Train on nine tenths of the rows, and validate on the others."""
        with kept_random_state(seed), silenced():
            import pytabkit  # noqa: PLC0415 (an optional dependency, which is slow to import)

            rows = hold_out_tenth(x, y, seed)
            model = getattr(pytabkit, self.estimator)(
                device=self.device(device),
                random_state=seed,
                n_threads=torch.get_num_threads(),
                **self.changes,
            )
            model.fit(rows.x, rows.y, X_val=rows.held_out_x, y_val=rows.held_out_y)
            return FittedPytabkit(ConstantVariance.from_held_out(model, rows), seed)


@dataclass(frozen=True)
class FittedPytabkit:
    """A trained regressor of pytabkit."""

    fitted: ConstantVariance
    seed: int

    def predict(self, x: Float64[np.ndarray, "M D"]) -> Gaussian:
        """Return the predictive densities at rows."""
        with kept_random_state(self.seed), silenced():
            return self.fitted.predict(x)
