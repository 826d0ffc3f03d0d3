"""Stationary kernels: frequencies, features of Gaussian measures, exact and additive kernels."""

from sswim.kernels.additive_kernel import draw_additive_frequencies
from sswim.kernels.exact_kernel import (
    N_SCALES,
    correlation,
    cross_kernel,
    expected_cross_kernel,
    kernel_matrix,
    mixture_scales,
    squared_distances,
)
from sswim.kernels.features import (
    Kernel,
    Spectrum,
    draw_frequencies,
    draw_independent_frequencies,
    expected_features,
    expected_quadratic,
    feature_slopes,
    features_and_norm,
    multiply,
    transposed_product,
)

__all__ = [
    "N_SCALES",
    "Kernel",
    "Spectrum",
    "correlation",
    "cross_kernel",
    "draw_additive_frequencies",
    "draw_frequencies",
    "draw_independent_frequencies",
    "expected_cross_kernel",
    "expected_features",
    "expected_quadratic",
    "feature_slopes",
    "features_and_norm",
    "kernel_matrix",
    "mixture_scales",
    "multiply",
    "squared_distances",
    "transposed_product",
]
