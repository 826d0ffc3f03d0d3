"""Seconds of fits and predictions of the default and where they go, with scores.

    python lab/benchmarks/fit_seconds.py ../before . --tables concrete,powerplant --repeats 3
    python lab/benchmarks/fit_seconds.py --table --out results/fit-seconds.jsonl

Fits of the checkouts take turns, each in a process of its own with the checkout's ``src`` in front
of the path, so that whatever slows the machine down hardly moves their ratio. Stages are timed by
wrapping the functions that a fit and a prediction call; one that runs in several threads counts the
seconds of all. Made-up tables have names such as ``10000x20``, and those of the standard splits
such as ``uci/yacht``. Scores are those of the test rows of a repeat, of which two thirds of a table
are none, for targets standardised by the training rows.
"""

from __future__ import annotations

import json
import math
import os
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from scripting import add_results, append_line, markdown_table, read_lines, script_parser, stored
from sswim_lab.datasets import Split

TABLES = "35x2,uci/yacht,concrete,powerplant,10000x20,maunaloa_co2"

FUNCTIONS = {
    "draw_members": "draw",
    "train_members": "train and compete, wall",
    "learn_stacking": "weights",
    "learn_shared_noise": "noise",
}
"""Functions of ``sswim.ensemble.fit`` that are timed, and the names of their stages."""

METHODS = {"train": "train", "leave_out": "leave out", "condition": "condition"}
"""Class methods of the members that are timed, for every way of predicting."""

Seconds = defaultdict[str, float]


def timed(function: Callable[..., Any], name: str, seconds: Seconds) -> Callable[..., Any]:
    """Return a function that adds the seconds of its calls to a stage."""

    def call(*args: Any, **kwargs: Any) -> Any:
        began = time.perf_counter()
        try:
            return function(*args, **kwargs)
        finally:
            stage = f"train {args[0].kind.name}" if name == METHODS["train"] else name
            seconds[stage] += time.perf_counter() - began

    return call


@contextmanager
def timed_stages() -> Iterator[Seconds]:
    """Time the stages of fits and predictions; yields their seconds, which grow as they run."""
    from sswim.ensemble import fit  # noqa: PLC0415 (of the checkout under test)
    from sswim.members import WAYS  # noqa: PLC0415 (of the checkout under test)

    seconds: Seconds = defaultdict(float)
    before: list[tuple[Any, str, Any]] = []

    def wrap(owner: Any, name: str, wrapper: Any) -> None:
        before.append((owner, name, vars(owner).get(name)))
        setattr(owner, name, wrapper)

    for name, stage in FUNCTIONS.items():
        wrap(fit, name, timed(getattr(fit, name), stage, seconds))
    for way, member in WAYS.items():
        for name, stage in METHODS.items():
            whole = stage if stage == METHODS["train"] else f"{stage}, {way}"
            wrap(member, name, staticmethod(timed(getattr(member, name), whole, seconds)))
        predict = timed(member.predict_chunk, f"predict, {way}", seconds)
        wrap(member, "predict_chunk", predict)
    try:
        yield seconds
    finally:
        for owner, name, value in reversed(before):
            if value is None:
                delattr(owner, name)
            else:
                setattr(owner, name, value)


def made_up(name: str, repeat: int) -> Split:
    """Draw a table of the given size with a function of the first five inputs, and noise."""
    n_rows, n_inputs = map(int, name.split("x"))
    random = np.random.default_rng(repeat)
    x = random.uniform(size=(n_rows + 2000, n_inputs))
    padded = np.pad(x, ((0, 0), (0, max(0, 5 - n_inputs))))
    y = 10 * np.sin(np.pi * padded[:, 0] * padded[:, 1]) + 20 * (padded[:, 2] - 0.5) ** 2
    y += 10 * padded[:, 3] + 5 * padded[:, 4] + random.normal(size=len(x))
    return Split(x[:n_rows], y[:n_rows], x[n_rows:], y[n_rows:])


def split_uci(name: str, repeat: int) -> Split:
    """Read two thirds of the rows of a set of ``uci/`` for training, the rest for tests."""
    import pandas as pd  # noqa: PLC0415 (only here)

    folder = Path(os.environ.get("SSWIM_DATA", "../shared/data")) / "uci"
    frame = pd.read_parquet(folder / f"{name}.parquet").select_dtypes("number")
    values = frame.to_numpy(float)
    order = np.random.RandomState(repeat).permutation(len(values))
    train, test = np.split(values[order], [round(2 * len(values) / 3)])
    return Split(train[:, :-1], train[:, -1], test[:, :-1], test[:, -1])


def load(name: str, repeat: int) -> Split:
    """Return the rows of a table by its name."""
    from sswim_lab.bench.accuracy import load_split  # noqa: PLC0415 (of the checkout under test)

    if name[0].isdigit():
        return made_up(name, repeat)
    if name.startswith("uci/"):
        return split_uci(name.removeprefix("uci/"), repeat)
    return load_split(name, repeat)


