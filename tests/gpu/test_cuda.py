"""Computations on a GPU give the results of a CPU. Skipped where there is no GPU."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from builders.distributed_fits import SAMPLE_ROWS, assert_same, fit_arrays, fit_shards
from builders.estimators import make_rows, small
from builders.models import (
    DENSITIES,
    SMALL,
    gradients,
    normal,
    relative_error,
    small_model,
    small_rows,
)
from builders.neighbours import neighbour_model
from builders.posteriors import KINDS, far_points, far_rows, small_ensemble
from builders.processes import run_processes
from torch import Tensor

from sswim import load
from sswim.base.cholesky import solve_and_invert
from sswim.distributed.processes import ALONE, Processes, Share
from sswim.estimator import make_estimator
from sswim.kernels.features import features_and_norm
from sswim.members import condition
from sswim.members import training as cuda_graph
from sswim.members.linear_regression import total_statistics
from sswim.members.model import Architecture, WarpsName, stack_models
from sswim.members.neighbour_member import NeighbourMember
from sswim.members.neighbour_training import PoolSource, neighbour_objective
from sswim.members.objective import (
    EVIDENCE,
    MAP,
    OBJECTIVES,
    Objective,
    backward,
    chunk_size,
    graph_bytes_per_row,
    one_pass,
)
from sswim.members.start import start
from sswim.members.training import Adam, train, train_batch
from sswim.rows import ArraySource, Measure, Stream, as_rows, no_scaling, summary

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]
CUDA = torch.device("cuda")


@pytest.mark.parametrize("objective", OBJECTIVES.values(), ids=OBJECTIVES.keys())
@pytest.mark.parametrize("depth", [0, 1, 2])
@pytest.mark.parametrize("density", DENSITIES.values(), ids=DENSITIES.keys())
def test_value_and_gradient_are_those_of_the_cpu(
    objective: Objective, depth: int, density: dict[str, Any], generator: torch.Generator
) -> None:
    rows = small_rows(generator, n_targets=2, weighted=True, uncertain=True)
    model = small_model(rows, generator, depth=depth, **density)
    value = backward(model, rows, objective).item()
    expected = gradients(model)
    model.to(CUDA)
    for size in (7, len(rows)):
        model.zero_grad()
        on_gpu = backward(model, rows.to(device=CUDA), objective, size).item()
        assert on_gpu == pytest.approx(value, rel=1e-10)
        for name, gradient in gradients(model).items():
            assert relative_error(gradient.cpu(), expected[name]) < 1e-8, name


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_training_and_predictions_are_close_to_those_of_the_cpu(
    dtype: torch.dtype, generator: torch.Generator
) -> None:
    rows = small_rows(generator, n=200, dtype=dtype)
    model = start(SMALL, rows.inputs.mean, 1, generator)
    other = copy.deepcopy(model)
    train(model, rows, MAP, Adam(steps=30), device="cpu")
    train(other, rows, MAP, Adam(steps=30), device="auto")
    assert other.log_noise.device.type == "cuda"
    inputs = Measure(normal(generator, 50, 3).to(dtype))
    expected = condition(model, rows).predict(inputs)
    ours = condition(other, rows.to(device=CUDA)).predict(inputs.to(device=CUDA))
    tolerance = 1e-2 if dtype == torch.float32 else 1e-6
    assert torch.allclose(ours.mean.cpu(), expected.mean, atol=tolerance)
    ratio = ours.observation_variance.cpu() / expected.observation_variance
    assert (ratio - 1).abs().max() < tolerance


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("kind", ["points", "diagonal", "full"])
@pytest.mark.parametrize("shared", [False, True])
def test_triton_kernels_compute_what_the_plain_path_computes(
    dtype: torch.dtype, kind: str, shared: bool, generator: torch.Generator
) -> None:
    """Values and gradients, for sizes that fill no block, and also for large phases."""
    from sswim.kernels import triton_features  # noqa: PLC0415 (it needs Triton)

    if not triton_features.usable():
        pytest.skip("no compiler for Triton kernels")
    members = () if shared else (2,)
    mean = 30 * normal(generator, *members, 50, 3)
    variance: dict[str, torch.Tensor | None] = {
        "points": None,
        "diagonal": normal(generator, *members, 50, 3).square(),
        "full": (root := normal(generator, *members, 50, 3, 3)) @ root.mT,
    }
    given = [normal(generator, 2, 70, 3), mean, variance[kind]]
    weights = normal(generator, 2, 50, 140), normal(generator, 2, 50, 1)

    def run(device: torch.device, dtype: torch.dtype) -> list[torch.Tensor]:
        leaves = [
            None if each is None else each.to(device, dtype).requires_grad_() for each in given
        ]
        frequencies, mean, variance = leaves
        assert frequencies is not None
        assert mean is not None
        features, norm = features_and_norm(frequencies, Measure(mean, variance))
        value = (features * weights[0].to(features)).sum()
        if norm is not None:
            value = value + (norm * weights[1].to(features)).sum()
        value.backward()
        results = [features.detach()] + [leaf.grad for leaf in leaves if leaf is not None]
        return [each.cpu().double() for each in results if each is not None]

    tolerance = 1e-12 if dtype == torch.float64 else 1e-4
    for ours, expected in zip(
        run(CUDA, dtype), run(torch.device("cpu"), torch.float64), strict=True
    ):
        assert relative_error(ours, expected) < tolerance


@pytest.mark.parametrize("objective", OBJECTIVES.values(), ids=OBJECTIVES.keys())
@pytest.mark.parametrize("density", DENSITIES.values(), ids=DENSITIES.keys())
@pytest.mark.parametrize("n_members", [1, 3])
def test_recorded_steps_are_the_steps(
    objective: Objective,
    density: dict[str, Any],
    n_members: int,
    generator: torch.Generator,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = small_rows(generator, n=200, weighted=True)
    members = [small_model(rows, generator, **density) for _ in range(n_members)]
    histories = []
    for records in (True, False):
        model = stack_models([copy.deepcopy(member) for member in members])
        replays = 0
        original = cuda_graph.RecordedStep.replay

        def replay(self: cuda_graph.RecordedStep) -> list[float] | None:
            nonlocal replays
            replays += 1
            return original(self) if records else None  # noqa: B023

        monkeypatch.setattr(cuda_graph.RecordedStep, "replay", replay)
        trainings = train_batch(model, rows, objective, Adam(steps=10))
        monkeypatch.setattr(cuda_graph.RecordedStep, "replay", original)
        assert replays == 10
        histories.append([[step.value for step in each.history] for each in trainings])
    assert np.allclose(histories[0], histories[1], rtol=1e-9)


def test_a_recorded_step_that_fails_is_taken_with_jitter(generator: torch.Generator) -> None:
    """All rows are equal, so that without jitter ΦᵀΦ + λI is singular for a tiny λ."""
    rows = as_rows(torch.ones(200, 3), torch.ones(200))
    model = start(Architecture(depth=0, n_frequencies=20), normal(generator, 50, 3), 1, generator)
    with torch.no_grad():
        model.log_noise.fill_(-60.0)
    [training] = train_batch(model, rows, EVIDENCE, Adam(steps=5, learning_rate=1e-6))
    assert len(training.history) == 6
    assert all(np.isfinite(step.value) for step in training.history)


@pytest.mark.parametrize("size", [5, 64, 65, 200, 333])
def test_inverses_by_halves(size: int, generator: torch.Generator) -> None:
    root = normal(generator, 3, size, 2 * size).to(CUDA)
    matrix = root @ root.mT
    vector = root[..., 0]
    solution, inverse = solve_and_invert(torch.linalg.cholesky(matrix), vector)
    assert relative_error(inverse, torch.linalg.inv(matrix)) < 1e-9
    assert relative_error(solution, torch.linalg.solve(matrix, vector)) < 1e-9


@pytest.mark.parametrize("depth", [0, 1, 2])
@pytest.mark.parametrize("warps", ["joint", "separate"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("uncertain", [False, True])
@pytest.mark.parametrize("density", DENSITIES.values(), ids=DENSITIES.keys())
def test_the_memory_of_a_graph_is_foreseen(
    depth: int,
    warps: WarpsName,
    dtype: torch.dtype,
    uncertain: bool,
    density: dict[str, Any],
    generator: torch.Generator,
) -> None:
    """The estimate that decides between one pass and two is never too low, nor twice too high."""
    architecture = Architecture(depth=depth, warps=warps, **density)
    x = normal(generator, 50_000, 20)
    variance = 0.01 * torch.ones_like(x) if uncertain else None
    rows = as_rows(x, x.sum(1).sin(), x_variance=variance, dtype=dtype).to(device=CUDA)
    model = start(architecture, x[:1000], 1, generator).to(CUDA)
    for _ in range(2):  # the first includes workspaces of the libraries
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        one_pass(model, rows, MAP).backward()
        measured = (torch.cuda.max_memory_allocated() - before) / len(rows)
        model.zero_grad()
    foreseen = graph_bytes_per_row(architecture, rows.inputs)
    print(f"depth {depth}, {dtype}, {uncertain}: {measured:.0f} bytes per row, {foreseen} foreseen")
    assert measured < foreseen < 2 * measured


def test_rows_that_do_not_fit_are_cut(
    generator: torch.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = small_rows(generator, n=5000).to(device=CUDA)
    torch.cuda.empty_cache()
    assert chunk_size(Architecture(), rows, 1) >= 5000
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (2**27, 2**37))
    assert 1000 <= chunk_size(Architecture(), rows, 1) < 5000


@pytest.mark.parametrize("density", DENSITIES.values(), ids=DENSITIES.keys())
def test_the_estimator_fits_predicts_and_saves(density: dict[str, Any], tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    x = random.normal(size=(200, 2))
    y = np.stack([np.sin(x[:, 0]), x[:, 1]], axis=1)
    settings: dict[str, Any] = {"depth": 1, "n_components": 64, "n_pseudo": 8, "max_iter": 20}
    settings |= {"random_state": 0} | density
    on_gpu = make_estimator(**settings, n_members=2, device="cuda").fit(x, y)
    on_cpu = make_estimator(**settings, n_members=2, device="cpu").fit(x, y)
    for uncertainty in (None, 0.1):
        ours, theirs = (m.predict(x, return_std=True, X_std=uncertainty) for m in (on_gpu, on_cpu))
        assert np.allclose(ours, theirs, atol=1e-5)
    assert np.allclose(on_gpu.sample_y(x, 3), on_cpu.sample_y(x, 3), atol=1e-4)
    assert np.allclose(on_gpu.predict_interval(x), on_cpu.predict_interval(x), atol=1e-5)
    assert np.allclose(on_gpu.loo_predict(), on_cpu.loo_predict(), atol=1e-5)
    for method in ("predict_quantiles", "predict_noise"):
        assert np.allclose(getattr(on_gpu, method)(x), getattr(on_cpu, method)(x), atol=1e-4)
    for method in ("log_density", "cdf"):
        assert np.allclose(getattr(on_gpu, method)(x, y), getattr(on_cpu, method)(x, y), atol=1e-3)
    assert np.allclose(on_gpu.warp_targets(y), on_cpu.warp_targets(y), atol=1e-4)
    on_gpu.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert np.array_equal(loaded.predict(x), on_gpu.predict(x))
    assert np.allclose(
        on_gpu.partial_fit(x, y).predict(x), on_cpu.partial_fit(x, y).predict(x), atol=1e-5
    )


CASES: dict[str, dict[str, Any]] = {
    "plain": {"depth": 0},
    "warped": {"depth": 1, "noise": "input-dependent", "output_warp": "tanh"},
}


@pytest.mark.parametrize("changes", CASES.values(), ids=CASES.keys())
@pytest.mark.parametrize("uncertain", [False, True], ids=["exact", "uncertain"])
def test_predictions_by_neighbours(
    changes: dict[str, Any], uncertain: bool, generator: torch.Generator
) -> None:
    """All rows are neighbours; of fewer, the far ones depend on the last bits of points."""
    rows = small_rows(generator, 23, 2, weighted=True, uncertain=uncertain)
    inputs = Measure(normal(generator, 11, 3))
    blurred = Measure(inputs.mean, input_variance=0.1 * normal(generator, 11, 3).square())
    model = neighbour_model(rows, generator, **changes)
    first, second = rows.map(lambda t: t[:9]), rows.map(lambda t: t[9:])
    found = []
    for device in (torch.device("cpu"), CUDA):
        predictor = NeighbourMember.condition_on(
            copy.deepcopy(model).to(device), first.to(device=device)
        )
        predictor = predictor.update(second.to(device=device))
        at, around = inputs.to(device=device), blurred.to(device=device)
        draws = predictor.sample(3, torch.Generator().manual_seed(0))
        every = [
            *predictor.predict(at).tensors(),
            *predictor.predict(around).tensors(),
            *predictor.leave_one_out(rows.to(device=device)).tensors(),
            predictor.covariance(at),
            draws(at),
        ]
        found.append([tensor.cpu() for tensor in every])
    for ours, theirs in zip(found[1], found[0], strict=True):
        assert torch.allclose(ours, theirs, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("changes", CASES.values(), ids=CASES.keys())
def test_the_objective_of_neighbours_and_its_gradient(
    changes: dict[str, Any], generator: torch.Generator
) -> None:
    rows = small_rows(generator, 40, 2, weighted=True)
    model = stack_models([neighbour_model(rows, generator, 8, **changes) for _ in range(2)])
    pool = PoolSource(rows, [torch.arange(40), torch.arange(35)], [0, 1]).draw(model, 0, 30)
    on_gpu = copy.deepcopy(model).to(CUDA)
    values = [
        neighbour_objective(model, rows, pool),
        neighbour_objective(on_gpu, rows.to(device=CUDA), pool.to(device=CUDA)),
    ]
    for value in values:
        value.sum().backward()
    assert torch.allclose(values[1].cpu(), values[0], rtol=1e-9)
    theirs = gradients(model)
    for name, gradient in gradients(on_gpu).items():
        assert relative_error(gradient.cpu(), theirs[name]) < 1e-6, name


@pytest.mark.parametrize("n_inputs", [2, 12])
def test_a_fit_by_neighbours_is_updated_saved_and_loaded(n_inputs: int, tmp_path: Path) -> None:
    x, y = make_rows(3000, n_inputs)
    settings: dict[str, Any] = {"depth": 1, "n_neighbors": 32, "max_iter": 40, "random_state": 0}
    model = make_estimator(**settings, device="cuda").fit(x[:2500], y[:2500])
    model.partial_fit(x[:5], y[:5])  # copies, which are merged
    model.save(tmp_path / "model")
    mean, std = model.predict(x[2500:], return_std=True)
    assert np.sqrt(np.mean((mean - y[2500:]) ** 2)) < 0.6
    assert np.isfinite(std).all()
    assert np.isfinite(model.predict(x[2500:2600], return_std=True, X_std=0.1)).all()
    assert np.isfinite(model.predict_interval(x[2500:2600])).all()
    loaded = load(tmp_path / "model")
    assert np.allclose(loaded.predict(x[2500:]), mean, rtol=1e-9)


PROGRAM = """
import pickle, sys, numpy as np, torch
assert not torch.cuda.is_available()
with open(sys.argv[1], "rb") as file:
    model = pickle.load(file)
