"""Compare what two checkouts of sswim compute, to the last bit.

Run it before and after a change that must not change results:

    python lab/benchmarks/compare_checkouts.py ../before . --out results/compare-checkouts.json

Every fit runs in a process of its own with the checkout's ``src`` in front of the path. Its model
file, predictions, densities and draws are compared as bytes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file

Arrays = dict[str, np.ndarray]
Rows = tuple[np.ndarray, np.ndarray]


def draw_rows(n: int, n_inputs: int, n_targets: int = 1, seed: int = 0) -> Rows:
    """A function that gets faster along its first input, with skewed noise that varies."""
    random = np.random.default_rng(seed)
    X = random.uniform(-2, 2, (n, n_inputs))
    waves = np.stack([np.sin(np.exp(X[:, 0]) + k) for k in range(n_targets)], axis=1)
    slope = 0.5 * X[:, -1:] ** 2
    noise = 0.1 * np.exp(0.5 * X[:, :1]) * random.gamma(2.0, size=(n, n_targets))
    y = waves + slope + noise
    return X, y[:, 0] if n_targets == 1 else y


def _estimator(**settings: Any) -> Any:
    """Make the estimator of these settings, of the checkout under test."""
    settings |= {"random_state": 0, "device": "cpu"}
    try:
        from sswim.estimator import make_estimator  # noqa: PLC0415 (of the checkout under test)
    except ImportError:  # one class had all settings
        from sswim import SSWIMRegressor  # noqa: PLC0415 (of the checkout under test)

        return SSWIMRegressor(**settings)
    return make_estimator(**settings)


def _fit_default(folder: Path) -> Arrays:
    X, y = draw_rows(120, 3)
    return _collect(_estimator().fit(X, y), X, y, folder)


def _fit_default_single_precision(folder: Path) -> Arrays:
    X, y = draw_rows(320, 2)
    return _collect(_estimator(max_iter=30).fit(X, y), X, y, folder)


def _fit_stationary(folder: Path) -> Arrays:
    X, y = draw_rows(300, 2)
    model = _estimator(depth=0, n_components=128, max_iter=40).fit(X, y)
    return _collect(model, X, y, folder)


def _fit_deep_evidence(folder: Path) -> Arrays:
    X, y = draw_rows(300, 3)
    settings = {"depth": 2, "n_components": 64, "n_pseudo": 16, "objective": "evidence"}
    model = _estimator(**settings, kernel="rbf", max_iter=40).fit(X, y)
    return _collect(model, X, y, folder)


def _fit_single_precision(folder: Path) -> Arrays:
    X, y = draw_rows(5000, 4)
    settings = {"depth": 1, "n_components": 64, "n_pseudo": 16, "dtype": "float32"}
    return _collect(_estimator(**settings, max_iter=20, growing=True).fit(X, y), X, y, folder)


def _fit_output_warp_and_noise(folder: Path) -> Arrays:
    X, y = draw_rows(400, 2)
    settings = {"depth": 1, "n_components": 64, "n_pseudo": 16, "warps": "joint"}
    settings |= {"output_warp": "tanh", "noise": "input-dependent", "n_members": 2}
    return _collect(_estimator(**settings, max_iter=25).fit(X, y), X, y, folder)


def _fit_several_targets(folder: Path) -> Arrays:
    X, y = draw_rows(150, 2, n_targets=2)
    return _collect(_estimator(max_iter=25).fit(X, y), X, y, folder)


def _fit_weights(folder: Path) -> Arrays:
    X, y = draw_rows(200, 2)
    weight = np.random.default_rng(1).integers(0, 4, len(y)).astype(float)
    return _collect(_estimator(max_iter=25).fit(X, y, sample_weight=weight), X, y, folder)


def _fit_uncertain_inputs(folder: Path) -> Arrays:
    X, y = draw_rows(200, 2)
    settings = {"depth": 2, "n_components": 32, "n_pseudo": 16, "objective": "leave-one-out"}
    model = _estimator(**settings, max_iter=20).fit(X, y, X_std=0.1)
    return _collect(model, X, y, folder, X_std=0.1)


def _fit_sample_of_many_rows(folder: Path) -> Arrays:
    from sswim import Recipe  # noqa: PLC0415 (of the checkout under test)

    X, y = draw_rows(70_000, 2)
    settings = {"n_components": 16, "n_pseudo": 8, "n_members": 1, "max_iter": 4}
    return _collect(_estimator(**settings, recipe=Recipe(enrichment=False)).fit(X, y), X, y, folder)


def _fit_partial(folder: Path) -> Arrays:
    X, y = draw_rows(300, 2)
    model = _estimator(depth=1, n_components=64, n_pseudo=16, max_iter=20).fit(X[:200], y[:200])
    return _collect(model.partial_fit(X[200:], y[200:]), X, y, folder)


def _fit_streamed(folder: Path) -> Arrays:
    X, y = _write_table(folder, n=4000)
    options = ["--depth", "1", "--max-iter", "5", "--memory", "1KB"]
    return _command(folder, [sys.executable, "-m", "sswim"], options, X, y)


def _fit_two_processes_by_rows(folder: Path) -> Arrays:
    X, y = _write_table(folder, n=2000)
    return _command(folder, _two_processes(), ["--depth", "1", "--max-iter", "8"], X, y)


def _fit_two_processes_by_members(folder: Path) -> Arrays:
    X, y = _write_table(folder, n=200)
    return _command(folder, _two_processes(), ["--max-iter", "10"], X, y)


def _fit_surrogate(folder: Path) -> Arrays:
    """Make a model of BoTorch of two outputs, its predictions, draws and suggestions."""
    import torch  # noqa: PLC0415
    from botorch.acquisition import ExpectedImprovement  # noqa: PLC0415
    from botorch.acquisition.objective import ScalarizedPosteriorTransform  # noqa: PLC0415
    from botorch.optim import optimize_acqf  # noqa: PLC0415
    from botorch.sampling.pathwise import draw_matheron_paths  # noqa: PLC0415

    from sswim.integrations.botorch import SSWIMModel, avoid_repeats  # noqa: PLC0415

    X, y = (torch.from_numpy(each) for each in draw_rows(40, 3, n_targets=2))
    bounds = torch.tensor([[0.0] * 3, [1.0] * 3], dtype=torch.float64)
    X = (X + 2) / 4
    model = SSWIMModel(X, y)
    new = torch.rand(20, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    further = model.condition_on_observations(new[:3], new[:3, :2])
    noisy = SSWIMModel(X[:12, :1], y[:12, :1].exp(), torch.full_like(y[:12, :1], 0.01))
    torch.manual_seed(0)
    transform = ScalarizedPosteriorTransform(torch.tensor([1.0, 0.0], dtype=torch.float64))
    acquisition = ExpectedImprovement(model, y[:, 0].max(), posterior_transform=transform)
    suggestion, value = optimize_acqf(acquisition, bounds, q=1, num_restarts=2, raw_samples=32)
    found = {"suggestion": suggestion, "acquisition": value}
    found["not repeated"] = avoid_repeats(X[:1], model, X, bounds)
    found["paths"] = draw_matheron_paths(model, torch.Size([2]))(new)
    for name, each in {"model": model, "further": further, "noisy": noisy}.items():
        posterior = each.posterior(new[:, : each.train_inputs[0].shape[-1]])
        found |= {f"{name} mean": posterior.mean, f"{name} variance": posterior.variance}
        found[f"{name} draws"] = posterior.rsample(torch.Size([2]))
    return {name: tensor.detach().numpy() for name, tensor in found.items()}


FITS: dict[str, Callable[[Path], Arrays]] = {
    name.removeprefix("_fit_").replace("_", "-"): function
    for name, function in list(globals().items())
    if name.startswith("_fit_")
}


def _two_processes() -> list[str]:
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    return [*launcher, "--nproc-per-node", "2", "-m", "sswim"]


def _write_table(folder: Path, n: int) -> tuple[Any, np.ndarray]:
    """Write rows as a folder of two Parquet files with a text column; return them as a frame."""
    import pandas as pd  # noqa: PLC0415
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    X, y = draw_rows(n, 2)
    site = np.where(X[:, 0] > 0, "east", "west")
    y = y + 0.3 * (X[:, 0] > 0)
    (folder / "table").mkdir()
    for number, part in enumerate(np.array_split(np.arange(n), 2)):
        columns = {"a": X[part, 0], "b": X[part, 1], "site": site[part], "y": y[part]}
        pq.write_table(pa.table(columns), folder / "table" / f"part-{number}.parquet")
    return pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "site": site}), y


def _command(folder: Path, sswim: list[str], options: list[str], X: Any, y: Any) -> Arrays:
    """Fit by the command line, and predict the table by it too."""
    import pyarrow.parquet as pq  # noqa: PLC0415

    from sswim import SSWIMRegressor  # noqa: PLC0415 (of the checkout under test)

    model, table, out = folder / "model", folder / "table", folder / "out"
    threads = {"OMP_NUM_THREADS": "1"}
    environment = {**os.environ, **threads}
    fixed = ["--target", "y", "--out", str(model), "--random-state", "0", "--device", "cpu"]
    for arguments in (
        ["fit", str(table), *fixed, *options],
        ["predict", str(model), str(table), "--out", str(out)],
    ):
        subprocess.run([*sswim, *arguments], check=True, env=environment, capture_output=True)
    written = pq.read_table(out)
    found = _collect(SSWIMRegressor.load(model), X, y, folder)
    for name in ("mean", "std", "median", "lower", "upper"):
        found[f"written {name}"] = written[name].to_numpy()
    return found


def _first_name(tensor: str) -> str:
    """Return the name that a stored tensor had at first."""
    renamed = {
        ".scores.": ".normal_scores.",
        ".noise_correction": ".calibration",
        ".latent_correction": ".latent_calibration",
    }
    for new, old in renamed.items():
        tensor = tensor.replace(new, old, 1)
    return tensor


def _collect(model: Any, X: Any, y: Any, folder: Path, X_std: Any = None) -> Arrays:
    """All that a fitted model says, by name."""
    X, y = X[:5000], y[:5000]
    model.save(folder / "saved")
    stored = load_file(folder / "saved")
    found = {f"file {_first_name(name)}": stored[name] for name in stored}
    mean, std = model.predict(X, return_std=True, X_std=X_std)
    _, function_std = model.predict(X, return_std=True, include_noise=False, X_std=X_std)
    found |= {"mean": mean, "std": std, "function std": function_std}
    found["mean alone"] = model.predict(X, X_std=X_std)
    found["covariance"] = model.predict(X[:20], return_cov=True, X_std=X_std)[1]
    found["quantiles"] = model.predict_quantiles(X[:500], (0.05, 0.5, 0.95), X_std=X_std)
    found["noise"] = model.predict_noise(X, X_std=X_std)
    found["log density"] = model.log_density(X, y, X_std=X_std)
    found["cdf"] = model.cdf(X, y, X_std=X_std)
    found["draws"] = model.sample_y(X[:100], 3, random_state=1)
    found["weights"] = model.weights_
    if hasattr(model, "log_marginal_likelihood_"):  # not of models that predict by neighbours
        found["evidence"] = np.array(model.log_marginal_likelihood_)
    for number, (warped, variance) in enumerate(model.warp(X[:50], X_std=X_std)):
        found[f"warp {number}"] = np.stack((warped, variance))
    for number, history in enumerate(model.history_):
        found[f"history {number}"] = history
    return found


def _run(name: str, out: Path) -> None:
    """Make a fit in this process and store all that it gives."""
    with tempfile.TemporaryDirectory() as folder:
        np.savez(out, allow_pickle=False, **FITS[name](Path(folder)))


def _results(checkout: Path, name: str) -> Arrays:
    """Make a fit with the code of a checkout."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "found.npz"
        environment = {**os.environ, "PYTHONPATH": str(checkout.resolve() / "src")}
        command = [sys.executable, str(Path(__file__).resolve()), "--run", name, "--out", str(out)]
        subprocess.run(command, check=True, env=environment, cwd=folder)
        with np.load(out) as stored:
            return dict(stored)


