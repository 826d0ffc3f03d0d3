"""Relevance of inputs, effects and local metrics of a fitted ensemble."""
