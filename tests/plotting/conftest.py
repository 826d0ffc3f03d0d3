from __future__ import annotations

from builders.figures import matplotlib_left_alone

__all__ = ["matplotlib_left_alone"]  # for every test here
