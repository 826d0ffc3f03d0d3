"""The work of this package and of its peers on the same rows, each as something to be timed.

One evaluation with all gradients and a step of the optimiser is what training is made of; how many
steps a method wants is another question, which ``race.py`` asks.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import torch
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel
from timing import Work
from torch import Tensor

from sswim import Adam, Architecture, Step, as_rows, start
from sswim.model.architecture import WarpsName
from sswim.model.member_batch import stack
from sswim.training.training import train_batch

LEFT_OUT, COUNTED = 5, 10
"""Steps of a training before the first that counts (programs are captured there), and after it."""
ENOUGH_SECONDS = 3.0
"""A training that has gone on for so long ends before these."""
SVGP_INDUCING = 512
EXACT_ROWS = 2000
"""The most that an exact process is asked for."""
SGPR_COPIES = 12
"""Of N×F numbers that a step of SGPR has in memory at once, about."""

DType = Literal["float64", "float32"]
DTYPES: dict[DType, torch.dtype] = {"float64": torch.float64, "float32": torch.float32}


@dataclass(frozen=True)
class Case:
    """The size of a training step."""

    rows: int
    depth: int
    features: int = 512
    """F, also the number of SGPR's inducing points."""
    pseudo: int = 128
    inputs: int = 20
    members: int = 1
    """Trained together by this package; peers train one."""
    dtype: DType = "float64"
    warps: WarpsName = "joint"


@dataclass(frozen=True)
class Data:
    """Standardised rows on a device."""

    x: Tensor
    y: Tensor


class LeftOutError(Exception):
    """Says why a work is not done."""


def synthetic(
    n_rows: int,
    n_inputs: int,
    dtype: torch.dtype = torch.float64,
    device: torch.device | str = "cpu",
) -> Data:
    """A smooth function of a few normal inputs, and noise; always the same."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(n_rows, n_inputs, generator=generator, dtype=torch.float64)
    first, second, third = (x[:, number % n_inputs] for number in range(3))
    noise = 0.3 * torch.randn(n_rows, generator=generator, dtype=torch.float64)
    y = torch.sin(2 * first) + second * third + noise
    x, y = ((values - values.mean(0)) / values.std(0, correction=0) for values in (x, y))
    return Data(x.to(device, dtype), y.to(device, dtype))


def works(case: Case, device: torch.device, *, peers: bool) -> Iterator[tuple[str, Work | str]]:
    """What is to be timed by name, or why it is left out."""
    data = synthetic(case.rows, case.inputs, DTYPES[case.dtype], device)
    builders = {"sswim": sswim_steps, "gram": gram}
    if peers:
        builders |= {"sgpr": sgpr_step, "svgp_epoch": svgp_epoch, "exact_gp": exact_gp_step}
    for name, build in builders.items():
        try:
            yield name, build(case, data)
        except LeftOutError as error:
            yield name, str(error)
        except torch.OutOfMemoryError:
            yield name, "its matrices do not fit into the memory of the GPU"


def sswim_steps(case: Case, data: Data) -> Work:
    """A few steps of training as ``sswim.training.training`` does them, timed from the end of each.

    So whatever training does between two steps counts, and what it does once does not.
    """
    architecture = Architecture(
        depth=case.depth,
        n_frequencies=case.features // 2,
        n_pseudo=case.pseudo,
        warps=case.warps,
    )
    generator = torch.Generator().manual_seed(0)
    sample = data.x[:10_000]
    models = [start(architecture, sample, 1, generator) for _ in range(case.members)]
    model = models[0] if case.members == 1 else stack(models)
    device = data.x.device
    rows = as_rows(data.x, data.y, dtype=data.x.dtype)

    def train() -> list[float]:
        ended: list[float] = []

        def note(member: int, step: Step) -> bool:
            if member == 0:
                if device.type == "cuda":
                    torch.cuda.synchronize(device)
                ended.append(time.perf_counter())
            return ended[-1] - ended[0] > ENOUGH_SECONDS

        optimiser = Adam(steps=LEFT_OUT + COUNTED)
        train_batch(model, rows, optimiser=optimiser, callback=note, device=device)
        return counted(ended)

    return train


def counted(ended: list[float]) -> list[float]:
    """The seconds of the steps that count, from when each ended; of few steps the later half."""
    seconds = [after - before for before, after in pairwise(ended)]
    return seconds[min(LEFT_OUT, len(seconds) // 2) :]


def gram(case: Case, data: Data) -> Work:
    """The bare product ΦᵀΦ of every member, which no method with F features can do without."""
    members = (case.members,) if case.members > 1 else ()
    phi = data.x.new_empty(*members, case.rows, case.features)
    phi.uniform_(-1, 1, generator=torch.Generator(data.x.device).manual_seed(0))

    def product() -> None:
        torch.matmul(phi.mT, phi)

    return product


def sgpr_step(case: Case, data: Data) -> Work:
    """A step of sparse Gaussian process regression with as many inducing points as features."""
    needed = SGPR_COPIES * case.rows * case.features * data.x.dtype.itemsize
    available = available_bytes()
    if data.x.device.type == "cpu" and available is not None and needed > available:
        raise LeftOutError(
            f"needs about {needed / 2**30:.0f} GiB of memory, and {available / 2**30:.0f} are free"
        )
    return require_gpytorch().sgpr_step(data.x, data.y, case.features)


def svgp_epoch(case: Case, data: Data) -> Work:
    """An epoch of stochastic variational inference."""
    process = require_gpytorch().SVGP.start(data.x, SVGP_INDUCING)
    return lambda: process.epoch(data.x, data.y)


def exact_gp_step(case: Case, data: Data) -> Work:
    """The evidence of an exact process of scikit-learn and its gradient."""
    if case.rows > EXACT_ROWS:
        raise LeftOutError(f"only up to {EXACT_ROWS} rows")
    if data.x.device.type != "cpu" or data.x.dtype != torch.float64:
        raise LeftOutError("scikit-learn computes on the CPU in float64")
    scales = [float(case.inputs) ** 0.5] * case.inputs
    kernel = ConstantKernel() * Matern(scales, nu=1.5) + WhiteKernel(0.1)
    process = GaussianProcessRegressor(kernel, optimizer=None).fit(data.x.numpy(), data.y.numpy())

    def evaluate() -> None:
        theta = process.kernel_.theta
        process.log_marginal_likelihood(theta, eval_gradient=True, clone_kernel=False)

    return evaluate


def require_gpytorch() -> Any:
    """The processes of GPyTorch, if it is installed."""
    try:
        return importlib.import_module("gpytorch_peers")
    except ImportError as error:
        raise LeftOutError(
            f"GPyTorch cannot be imported ({error}); pip install sswim[baselines]"
        ) from error


def available_bytes() -> int | None:
    """Memory that new work can have without swapping; None where the system does not say."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    [line] = [line for line in lines if line.startswith("MemAvailable:")]
    return 1024 * int(line.split()[1])
