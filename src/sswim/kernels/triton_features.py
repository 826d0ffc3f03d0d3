"""Triton kernels for the Fourier features on a GPU, and for their gradients.

Each takes one pass over memory where plain PyTorch takes many. Triton comes with PyTorch for CUDA
and needs a C compiler; :func:`usable` returns whether both are available. The plain path, with the
equations, is in :mod:`sswim.kernels.features`.
"""

from __future__ import annotations

import inspect
import math
from functools import cache

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.language.extra import libdevice

_ROWS, _COLUMNS = 16, 64
"""Rows and columns of a block of features: the fastest sizes that were tried, in both precisions.
"""

_NUMBERS = 1024
"""Numbers per block in the backward pass, where rows and columns play no role."""


@cache
def usable() -> bool:
    """Return whether Triton kernels can be compiled and run here."""
    try:
        for dtype in (torch.float32, torch.float64):
            one = torch.ones(1, 1, dtype=dtype, device="cuda")
            features = fourier_features(one, one, one, one)
            fourier_features_backward(features, torch.ones_like(one).expand(1, 2), None, True)
        torch.cuda.synchronize()
    except Exception:  # each part of the tool chain has errors of its own
        return False
    return True


def fourier_features(
    mean: Tensor, frequencies: Tensor, variance: Tensor | None, products: Tensor | None
) -> Tensor:
    """Return M^{-1/2} e^{−½vQᵀ} ⊙ [cos mΩᵀ, sin mΩᵀ]."""
    m, d = frequencies.shape[-2:]
    n = mean.shape[-2]
    batch = torch.broadcast_shapes(mean.shape[:-2], frequencies.shape[:-2])
    features = mean.new_empty(*batch, n, 2 * m)
    damped = variance is not None and products is not None
    given = [mean, frequencies]
    given += [mean if variance is None else variance, frequencies if products is None else products]
    tensors = [_with_one_member_axis(tensor, batch) for tensor in given]
    with_strides = [argument for tensor in tensors for argument in (tensor, tensor.stride(0))]
    _features_kernel[(triton.cdiv(n, _ROWS), triton.cdiv(m, _COLUMNS), math.prod(batch))](
        *with_strides,  # the last two tensors are not read unless features are damped
        features,
        n,
        m,
        d,
        tensors[2].shape[-1],
        DAMPED=damped,
        DOUBLE=mean.dtype == torch.float64,
        ROWS=_ROWS,
        COLUMNS=_COLUMNS,
    )
    return features


