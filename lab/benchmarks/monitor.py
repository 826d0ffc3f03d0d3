"""Measure how soon ``SSWIMRegressor.monitor`` notices a drift, and how often it cries wolf.

    python lab/benchmarks/monitor.py --tables nonstationary --fits 20
    python lab/benchmarks/monitor.py --tables powerplant kin8nm abalone --fits 5
    python lab/benchmarks/monitor.py --table

The default is fitted to 500 rows. A stream has 2,000 other rows, of which the second half drifts in
one of several ways. Every stream is one line of ``results/monitor.jsonl``, appended when it is
done; lines that are in the file already are not measured again. Without drift there are ten streams
for each fit: the guarantee is on average over fits, whose held-out rows may be unlucky.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scripting import (
    add_results,
    append_line,
    markdown_table,
    read_lines,
    script_parser,
    shows_stored,
)
from sswim_lab.datasets import load

from sswim import SSWIMRegressor
from sswim.cli.demo import nonstationary_signal

Array = NDArray[np.float64]

SYNTHETIC = "nonstationary"
N_TRAIN, N_STREAM, CHANGE = 500, 2000, 1000
NOISE = 0.2
"""Standard deviation of the noise of the synthetic table."""
FALSE_ALARM = 0.01
STREAMS_WITHOUT_DRIFT = 10
NONE = "none"


@dataclass(frozen=True)
class Source:
    """Rows that the model has not seen."""

    draw: Callable[[np.random.Generator, int, float], tuple[Array, Array]]
    """Draws rows whose inputs are shifted by a number of their spreads."""
    centre: Array
    """Mean of the inputs."""
    spread: Array
    """Standard deviations of the inputs."""


Case = Callable[[Array, Array, float, np.random.Generator], Array]
"""Returns the targets after a drift, from standardised inputs, targets, the residuals' standard
deviation and a generator."""


def add(size: float) -> Case:
    """Add a number of residual standard deviations to the targets."""
    return lambda z, y, residual, random: y + size * residual


def widen(ratio: float) -> Case:
    """Add noise, so that residuals become larger by a ratio."""
    extra = math.sqrt(ratio**2 - 1)
    return lambda z, y, residual, random: y + extra * residual * random.normal(size=len(y))


CASES: dict[str, Case] = {
    "targets + 0.25 residual std": add(0.25),
    "targets + 0.5 residual std": add(0.5),
    "targets + 1 residual std": add(1.0),
    "residuals × 1.5": widen(1.5),
    "residuals × 2": widen(2.0),
    "another slope along the first input": lambda z, y, residual, random: y + residual * z[:, 0],
}
SHIFTS = {"inputs shifted by 0.5 spreads": 0.5, "inputs shifted by 1 spread": 1.0}
"""Drifts of the inputs with the function unchanged."""


def synthetic_source() -> Source:
    """Return a source of rows of a function with steps, a wave and a chirp."""

    def draw(random: np.random.Generator, n: int, shift: float) -> tuple[Array, Array]:
        x = random.uniform(0, 3, n) + shift * math.sqrt(0.75)
        signal = nonstationary_signal(torch.from_numpy(x)).numpy()
        return x[:, None], signal + NOISE * random.normal(size=n)

    return Source(draw, np.array([1.5]), np.array([math.sqrt(0.75)]))


def real_source(x: Array, y: Array) -> Source:
    """Return a source that draws from the rows of a table without replacement.

    A shift of d spreads draws rows with odds exp(d·z), where z is the first principal component
    of standardised inputs in units of its spread: if z is normal, its mean moves by d.
    """
    centre, spread = x.mean(0), x.std(0)
    standardised = (x - centre) / spread
    component = standardised @ np.linalg.svd(standardised, full_matrices=False)[2][0]
    component /= component.std()

    def draw(random: np.random.Generator, n: int, shift: float) -> tuple[Array, Array]:
        keys = shift * component + random.gumbel(size=len(x))  # the n largest are such a sample
        chosen = random.permutation(np.argsort(-keys)[:n])
        return x[chosen], y[chosen]

    return Source(draw, centre, spread)


def split_rows(table: str, fit: int) -> tuple[Array, Array, Source]:
    """Return the training rows of a fit, and a source of others."""
    random = np.random.default_rng([fit, 1])
    if table == SYNTHETIC:
        source = synthetic_source()
        x, y = source.draw(random, N_TRAIN, 0.0)
        return x, y, source
    rows = load(table)
    order = random.permutation(len(rows.y))
    x, y = rows.x[order], rows.y[order]
    return x[:N_TRAIN], y[:N_TRAIN], real_source(x[N_TRAIN:], y[N_TRAIN:])


def measure(table: str, fit: int, done: set[tuple[Any, ...]], path: Path) -> None:
    """Fit a model, and measure the streams that the results lack."""
    streams = [(NONE, stream) for stream in range(STREAMS_WITHOUT_DRIFT)]
    streams += [(case, 0) for case in (*CASES, *SHIFTS)]
    missing = [each for each in streams if (table, fit, *each) not in done]
    if not missing:
        return
    x, y, source = split_rows(table, fit)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = SSWIMRegressor(random_state=fit).fit(x, y)
    x, y = source.draw(np.random.default_rng([fit, 2]), 500, 0.0)
    residual = float(np.std(y - np.asarray(model.predict(x))))
    for case, stream in missing:
        random = np.random.default_rng([fit, 3, stream, streams.index((case, stream))])
        x, y = draw_stream(source, case, residual, random)
        report = model.monitor(x, y, false_alarm=FALSE_ALARM, random_state=stream)
        found = {"table": table, "fit": fit, "case": case, "stream": stream}
        found |= {"alarm": report.alarm_row, "since": report.change_row, "says": report.says}
        highest = report.log_evidence if case == NONE else report.log_evidence[:CHANGE]
        found["false_log_evidence"] = round(float(highest.max()), 3)
        append_line(path, found)


def draw_stream(
    source: Source, case: str, residual: float, random: np.random.Generator
) -> tuple[Array, Array]:
    """Return the rows of a stream whose second half drifts."""
    x, y = source.draw(random, N_STREAM, 0.0)
    if case in SHIFTS:
        x[CHANGE:], y[CHANGE:] = source.draw(random, N_STREAM - CHANGE, SHIFTS[case])
    elif case in CASES:
        z = (x[CHANGE:] - source.centre) / source.spread
        y[CHANGE:] = CASES[case](z, y[CHANGE:], residual, random)
    return x, y


def table(found: Sequence[dict[str, Any]]) -> str:
    """Return false alarms, and delays of each case, as a Markdown table."""
    names = list(dict.fromkeys(each["table"] for each in found))
    rows = []
    for level in (0.01, 0.1):
        cells = []
        for name in names:
            part = [e for e in found if (e["table"], e["case"]) == (name, NONE)]
            alarms = sum(e["false_log_evidence"] >= -math.log(level) for e in part)
            cells.append(f"{alarms} of {len(part)}")
        rows.append([f"none: alarms at {level:.0%}", *cells])
    for case in (*CASES, *SHIFTS):
        cells = [
            _delays([e for e in found if (e["table"], e["case"]) == (name, case)]) for name in names
        ]
        rows.append([case, *cells])
    return markdown_table(["drift", *names], rows)


def _delays(found: Sequence[dict[str, Any]]) -> str:
    """Return the median and the 90 % quantile of delays; streams with earlier alarms do not count.

    The delay of a drift that is never noticed is longer than any.
    """
    rows = [math.inf if each["alarm"] is None else each["alarm"] for each in found]
    delays = np.sort([row - CHANGE + 1 for row in rows if row >= CHANGE])
    if len(delays) == 0:
        return "—"
    median, late = (delays[math.ceil(share * len(delays)) - 1] for share in (0.5, 0.9))
    return " / ".join("never" if math.isinf(each) else f"{each:.0f}" for each in (median, late))


def main() -> None:
    """Measure the streams that the results lack, or print the table."""
    parser = script_parser(__doc__)
    parser.add_argument("--tables", nargs="+", default=[SYNTHETIC], help="synthetic or real tables")
    parser.add_argument("--fits", type=int, default=20, help="number of fits for each table")
    parser.add_argument("--first", type=int, default=0, help="number of the first fit")
    add_results(parser, "results/monitor.jsonl")
    arguments = parser.parse_args()
    if shows_stored(arguments, table):
        return
    for fit in range(arguments.first, arguments.fits):
        for name in arguments.tables:
            lines = read_lines(arguments.out)
            done = {(each["table"], each["fit"], each["case"], each["stream"]) for each in lines}
            measure(name, fit, done, arguments.out)


if __name__ == "__main__":
    main()
