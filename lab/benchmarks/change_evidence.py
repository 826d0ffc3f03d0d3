"""Compare ways to notice that scores have changed, on scores whose distribution is known.

    python lab/benchmarks/change_evidence.py
    python lab/benchmarks/change_evidence.py --table

A stream has 2,000 standard normal scores, compared with 1,000 others by online p-values; from row
1,000 on the scores change. The alarm is at an evidence of 100. Each way and each change is one line
of ``results/change-evidence.jsonl``. The second part compares distances of inputs: the mean over
the nearest 1, 5 or 20 of 1,000 rows seen, and the distance from the centre.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from arguments import script_parser
from json_lines import append_line, read_lines
from markdown_tables import table_line
from torch import Tensor

from sswim.conformal import change_evidence, conformity_scores
from sswim.conformal.change_evidence import log_evidence, p_values
from sswim.rows.rows import as_rows

RESULTS = Path("results/change-evidence.jsonl")
N_REFERENCE, N_STREAM, CHANGE = 1000, 2000, 1000
THRESHOLD = math.log(100)
STREAMS, NULL_STREAMS, INPUT_STREAMS = 100, 300, 20
NONE = "none"

Way = Callable[[Tensor], Tensor]


def jumper(u: Tensor, rate: float = 0.01) -> Tensor:
    """Return the log capital of the Simple Jumper (Vovk et al., 2021) on one kind of p-values."""
    slopes = np.array([-1.0, 0.0, 1.0])
    capital, log_capital, found = np.full(3, 1 / 3), 0.0, []
    for each in u.tolist():
        capital = (1 - rate) * capital + rate * capital.mean()
        capital = capital * (1 + slopes * (each - 0.5))
        log_capital += math.log(capital.sum())
        capital /= capital.sum()
        found.append(log_capital)
    return torch.tensor(found, dtype=torch.float64)


def two_jumpers(u: Tensor) -> Tensor:
    """Return the average capital of jumpers on location and on spread."""
    both = torch.stack((jumper(u), jumper((2 * u - 1).abs())))
    return both.logsumexp(0) - math.log(2)


def power(exponent: float, place: Callable[[Tensor], Tensor]) -> change_evidence.Strategy:
    """Return the bet that some function of p-values is small: f = exponent·v^{exponent − 1}."""

    def log_bet(u: Tensor) -> Tensor:
        return math.log(exponent) + (exponent - 1) * place(u).clamp(min=1e-15).log()

    return change_evidence.Strategy("tails", log_bet)


PLACES: list[Callable[[Tensor], Tensor]] = [
    lambda u: u,
    lambda u: 1 - u,
    lambda u: 2 * torch.minimum(u, 1 - u),
    lambda u: (2 * u - 1).abs(),
]
POWERS = tuple(power(exponent, place) for place in PLACES for exponent in (0.3, 0.6, 0.85))


def power_mixture(u: Tensor) -> Tensor:
    """Return the evidence with powers of p-values as bets."""
    with patch.object(change_evidence, "STRATEGIES", POWERS):
        return log_evidence(u)


def square_prior(u: Tensor) -> Tensor:
    """Return the evidence with the prior 1/(t(t + 1)) for the row of the change."""
    with patch.object(change_evidence, "TAIL", 1.0):
        return log_evidence(u)


WAYS: dict[str, Way] = {
    "sswim": log_evidence,
    "prior 1/(t(t + 1))": square_prior,
    "powers of p-values": power_mixture,
    "Simple Jumper": two_jumpers,
}
CHANGES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    NONE: lambda z, outlier: z,
    "+ 0.25": lambda z, outlier: z + 0.25,
    "+ 0.5": lambda z, outlier: z + 0.5,
    "+ 1": lambda z, outlier: z + 1,
    "× 1.5": lambda z, outlier: 1.5 * z,
    "× 2": lambda z, outlier: 2 * z,
    "× 0.7": lambda z, outlier: 0.7 * z,
    "5 % outliers": lambda z, outlier: torch.where(outlier < 0.05, 8 * z, z),
}


def measure_changes(done: set[tuple[str, str]], path: Path) -> None:
    """Measure every change with every way."""
    for change, apply in CHANGES.items():
        missing = [way for way in WAYS if (change, way) not in done]
        alarms: dict[str, list[int | None]] = {way: [] for way in missing}
        for seed in range((NULL_STREAMS if change == NONE else STREAMS) if missing else 0):
            generator = torch.Generator().manual_seed(seed)
            reference, z = (
                torch.randn(n, generator=generator, dtype=torch.float64)
                for n in (N_REFERENCE, N_STREAM)
            )
            outlier = torch.rand(N_STREAM - CHANGE, generator=generator)
            z[CHANGE:] = apply(z[CHANGE:], outlier)
            u = p_values(reference, torch.ones_like(reference), z, generator)
            for way in missing:
                alarms[way].append(first_alarm(WAYS[way](u)))
        for way, rows in alarms.items():
            append_line(path, {"change": change, "way": way, "alarms": rows})


def measure_inputs(done: set[tuple[str, str]], path: Path) -> None:
    """Measure shifts of the inputs with several distances."""
    for n_inputs in (1, 3, 8):
        for size in (0.5, 1.0):
            for shape in ("uniform", "normal"):
                change = f"{n_inputs} {shape} input{'s' * (n_inputs > 1)} + {size:g} spreads"
                for nearest in (1, 5, 20, 0):
                    way = f"nearest {nearest}" if nearest else "centre"
                    if (change, way) not in done:
                        rows = [
                            input_alarm(shape, n_inputs, size, nearest, seed)
                            for seed in range(INPUT_STREAMS)
                        ]
                        append_line(path, {"change": change, "way": way, "alarms": rows})


def input_alarm(shape: str, n_inputs: int, size: float, nearest: int, seed: int) -> int | None:
    """Return the row of the alarm of one stream of inputs."""
    generator = torch.Generator().manual_seed(seed)
    draw = torch.rand if shape == "uniform" else torch.randn
    seen, reference, new = (
        draw(n, n_inputs, generator=generator, dtype=torch.float64)
        for n in (1000, N_REFERENCE, N_STREAM)
    )
    new[CHANGE:] += size * (math.sqrt(1 / 12) if shape == "uniform" else 1.0)
    # The distance from the centre needs inputs whose centre is zero.
    centre = 0.5 if shape == "uniform" else 0.0
    rows = as_rows(seen - centre, torch.zeros(len(seen))) if nearest else None
    with patch.object(conformity_scores, "NEAREST", nearest):
        old, now = (conformity_scores.input_distance(x - centre, rows) for x in (reference, new))
    return first_alarm(log_evidence(p_values(old, torch.ones_like(old), now, generator)))


def first_alarm(evidence: Tensor) -> int | None:
    """Return the first row at which the evidence reaches the threshold."""
    rows = (evidence >= THRESHOLD).nonzero()
    return int(rows[0]) if len(rows) else None


def table(found: Sequence[dict[str, Any]]) -> str:
    """Return median and 90 % delays as a Markdown table for each set of ways."""
    parts = []
    for ways in (list(WAYS), ["nearest 1", "nearest 5", "nearest 20", "centre"]):
        lines = [table_line(["change", *ways]), f"|---|{'---|' * len(ways)}"]
        for change in dict.fromkeys(each["change"] for each in found if each["way"] in ways):
            cells = [
                cell(each["alarms"], change)
                for way in ways
                for each in found
                if (each["change"], each["way"]) == (change, way)
            ]
            lines.append(table_line([change, *cells]))
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def cell(alarms: Sequence[int | None], change: str) -> str:
    """Return the number of false alarms, or the median and the 90 % quantile of delays."""
    if change == NONE:
        return f"{sum(row is not None for row in alarms)} of {len(alarms)}"
    delays = sorted(
        math.inf if row is None else row - CHANGE + 1
        for row in alarms
        if row is None or row >= CHANGE
    )
    chosen = [delays[math.ceil(share * len(delays)) - 1] for share in (0.5, 0.9)]
    return " / ".join("never" if math.isinf(each) else f"{each:.0f}" for each in chosen)


def main() -> None:
    """Measure what the results lack, or print the tables."""
    parser = script_parser(__doc__)
    parser.add_argument("--out", type=Path, default=RESULTS, help="result file")
    parser.add_argument("--table", action="store_true", help="print the tables of the results")
    arguments = parser.parse_args()
    if arguments.table:
        print(table(read_lines(arguments.out)))
        return
    done = {(each["change"], each["way"]) for each in read_lines(arguments.out)}
    measure_changes(done, arguments.out)
    measure_inputs(done, arguments.out)


if __name__ == "__main__":
    main()