def differences(before: Arrays, after: Arrays) -> dict[str, str]:
    """Where two results are not the same bytes, by name."""
    found = {}
    for name in sorted({*before, *after}):
        if name not in before or name not in after:
            found[name] = "only in one of them"
        elif before[name].shape != after[name].shape or before[name].dtype != after[name].dtype:
            found[name] = "another shape or type"
        elif before[name].tobytes() != after[name].tobytes():
            largest = np.nanmax(np.abs(before[name] - after[name]))
            found[name] = f"differs by up to {largest:.3g}"
    return found


def compare(before: Path, after: Path, names: Iterable[str]) -> list[dict[str, Any]]:
    """Make every fit with both checkouts; one entry for each."""
    entries = []
    for name in names:
        one, other = _results(before, name), _results(after, name)
        unlike = differences(one, other)
        entries.append(
            {
                "fit": name,
                "arrays": len(one),
                "numbers": sum(array.size for array in one.values()),
                "equal": not unlike,
                "differences": unlike,
            }
        )
        state = "equal" if not unlike else f"{len(unlike)} arrays differ: {unlike}"
        print(f"{name}: {entries[-1]['arrays']} arrays, {state}", flush=True)
    return entries


def _commit(checkout: Path) -> str:
    """Return the commit of a checkout."""
    command = ["git", "-C", str(checkout), "rev-parse", "HEAD"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def main() -> int:
    """Compare two checkouts; 1 if anything differs."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("before", nargs="?", type=Path)
    parser.add_argument("after", nargs="?", type=Path)
    parser.add_argument("--fits", nargs="+", choices=FITS, default=list(FITS))
    parser.add_argument("--run", choices=FITS, help="make one fit with the sswim on the path")
    parser.add_argument("--out", type=Path, help="a JSON file; with --run, an NPZ file")
    asked = parser.parse_args()
    if asked.run:
        warnings.simplefilter("ignore")
        _run(asked.run, asked.out)
        return 0
    if asked.before is None or asked.after is None:
        parser.error("two checkouts are needed")
    entries = compare(asked.before, asked.after, asked.fits)
    if asked.out is not None:
        commits = {name: _commit(getattr(asked, name)) for name in ("before", "after")}
        content = {**commits, "numpy": np.__version__, "fits": entries}
        asked.out.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return 0 if all(entry["equal"] for entry in entries) else 1


if __name__ == "__main__":
    sys.exit(main())
