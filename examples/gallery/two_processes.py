"""
Two processes
=============

Several processes share one fit: each sums over its share of the rows, and the sums are added. On a
cluster torchrun starts the processes on several machines; here it starts two on this one. The
result is that of a single process, up to rounding.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from sswim import SSWIMRegressor

n_rows, n_features, n_steps = 40_000, 128, 30
# sphinx_gallery_start_ignore
if "SSWIM_GALLERY_QUICK" in os.environ:
    n_rows, n_features, n_steps = 500, 16, 2
# sphinx_gallery_end_ignore

# %%
# The script that every process runs. Without torchrun the same file runs as one process.

SCRIPT = """
import sys

import torch

from sswim import SSWIMRegressor
from sswim.distributed import join_processes

table, out, n_features, n_steps = sys.argv[1:]
model = SSWIMRegressor(
    depth=0,
    n_components=int(n_features),
    max_iter=int(n_steps),
    length_scale=0.2,
    device="cpu",
    random_state=0,
)
with join_processes(torch.device("cpu")) as processes:
    model.fit(table, "y", processes=processes)
    if processes.is_first:
        model.save(out)
"""

# %%
# A table of a wave that gets faster, fitted by one process and by two.

random = np.random.default_rng(0)
x = random.uniform(0, 1.5, n_rows)
y = np.sin(20 * x**3) + 0.3 * random.normal(size=n_rows)

torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node"]
models = {}
with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    pd.DataFrame({"x": x, "y": y}).to_parquet(folder / "table.parquet")
    (folder / "train.py").write_text(SCRIPT)
    for n_processes in (1, 2):
        out = folder / f"{n_processes}.sswim"
        arguments = [folder / "table.parquet", out, str(n_features), str(n_steps)]
        began = time.perf_counter()
        subprocess.run(
            [*torchrun, str(n_processes), folder / "train.py", *arguments],
            check=True,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
            stderr=subprocess.DEVNULL,
        )
        print(f"{n_processes} processes: {time.perf_counter() - began:.1f} s, start included")
        models[n_processes] = SSWIMRegressor.load(out)

# %%

new = pd.DataFrame({"x": np.linspace(0, 1.5, 1000)})
one, two = (models[n].predict(new) for n in (1, 2))
print(f"largest difference of the means: {np.abs(one - two).max():.1e}")

figure, (top, bottom) = plt.subplots(
    2, 1, figsize=(9, 5.5), layout="constrained", sharex=True, height_ratios=(2, 1)
)
top.scatter(x[:3000], y[:3000], s=2, color="grey", alpha=0.4, label="some of the rows")
top.plot(new["x"], one, lw=3, color="C0", label="one process")
top.plot(new["x"], two, lw=1.2, ls="--", color="C1", label="two processes")
top.set(title="(a) predicted means", ylabel="y", ylim=(-2, 2.4))
top.legend(loc="upper center", ncols=3, frameon=False)
bottom.plot(new["x"], two - one, color="C3", lw=0.8)
bottom.set(title="(b) two processes minus one", xlabel="x", ylabel="difference")
plt.show()
