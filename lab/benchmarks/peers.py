"""Shared by the scripts: training steps of sswim and of its peers on the same rows, to be timed.

A training step is one evaluation of the objective with all gradients and one step of the optimiser.
How many steps a method needs is another question, which ``race.py`` answers.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from scripting import DTYPES, DType
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel
from timing import Workload, read_bytes
from torch import Tensor

from sswim.members import Adam, Architecture, Step, start
from sswim.members.model import WarpsName, stack_models
from sswim.members.training import train_batch
from sswim.rows import as_rows

WARM_UP_STEPS, COUNTED_STEPS = 5, 10
"""Numbers of training steps that are not timed (programs are captured there) and that are timed."""
MAX_SECONDS = 3.0
"""Seconds after which a training stops, even if it has done fewer steps."""
SVGP_INDUCING = 512
"""Number of inducing points of SVGP."""
EXACT_GP_MAX_ROWS = 2000
"""Largest number of rows for which an exact GP is timed."""
SGPR_COPIES = 12
"""Approximate number of N×F matrices that a step of SGPR holds in memory at once."""


@dataclass(frozen=True)
class Case:
    """The size of a training step."""

    rows: int
    depth: int
    features: int = 512
    """Number of features F, and of SGPR's inducing points."""
    pseudo: int = 128
    inputs: int = 20
    members: int = 1
    """Number of members, which sswim trains together; peers train one model."""
    dtype: DType = "float64"
    warps: WarpsName = "joint"


@dataclass(frozen=True)
class Data:
    """Standardised rows on a device."""

    x: Tensor
    y: Tensor


class LeftOutError(Exception):
    """Error with the reason why a workload is left out."""


def synthetic(
    n_rows: int,
    n_inputs: int,
    dtype: torch.dtype = torch.float64,
    device: torch.device | str = "cpu",
) -> Data:
    """Return standardised rows of a smooth function with noise, the same in every call."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(n_rows, n_inputs, generator=generator, dtype=torch.float64)
    first, second, third = (x[:, number % n_inputs] for number in range(3))
    noise = 0.3 * torch.randn(n_rows, generator=generator, dtype=torch.float64)
    y = torch.sin(2 * first) + second * third + noise
    x, y = ((values - values.mean(0)) / values.std(0, correction=0) for values in (x, y))
    return Data(x.to(device, dtype), y.to(device, dtype))


def workloads(
    case: Case, device: torch.device, *, peers: bool
) -> Iterator[tuple[str, Workload | str]]:
    """Yield the name of each workload with the workload, or with the reason to leave it out."""
    data = synthetic(case.rows, case.inputs, DTYPES[case.dtype], device)
    builders = {"sswim": sswim_steps, "gram": gram_product}
    if peers:
        builders |= {"sgpr": sgpr_step, "svgp_epoch": svgp_epoch, "exact_gp": exact_gp_step}
    for name, build in builders.items():
        try:
            yield name, build(case, data)
        except LeftOutError as error:
            yield name, str(error)
        except torch.OutOfMemoryError:
            yield name, "its matrices do not fit into the memory of the GPU"


def sswim_steps(case: Case, data: Data) -> Workload:
    """Return a short training by sswim, which returns the seconds of its steps.

    A step is timed from the end of the step before it. So whatever training does between two steps
    counts, and what it does only once does not.
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
    model = models[0] if case.members == 1 else stack_models(models)
    device = data.x.device
    rows = as_rows(data.x, data.y, dtype=data.x.dtype)

    def train() -> list[float]:
        ends: list[float] = []

        def note(member: int, step: Step) -> bool:
            if member == 0:
                if device.type == "cuda":
                    torch.cuda.synchronize(device)
                ends.append(time.perf_counter())
            return ends[-1] - ends[0] > MAX_SECONDS

        optimiser = Adam(steps=WARM_UP_STEPS + COUNTED_STEPS)
        train_batch(model, rows, optimiser=optimiser, callback=note, device=device)
        return counted_seconds(ends)

    return train


def counted_seconds(ends: list[float]) -> list[float]:
    """Return the seconds of the steps after the warm-up; of few steps, those of the later half."""
    seconds = [after - before for before, after in pairwise(ends)]
    return seconds[min(WARM_UP_STEPS, len(seconds) // 2) :]


def gram_product(case: Case, data: Data) -> Workload:
    """Return the bare product ΦᵀΦ of every member, which any method with F features needs."""
    members = (case.members,) if case.members > 1 else ()
    phi = data.x.new_empty(*members, case.rows, case.features)
    phi.uniform_(-1, 1, generator=torch.Generator(data.x.device).manual_seed(0))

    def product() -> None:
        torch.matmul(phi.mT, phi)

    return product


def sgpr_step(case: Case, data: Data) -> Workload:
    """Return a step of sparse GP regression with as many inducing points as features."""
    needed = SGPR_COPIES * case.rows * case.features * data.x.dtype.itemsize
    available = available_bytes()
    if data.x.device.type == "cpu" and available is not None and needed > available:
        raise LeftOutError(
            f"needs about {needed / 2**30:.0f} GiB of memory, of which {available / 2**30:.0f} "
            "are available"
        )
    return require_gpytorch().sgpr_step(data.x, data.y, case.features)


def svgp_epoch(case: Case, data: Data) -> Workload:
    """Return an epoch of stochastic variational inference."""
    svgp = require_gpytorch().SVGP.start(data.x, SVGP_INDUCING)
    return lambda: svgp.epoch(data.x, data.y)


def exact_gp_step(case: Case, data: Data) -> Workload:
    """Return an evaluation of the evidence of scikit-learn's exact GP with its gradient."""
    if case.rows > EXACT_GP_MAX_ROWS:
        raise LeftOutError(f"only up to {EXACT_GP_MAX_ROWS} rows")
    if data.x.device.type != "cpu" or data.x.dtype != torch.float64:
        raise LeftOutError("scikit-learn computes on the CPU in float64")
    scales = [float(case.inputs) ** 0.5] * case.inputs
    kernel = ConstantKernel() * Matern(scales, nu=1.5) + WhiteKernel(0.1)
    gp = GaussianProcessRegressor(kernel, optimizer=None).fit(data.x.numpy(), data.y.numpy())

    def evaluate() -> None:
        theta = gp.kernel_.theta
        gp.log_marginal_likelihood(theta, eval_gradient=True, clone_kernel=False)

    return evaluate


def require_gpytorch() -> Any:
    """Return the module of GPyTorch's GPs; raise LeftOutError if GPyTorch is not installed."""
    try:
        return importlib.import_module("gpytorch_peers")
    except ImportError as error:
        raise LeftOutError(
            f"GPyTorch cannot be imported ({error}); pip install 'sswim-lab[peers]'"
        ) from error


def available_bytes() -> int | None:
    """Return the memory available without swapping; None if the system does not report it."""
    try:
        return read_bytes(Path("/proc/meminfo"), "MemAvailable")
    except OSError:
        return None
