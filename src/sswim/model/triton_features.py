"""The features on a GPU in one pass over memory each way, where PyTorch would take many.

Written in Triton, which comes with PyTorch for CUDA and needs a C compiler; :func:`usable` says
whether both are at hand. The plain path is in :mod:`sswim.model.features`, with the equations.
"""

from __future__ import annotations

import math
from functools import cache

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.language.extra import libdevice

_ROWS, _COLUMNS = 16, 64
"""Of a block: the fastest of those tried, in both precisions."""

_NUMBERS = 1024
"""Of a block without columns."""


@cache
def usable() -> bool:
    """Whether kernels can be compiled and run here."""
    try:
        for dtype in (torch.float32, torch.float64):
            one = torch.ones(1, 1, dtype=dtype, device="cuda")
            waves_backward(waves(one, one, one, one), torch.ones_like(one).expand(1, 2), None, True)
        torch.cuda.synchronize()
    except Exception:  # each part of the tool chain has errors of its own
        return False
    return True


def waves(
    mean: Tensor, frequencies: Tensor, variance: Tensor | None, forms: Tensor | None
) -> Tensor:
    """M^{-1/2} e^{−½vQᵀ} ⊙ [cos mΩᵀ, sin mΩᵀ]."""
    m, d = frequencies.shape[-2:]
    n = mean.shape[-2]
    batch = torch.broadcast_shapes(mean.shape[:-2], frequencies.shape[:-2])
    mean, frequencies = _flat(mean, batch), _flat(frequencies, batch)
    features = mean.new_empty(*batch, n, 2 * m)
    damped = variance is not None and forms is not None
    if damped:
        assert variance is not None
        assert forms is not None
        variance, forms = _flat(variance, batch), _flat(forms, batch)
    else:
        variance, forms = mean, frequencies  # not read
    _waves[(triton.cdiv(n, _ROWS), triton.cdiv(m, _COLUMNS), math.prod(batch))](
        mean,
        mean.stride(0),
        frequencies,
        frequencies.stride(0),
        variance,
        variance.stride(0),
        forms,
        forms.stride(0),
        features,
        n,
        m,
        d,
        variance.shape[-1],
        DAMPED=damped,
        DOUBLE=mean.dtype == torch.float64,
        ROWS=_ROWS,
        COLUMNS=_COLUMNS,
    )
    return features


def waves_backward(
    features: Tensor, gradient: Tensor, of_norm: Tensor | None, damped: bool
) -> tuple[Tensor, Tensor | None]:
    """p̄ = c ⊙ s̄ − s ⊙ c̄, and −½d̄ with d̄ = c ⊙ c̄ + s ⊙ s̄ + 2n̄·(c² + s²) where damped."""
    *rows, f = features.shape
    phase = features.new_empty(*rows, f // 2)
    exponent = torch.empty_like(phase) if damped else None
    _waves_backward[(triton.cdiv(phase.numel(), _NUMBERS),)](
        features,
        gradient.contiguous(),
        features if of_norm is None else of_norm.contiguous(),
        phase,
        phase if exponent is None else exponent,
        phase.numel(),
        f // 2,
        DAMPED=damped,
        NORMED=of_norm is not None,
        NUMBERS=_NUMBERS,
    )
    return phase, exponent


def _flat(tensor: Tensor, batch: torch.Size) -> Tensor:
    """With one axis of members in front, along which the stride is zero where they share."""
    matrix = tensor.shape[-2:]
    if math.prod(tensor.shape[:-2]) == 1:
        return tensor.reshape(matrix).contiguous().expand(math.prod(batch), *matrix)
    return tensor.expand(*batch, *matrix).reshape(-1, *matrix).contiguous()


@triton.jit
def _waves(
    mean,
    mean_stride,
    frequencies,
    frequencies_stride,
    variance,
    variance_stride,
    forms,
    forms_stride,
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
    kind = tl.float64 if DOUBLE else tl.float32
    member = tl.program_id(2).to(tl.int64)
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    in_rows, in_columns = row < n, column < m
    mean += member * mean_stride
    frequencies += member * frequencies_stride
    phase = tl.zeros((ROWS, COLUMNS), dtype=kind)
    for i in range(d):
        x = tl.load(mean + row * d + i, mask=in_rows, other=0.0)
        w = tl.load(frequencies + column * d + i, mask=in_columns, other=0.0)
        phase += x[:, None] * w[None, :]
    # Computed here, because a number that is passed to a kernel has single precision.
    size = libdevice.rsqrt(tl.full((ROWS, COLUMNS), m, dtype=kind))
    if DAMPED:
        variance += member * variance_stride
        forms += member * forms_stride
        exponent = tl.zeros((ROWS, COLUMNS), dtype=kind)
        for i in range(e):
            v = tl.load(variance + row * e + i, mask=in_rows, other=0.0)
            q = tl.load(forms + column * e + i, mask=in_columns, other=0.0)
            exponent += v[:, None] * q[None, :]
        size *= libdevice.exp(-0.5 * exponent)
    if DOUBLE:
        cosine, sine = _cosine_and_sine(phase)
    else:
        cosine, sine = libdevice.cos(phase), libdevice.sin(phase)
    place = features + member * n * 2 * m + row[:, None] * 2 * m + column[None, :]
    inside = in_rows[:, None] & in_columns[None, :]
    tl.store(place, cosine * size, mask=inside)
    tl.store(place + m, sine * size, mask=inside)


@triton.jit
def _cosine_and_sine(angle):
    """Both in double precision for the price of one: a common reduction to |r| ≤ π/4.

    With angle = kπ/2 + r, π/2 in two parts, and Taylor series with the coefficients of the usual
    minimax polynomials of degrees 13 and 14. The library reduces the angle for each of its two
    functions, and for angles of any size.
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


@triton.jit
def _waves_backward(
    features,
    gradient,
    of_norm,
    phase,
    exponent,
    total,
    m,
    DAMPED: tl.constexpr,
    NORMED: tl.constexpr,
    NUMBERS: tl.constexpr,
):
    number = tl.program_id(0).to(tl.int64) * NUMBERS + tl.arange(0, NUMBERS)
    inside = number < total
    row = number // m
    place = row * 2 * m + number % m
    cosine = tl.load(features + place, mask=inside)
    sine = tl.load(features + place + m, mask=inside)
    of_cosine = tl.load(gradient + place, mask=inside)
    of_sine = tl.load(gradient + place + m, mask=inside)
    tl.store(phase + number, cosine * of_sine - sine * of_cosine, mask=inside)
    if DAMPED:
        total_slope = cosine * of_cosine + sine * of_sine
        if NORMED:
            n = tl.load(of_norm + row, mask=inside)
            total_slope += 2 * n * (cosine * cosine + sine * sine)
        tl.store(exponent + number, -0.5 * total_slope, mask=inside)
