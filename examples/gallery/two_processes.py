"""
Two processes
=============

Several processes share one fit: each sums over its share of the rows, and the sums are added. On a
cluster torchrun starts the processes on several machines; here it starts two on this one. The
result is that of a single process, up to rounding.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from sswim import WarpedGPRegressor

n_rows, n_features, n_steps = 40_000, 128, 20
# sphinx_gallery_start_ignore
if "SSWIM_GALLERY_QUICK" in os.environ:
    n_rows, n_features, n_steps = 500, 16, 2
# sphinx_gallery_end_ignore

# %%
# The script that every process runs. Without torchrun the same file runs as one process.

SCRIPT = """
import json
import sys

import torch

from sswim import WarpedGPRegressor
from sswim.distributed import join_processes

table, out, settings = sys.argv[1:]
model = WarpedGPRegressor(**json.loads(settings))
with join_processes(torch.device("cpu")) as processes:
    model.fit(table, "y", processes=processes)
    if processes.is_first:
        model.save(out)
"""

# %%
# A table of a wave on a wave, fitted by this process and by two others.

random = np.random.default_rng(0)
x = random.uniform(0, 3, n_rows)
y = np.sin(5 * x) + 0.4 * np.sin(21 * x) + 0.3 * random.normal(size=n_rows)
settings = {
    "depth": 0,
    "n_components": n_features,
    "max_iter": n_steps,
    "length_scale": 0.2,
    "device": "cpu",
    "random_state": 0,
}
torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    table, script, out = folder / "table.parquet", folder / "train.py", folder / "model.sswim"
    pd.DataFrame({"x": x, "y": y}).to_parquet(table)
    script.write_text(SCRIPT)

    began = time.perf_counter()
    one_process = WarpedGPRegressor(**settings).fit(table, "y")
    print(f"one process: {time.perf_counter() - began:.1f} s")

    began = time.perf_counter()
    subprocess.run(
        [*torchrun, script, table, out, json.dumps(settings)],
        check=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        stderr=subprocess.DEVNULL,
    )
    print(f"two processes: {time.perf_counter() - began:.1f} s, start included")
    two_processes = WarpedGPRegressor.load(out)

# %%

new = pd.DataFrame({"x": np.linspace(0, 3, 1000)})
one, two = one_process.predict(new), two_processes.predict(new)
print(f"largest difference of the means: {np.abs(one - two).max():.1e}")

figure, (top, bottom) = plt.subplots(
    2, 1, figsize=(9, 5.5), layout="constrained", sharex=True, height_ratios=(2, 1)
)
top.scatter(x[:3000], y[:3000], s=2, color="grey", alpha=0.4, label="some of the rows")
top.plot(new["x"], one, lw=3, color="C0", label="one process")
top.plot(new["x"], two, lw=1.2, ls="--", color="C1", label="two processes")
top.set(title="(a) predicted means", ylabel="y", ylim=(-2.5, 3))
top.legend(loc="upper center", ncols=3, frameon=False)
bottom.plot(new["x"], two - one, color="C3", lw=0.8)
bottom.set(title="(b) two processes minus one", xlabel="x", ylabel="difference")
plt.show()