def fourier_features_backward(
    features: Tensor, gradient: Tensor, norm_gradient: Tensor | None, damped: bool
) -> tuple[Tensor, Tensor | None]:
    """Return p̄, and −½d̄ for damped features.

    p̄ = c ⊙ s̄ − s ⊙ c̄,    d̄ = c ⊙ c̄ + s ⊙ s̄ + 2n̄·(c² + s²)
    """
    *rows, f = features.shape
    phase_gradient = features.new_empty(*rows, f // 2)
    exponent_gradient = torch.empty_like(phase_gradient) if damped else None
    _backward_kernel[(triton.cdiv(phase_gradient.numel(), _NUMBERS),)](
        features,
        gradient.contiguous(),
        features if norm_gradient is None else norm_gradient.contiguous(),
        phase_gradient,
        phase_gradient if exponent_gradient is None else exponent_gradient,
        phase_gradient.numel(),
        f // 2,
        DAMPED=damped,
        NORMED=norm_gradient is not None,
        NUMBERS=_NUMBERS,
    )
    return phase_gradient, exponent_gradient


def _with_one_member_axis(tensor: Tensor, batch: torch.Size) -> Tensor:
    """Return a tensor with a single axis of members; its stride is zero if they share the rows."""
    matrix = tensor.shape[-2:]
    if math.prod(tensor.shape[:-2]) == 1:
        return tensor.reshape(matrix).contiguous().expand(math.prod(batch), *matrix)
    return tensor.expand(*batch, *matrix).reshape(-1, *matrix).contiguous()


def _compiled(function):
    """Compile a Triton kernel from its own source, even if a type checker has wrapped it."""
    return triton.jit(inspect.unwrap(function))


@_compiled
def _features_kernel(
    mean,
    mean_stride,
    frequencies,
    frequencies_stride,
    variance,
    variance_stride,
    products,
    products_stride,
    features,
    n,
    m,
    d,
    e,
    DAMPED: tl.constexpr,
    DOUBLE: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Compute a block of features: ROWS rows and COLUMNS frequencies of one member."""
    precision = tl.float64 if DOUBLE else tl.float32
    member = tl.program_id(2).to(tl.int64)
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    in_rows, in_columns = row < n, column < m
    mean += member * mean_stride
    frequencies += member * frequencies_stride
    phase = tl.zeros((ROWS, COLUMNS), dtype=precision)
    for i in range(d):
        x = tl.load(mean + row * d + i, mask=in_rows, other=0.0)
        w = tl.load(frequencies + column * d + i, mask=in_columns, other=0.0)
        phase += x[:, None] * w[None, :]
    # Computed here, because a number that is passed to a Triton kernel has single precision.
    scale = libdevice.rsqrt(tl.full((ROWS, COLUMNS), m, dtype=precision))
    if DAMPED:
        variance += member * variance_stride
        products += member * products_stride
        exponent = tl.zeros((ROWS, COLUMNS), dtype=precision)
        for i in range(e):
            v = tl.load(variance + row * e + i, mask=in_rows, other=0.0)
            q = tl.load(products + column * e + i, mask=in_columns, other=0.0)
            exponent += v[:, None] * q[None, :]
        scale *= libdevice.exp(-0.5 * exponent)
    if DOUBLE:
        cosine, sine = _cosine_and_sine(phase)
    else:
        cosine, sine = libdevice.cos(phase), libdevice.sin(phase)
    place = features + member * n * 2 * m + row[:, None] * 2 * m + column[None, :]
    inside = in_rows[:, None] & in_columns[None, :]
    tl.store(place, cosine * scale, mask=inside)
    tl.store(place + m, sine * scale, mask=inside)


@_compiled
def _cosine_and_sine(angle):
    """Return cosine and sine in double precision, with one reduction of the angle for both.

    The angle is kπ/2 + r with |r| ≤ π/4 and π/2 in two parts; polynomials of degrees 13 and 14,
    with the usual minimax coefficients, give both functions of r. The library functions take
    longer: each reduces the angle by itself, and for angles of any size.
    """
    k = libdevice.rint(angle * 0.6366197723675814)
    r = angle - k * 1.5707963267948966  # fused, hence exact
    r -= k * 6.123233995736766e-17
    s = r * r
    sine = -2.50507602534068634195e-08 + s * 1.58969099521155010221e-10
    sine = 2.75573137070700676789e-06 + s * sine
    sine = -1.98412698298579493134e-04 + s * sine
    sine = 8.33333333332248946124e-03 + s * sine
    sine = -1.66666666666666324348e-01 + s * sine
    sine = r + r * s * sine
    cosine = 2.08757232129817482790e-09 - s * 1.13596475577881948265e-11
    cosine = -2.75573143513906633035e-07 + s * cosine
    cosine = 2.48015872894767294178e-05 + s * cosine
    cosine = -1.38888888888741095749e-03 + s * cosine
    cosine = 4.16666666666666019037e-02 + s * cosine
    cosine = 1.0 - (0.5 * s - s * s * cosine)
    quadrant = k.to(tl.int64) & 3
    odd = (quadrant & 1) == 1
    first, second = tl.where(odd, sine, cosine), tl.where(odd, cosine, sine)
    first = tl.where(((quadrant + 1) & 2) != 0, -first, first)
    second = tl.where((quadrant & 2) != 0, -second, second)
    return first, second


@_compiled
def _backward_kernel(
    features,
    gradient,
    norm_gradient,
    phase_gradient,
    exponent_gradient,
    total,
    m,
    DAMPED: tl.constexpr,
    NORMED: tl.constexpr,
    NUMBERS: tl.constexpr,
):
    """Compute NUMBERS entries of p̄, and of −½d̄ for damped features."""
    number = tl.program_id(0).to(tl.int64) * NUMBERS + tl.arange(0, NUMBERS)
    inside = number < total
    row = number // m
    place = row * 2 * m + number % m
    cosine = tl.load(features + place, mask=inside)
    sine = tl.load(features + place + m, mask=inside)
    of_cosine = tl.load(gradient + place, mask=inside)
    of_sine = tl.load(gradient + place + m, mask=inside)
    tl.store(phase_gradient + number, cosine * of_sine - sine * of_cosine, mask=inside)
    if DAMPED:
        damping_gradient = cosine * of_cosine + sine * of_sine
        if NORMED:
            n = tl.load(norm_gradient + row, mask=inside)
            damping_gradient += 2 * n * (cosine * cosine + sine * sine)
        tl.store(exponent_gradient + number, -0.5 * damping_gradient, mask=inside)
