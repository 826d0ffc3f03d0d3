"""Data sets."""

from sswim.data.synthetic import nonstationary_signal

__all__ = ["nonstationary_signal"]
