"""Computations on a GPU give the results of a CPU. Skipped where there is no GPU."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from builders.models import (
    DENSITIES,
    SMALL,
    gradients,
    normal,
    relative_error,
    small_model,
    small_rows,
)

from sswim import load
from sswim.base.cholesky import solve_and_invert
from sswim.ensemble.ensemble import Ensemble
from sswim.ensemble.mixture import equal_weights
from sswim.estimator import make_estimator
from sswim.kernels.features import features_and_norm
from sswim.members import condition
from sswim.members import training as cuda_graph
from sswim.members.model import Architecture, WarpsName, stack_models
from sswim.members.objective import (
    EVIDENCE,
    LEAVE_ONE_OUT,
    MAP,
    Objective,
    backward,
    chunk_size,
    graph_bytes_per_row,
    one_pass,
)
from sswim.members.start import start
from sswim.members.training import Adam, train, train_batch
from sswim.rows import Measure, as_rows, learn_scaling

if torch.cuda.is_available():
    from sswim.kernels import triton_features as kernels

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]
CUDA = torch.device("cuda")
OBJECTIVES = {"map": MAP, "evidence": EVIDENCE, "leave-one-out": LEAVE_ONE_OUT}
DENSE = {name: settings for name, settings in DENSITIES.items() if settings}


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


@pytest.mark.parametrize("density", DENSE.values(), ids=DENSE.keys())
def test_predicted_densities_are_those_of_the_cpu(
    density: dict[str, Any], generator: torch.Generator
) -> None:
    rows = small_rows(generator, n_targets=2)
    model = small_model(rows, generator, **density)
    scaling = learn_scaling(rows)
    on_cpu = Ensemble(scaling, (condition(model, scaling.rows(rows)),), equal_weights(1))
    there, its_scaling = rows.to(device=CUDA), scaling.to(device=CUDA)
    on_gpu = Ensemble(
        its_scaling,
        (condition(model.to(CUDA), its_scaling.rows(there)),),
        equal_weights(1).to(CUDA),
    )
    expected, ours = on_cpu.predict(rows.inputs), on_gpu.predict(there.inputs)
    for name in ("mean", "observation_variance", "noise_variance"):
        assert torch.allclose(getattr(ours, name).cpu(), getattr(expected, name), rtol=1e-8)
    latent, its_latent = (
        mixture.without_noise().observation_variance for mixture in (ours, expected)
    )
    assert torch.allclose(latent.cpu(), its_latent, rtol=1e-8)
    assert torch.allclose(ours.quantile(0.1).cpu(), expected.quantile(0.1), rtol=1e-8)
    for method in ("log_density", "cdf"):
        there_too = getattr(ours, method)(there.targets).cpu()
        assert torch.allclose(there_too, getattr(expected, method)(rows.targets), rtol=1e-7)
    for include_noise in (False, True):
        joint = on_gpu.covariance(there.inputs, include_noise=include_noise).cpu()
        assert torch.allclose(
            joint, on_cpu.covariance(rows.inputs, include_noise=include_noise), atol=1e-8
        )
        draws = on_gpu.sample(3, torch.Generator().manual_seed(1), include_noise=include_noise)(
            there.inputs
        )
        same = on_cpu.sample(3, torch.Generator().manual_seed(1), include_noise=include_noise)(
            rows.inputs
        )
        assert torch.allclose(draws.cpu(), same, rtol=1e-7)


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
    if not kernels.usable():
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


def test_drawn_functions_are_those_of_the_cpu(generator: torch.Generator) -> None:
    rows = small_rows(generator)
    model = small_model(rows, generator)
    expected = condition(model, rows).sample(3, torch.Generator().manual_seed(1))(rows.inputs)
    on_gpu = rows.to(device=CUDA)
    functions = condition(model.to(CUDA), on_gpu).sample(3, torch.Generator().manual_seed(1))
    assert torch.allclose(functions(on_gpu.inputs).cpu(), expected, rtol=1e-8)


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
