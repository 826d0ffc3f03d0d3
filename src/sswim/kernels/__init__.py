"""Kernels, their frequencies and their features."""
