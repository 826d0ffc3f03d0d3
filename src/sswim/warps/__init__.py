"""Warps of inputs and targets, and the noise field."""