np.save(sys.argv[3], model.predict(np.load(sys.argv[2]), return_std=True))
assert model.device == "cuda"
"""


@pytest.mark.parametrize("n_neighbors", [None, 8], ids=["features", "neighbours"])
def test_a_pickle_of_a_gpu_loads_with_and_without_one(n_neighbors: int, tmp_path: Path) -> None:
    x, y = make_rows(200)
    model = small(device="cuda", n_neighbors=n_neighbors).fit(x, y)
    data = pickle.dumps(model)
    expected = model.predict(x, return_std=True)
    again = pickle.loads(data)
    assert again.scaling_.input_mean.device.type == "cuda"
    assert np.array_equal(again.predict(x, return_std=True), expected)
    (tmp_path / "model").write_bytes(data)
    np.save(tmp_path / "x.npy", x)
    names = [str(tmp_path / name) for name in ("model", "x.npy", "out.npy")]
    subprocess.run(
        [sys.executable, "-c", PROGRAM, *names],
        check=True,
        env=os.environ | {"CUDA_VISIBLE_DEVICES": ""},
    )
    assert np.allclose(np.load(names[2]), expected, atol=1e-5)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "few neighbours"])
def test_predictions_draws_and_gradients(kind: str, generator: torch.Generator) -> None:
    ensemble = small_ensemble(far_rows(generator), KINDS[kind], generator)
    points = far_points(generator, 3, 2)
    found: list[list[Tensor]] = []
    for device in (torch.device("cpu"), CUDA):
        own, leaf = ensemble.to(device=device), points.to(device, copy=True).requires_grad_()
        posterior = own.posterior(leaf, include_noise=True)
        functions = own.sample(3, torch.Generator().manual_seed(0))
        draws = functions(Measure(leaf.flatten(0, 1)))
        total = posterior.mean.sum() + posterior.covariance.sum() + draws.sum()
        at = Measure(leaf.detach().flatten(0, 1))
        mixture, seeded = own.predict(at), torch.Generator().manual_seed(1)
        every = [
            *posterior.tensors(),
            draws,
            *torch.autograd.grad(total, leaf),
            own.sample(3, seeded, include_noise=True)(at),
            *(own.covariance(at, include_noise=noisy) for noisy in (False, True)),
            *(mixture.mean, mixture.observation_variance, mixture.noise_variance),
            *(mixture.quantile(0.1), mixture.log_density(mixture.mean), mixture.cdf(mixture.mean)),
        ]
        found.append([tensor.detach().cpu() for tensor in every])
    for ours, theirs in zip(found[1], found[0], strict=True):
        assert torch.allclose(ours, theirs, rtol=1e-7, atol=1e-8)


def test_results_are_on_the_device_of_the_inputs() -> None:
    model = small(depth=1, max_iter=2, device="cuda").fit(*make_rows())
    for device in (torch.device("cpu"), CUDA):
        leaf = torch.zeros(3, 2, dtype=torch.float64, device=device, requires_grad=True)
        found, draws = model.posterior(leaf), model.sample_paths(2)(leaf)
        assert {each.device.type for each in (found.mean, found.covariance, draws)} == {device.type}
        (found.mean.sum() + draws.sum()).backward()
        assert leaf.grad is not None
        assert leaf.grad.device.type == device.type


ON_GPU = {"depth": 1, "device": "cuda"}


def test_a_chunk_without_rows_adds_nothing(generator: torch.Generator) -> None:
    rows = small_rows(generator).to(device=CUDA)
    model = small_model(rows, generator).to(CUDA)
    value = backward(model, rows, MAP)
    expected = gradients(model)
    empty = rows.map(lambda tensor: tensor[:0])
    model.zero_grad()
    assert torch.allclose(backward(model, [empty, rows, empty], MAP), value)
    for name, gradient in gradients(model).items():
        assert relative_error(gradient, expected[name]) < 1e-8, name
    factors, _ = model.factors()
    for tensor in total_statistics(factors, [empty]).tensors():
        assert not tensor.any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_stream_brings_rows_to_the_gpu(dtype: torch.dtype) -> None:
    random = np.random.default_rng(0)
    x, y = random.normal(size=(100, 3)), random.normal(size=100)
    scaling = no_scaling(as_rows(x, y))
    stream = Stream(ArraySource(x, y), Share(1, 4), scaling, dtype, CUDA)
    rows = stream.in_memory()
    assert rows.inputs.mean.is_cuda
    assert rows.inputs.mean.dtype == dtype
    assert rows.targets.dtype == torch.float64
    assert np.allclose(rows.inputs.mean.cpu(), x[25:50], atol=1e-6)


def test_streamed_and_dealt_on_one_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes on one GPU communicate by gloo, because NCCL refuses to."""
    expected = fit_arrays(ALONE, ON_GPU)
    for ours in run_processes(2, fit_arrays, ON_GPU):
        assert_same(ours, expected)
    monkeypatch.setattr(summary, "SAMPLE_ROWS", SAMPLE_ROWS)
    expected = fit_arrays(ALONE, ON_GPU)
    assert_same(fit_shards(ALONE, ON_GPU, SAMPLE_ROWS, 0), expected)


def test_nccl_accepts_all_messages(tmp_path: Path) -> None:
    """With a single GPU, the process sends them to itself."""
    store = (tmp_path / "store").as_uri()
    dist.init_process_group("nccl", init_method=store, rank=0, world_size=1)
    try:
        pretended = Processes(0, 2)
        tensors = [torch.arange(6.0, device=CUDA, dtype=torch.float64).reshape(2, 3)]
        assert torch.equal(pretended.all_sum_tensors(tensors)[0], tensors[0])
        assert torch.equal(pretended.broadcast_tensor(tensors[0]), tensors[0])
        assert pretended.broadcast("hello") == "hello"
    finally:
        dist.destroy_process_group()