def fit_once(name: str, repeat: int) -> dict[str, Any]:
    """Fit the default in this process, and predict the test rows; return seconds and scores."""
    import torch  # noqa: PLC0415 (after the number of threads is set)

    from sswim import SSWIMRegressor, evaluate  # noqa: PLC0415 (of the checkout under test)

    rows = load(name, repeat)
    with timed_stages() as stages:
        began, processor = time.perf_counter(), time.process_time()
        model = SSWIMRegressor(random_state=repeat).fit(rows.train_x, rows.train_y)
        ended, processor = time.perf_counter(), time.process_time() - processor
        model.predict(rows.test_x, return_std=True)
        predicted = time.perf_counter()
    scores = evaluate(model, rows.test_x, rows.test_y)
    spread = float(rows.train_y.std())
    return {
        "table": name,
        "shape": rows.train_x.shape,
        "repeat": repeat,
        "threads": torch.get_num_threads(),
        "seconds": round(ended - began, 3),
        "processor_seconds": round(processor, 3),
        "predict_seconds": round(predicted - ended, 3),
        "n_test": len(rows.test_y),
        "stages": {stage: round(value, 3) for stage, value in stages.items()},
        "kinds": {kind.name: round(kind.weight, 3) for kind in model.kinds_},
        "rmse": scores.rmse / spread,
        "mnlp": scores.mnlp - math.log(spread),
    }


def run(checkout: Path, name: str, repeat: int, threads: int | None) -> dict[str, Any]:
    """Fit in a process of its own, with the library of a checkout."""
    environment = os.environ | {"PYTHONPATH": str(checkout / "src")}
    if threads is not None:
        environment["OMP_NUM_THREADS"] = str(threads)
    command = [sys.executable, __file__, "--child", name, "--repeats", str(repeat)]
    finished = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if finished.returncode:
        return {"table": name, "repeat": repeat, "failure": finished.stderr[-2000:]}
    return json.loads(finished.stdout.splitlines()[-1])


def show(lines: list[dict[str, Any]]) -> str:
    """Return medians of seconds and means of scores by table and checkout; then the stages."""
    grouped: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for line in lines:
        if "failure" not in line:
            grouped[line["table"], line["label"]].append(line)
    rows, parts = [], []
    for (table, label), group in grouped.items():
        seconds, processor, predict = (
            statistics.median(line[field] for line in group)
            for field in ("seconds", "processor_seconds", "predict_seconds")
        )
        means = [statistics.mean(line[score] for line in group) for score in ("rmse", "mnlp")]
        threads = ", ".join(sorted({str(line["threads"]) for line in group}))
        numbers = [f"{number:.2f}" for number in (seconds, processor)]
        numbers += [f"{1e6 * predict / group[0]['n_test']:.0f}", *(f"{one:.4f}" for one in means)]
        rows.append([table, label, threads, str(len(group)), *numbers])
        stages = {stage for line in group for stage in line["stages"]}
        medians = {
            stage: statistics.median(line["stages"].get(stage, 0.0) for line in group)
            for stage in stages
        }
        largest = sorted(medians.items(), key=lambda pair: -pair[1])
        parts.append([table, label, ", ".join(f"{stage} {value:.2f}" for stage, value in largest)])
    titles = (
        "table",
        "checkout",
        "threads",
        "fits",
        "fit, s",
        "processor, s",
        "predict, µs per row",
    )
    return "\n\n".join(
        [
            markdown_table((*titles, "RMSE", "MNLP"), rows),
            markdown_table(("table", "checkout", "seconds of stages"), parts),
        ]
    )


def main(arguments: Iterable[str] | None = None) -> None:
    """Measure, or print what is stored."""
    parser = script_parser(__doc__)
    parser.add_argument("checkouts", nargs="*", type=Path, default=[Path()])
    parser.add_argument("--labels", default="", help="names of the checkouts, with commas between")
    parser.add_argument("--tables", default=TABLES, help="names of tables, with commas between")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, help="number of threads; all cores without it")
    parser.add_argument("--child", help="fit one table in this process")
    add_results(parser, "results/fit-seconds.jsonl")
    given = parser.parse_args(None if arguments is None else list(arguments))
    if given.table:
        print(show(read_lines(stored(given.out))))
        return
    if given.child:
        print(json.dumps(fit_once(given.child, given.repeats)))
        return
    labels = given.labels.split(",") if given.labels else [str(path) for path in given.checkouts]
    done = {(line["label"], line["table"], line["repeat"]) for line in read_lines(given.out)}
    for repeat in range(given.repeats):
        for name in given.tables.split(","):
            for label, checkout in zip(labels, given.checkouts, strict=True):
                if (label, name, repeat) in done:
                    continue
                line = {"label": label, **run(checkout.resolve(), name, repeat, given.threads)}
                append_line(given.out, line)
                print({key: value for key, value in line.items() if key != "stages"}, flush=True)


if __name__ == "__main__":
    main()
