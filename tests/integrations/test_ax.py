from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from builders.searches import funnel, lucky_random_search

ax = pytest.importorskip("ax", reason="needs the extra ax")

from botorch.utils.sampling import manual_seed  # noqa: E402

from sswim.integrations.ax import generation_strategy  # noqa: E402
from sswim.integrations.botorch import SSWIMModel  # noqa: E402

# Ax draws from a Gaussian posterior of its own making, which is singular near rows.
pytestmark = [
    pytest.mark.filterwarnings("ignore:Optimization failed:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:A not p.d."),
]
N_INITIAL, N_TRIALS = 5, 12


def new_client(objective: str, constraints: tuple[str, ...] = (), **bounds: Any) -> Any:
    client = ax.Client(random_seed=0)
    client.configure_experiment(
        [
            ax.RangeParameterConfig(name, bounds=both, parameter_type="float")
            for name, both in bounds.items()
        ]
    )
    client.configure_optimization(objective, constraints)
    client.set_generation_strategy(
        generation_strategy(initialization_budget=N_INITIAL, initialization_random_seed=0)
    )
    return client


def fitted_model(client: Any) -> Any:
    return client._generation_strategy.adapter.generator.surrogate.model


@pytest.fixture(scope="module")
def client() -> Any:
    client = new_client("-loss", x=(0, 100), y=(0, 1e-3))
    for _ in range(N_TRIALS):
        for index, found in client.get_next_trials(1).items():
            client.complete_trial(index, {"loss": funnel(found["x"] / 100, found["y"] * 1e3)})
    return client


def test_few_trials_find_more_than_random_search(client: Any) -> None:
    best, values, index, _ = client.get_best_parameterization(use_model_predictions=False)
    assert index >= N_INITIAL
    assert values["loss"][0] < lucky_random_search(funnel, N_TRIALS)
    ((mean, error),) = (each["loss"] for each in client.predict([best]))
    assert mean == pytest.approx(values["loss"][0], abs=0.8)
    assert 0 < error < 0.8
    model = fitted_model(client)  # its inputs are scaled by their bounds
    assert type(model) is SSWIMModel
    corner = torch.tensor([[100.0, 1e-3]]).double()
    torch.testing.assert_close(model.transform_inputs(corner), torch.ones(1, 2).double())


def test_saved_client_goes_on(client: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "client.json")
    client.save_to_json_file(path)
    loaded = ax.Client.load_from_json_file(path)
    with manual_seed(0):  # a loaded client has lost its seed
        assert loaded.get_next_trials(1).keys() == {N_TRIALS}
    assert type(fitted_model(loaded)) is SSWIMModel


def test_constraint_and_known_noise() -> None:
    client = new_client("-cost", ("gain >= 1",), x=(0, 1), y=(0, 1))
    for _ in range(N_INITIAL + 2):
        for index, found in client.get_next_trials(1).items():
            x, y = found["x"], found["y"]
            client.complete_trial(index, {"cost": (x**2 + y**2, 0.01), "gain": (x + y, 0.01)})
    cost, gain = fitted_model(client).models
    assert type(cost) is type(gain) is SSWIMModel
    suggested = client.summarize().set_index("trial_index").loc[N_INITIAL:, "gain"]
    assert all(abs(suggested - 1) < 0.3)
