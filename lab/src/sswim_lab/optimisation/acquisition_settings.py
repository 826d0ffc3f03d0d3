"""Settings of the acquisition functions, the same for every model."""

N_SAMPLES = 128
"""Posterior samples of the noisy expected improvement."""
N_RESTARTS, N_RAW_SAMPLES = 4, 128
"""Points from which an acquisition function is climbed, and those of which they are the best."""
