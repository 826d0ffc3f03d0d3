"""Bayesian optimisation: how fast methods find the minimum of expensive functions."""
