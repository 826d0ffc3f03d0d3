from __future__ import annotations

from builders.estimators import few_noise_steps

__all__ = ["few_noise_steps"]  # for every test here
