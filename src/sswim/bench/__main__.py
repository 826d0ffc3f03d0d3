"""``python -m sswim.bench``: ``sswim bench accuracy`` where typer or rich is missing."""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path

from sswim.bench.lines import in_lines
from sswim.bench.results import read_results
from sswim.bench.runner import Bench, make_plan, run
from sswim.bench.summary import summarise
from sswim.bench.table import markdown


def main() -> int:
    """Do what is asked for, with plain lines for progress; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m sswim.bench", description=__doc__)
    parser.add_argument("--sets", default="", help="with commas between; all by default")
    parser.add_argument("--methods", default="sswim", help="with commas between")
    parser.add_argument("--repeats", type=int, help="by default 10 up to 10,000 rows, 3 above")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--data", help="the folder of the data sets; or set SSWIM_DATA")
    parser.add_argument("--out", type=Path, default=Path("results") / "accuracy.csv")
    parser.add_argument("--resume", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--retry", action="store_true", help="repeat fits that failed")
    asked = parser.parse_args()
    try:
        bench = Bench.named(
            asked.sets,
            asked.methods,
            asked.out,
            asked.repeats,
            asked.device,
            asked.data,
            asked.resume,
            asked.workers,
            asked.retry,
        )
        plan = make_plan(bench)
        print(*plan.notes, plan.progress, sep="\n", flush=True)
        failures = run(bench, plan, in_lines(len(plan.jobs), partial(print, flush=True)))
        if bench.out.exists():
            print(markdown(summarise(read_results(bench.out))))
    except (ValueError, OSError) as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("Interrupted; the same command goes on from here.", file=sys.stderr)
        return 130
    for row in failures:
        print(f"Failed: {row.job}: {row.failure}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
