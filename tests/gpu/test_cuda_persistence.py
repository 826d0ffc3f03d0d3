"""A model that was trained on a GPU can be pickled there, and loaded without one."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from builders.estimators import make_rows, small

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]

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
