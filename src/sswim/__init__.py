"""Sparse spectrum warped input measures: nonstationary probabilistic regression."""

__version__ = "0.1.0"
