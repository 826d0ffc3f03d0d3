"""``python -m sswim.experiments``: ``sswim reproduce`` where typer or rich is missing."""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path

from sswim.bench.runner import names
from sswim.experiments.command import INTERRUPTED, default_out, interrupted, listing, reproduce
from sswim.experiments.request import Request


def main() -> int:
    """Do what is asked for, with plain lines for progress; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m sswim.experiments", description=__doc__)
    parser.add_argument("name", nargs="?", help="an experiment, or all; without, a list")
    parser.add_argument("--sets", type=names, default=(), help="with commas between")
    parser.add_argument("--methods", type=names, default=(), help="with commas between")
    parser.add_argument("--repeats", type=int, help="by default 10 up to 10,000 rows, 3 above")
    parser.add_argument("--device", default="auto")
    parser.add_argument(
        "--data", dest="folder", help="the only folder of the data sets; or set SSWIM_DATA"
    )
    parser.add_argument("--out", type=Path, help="a folder, results/paper by default")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--resume", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--retry", action="store_true", help="repeat fits that failed")
    parser.add_argument("--quick", action="store_true", help="a small version of it")
    asked = vars(parser.parse_args())
    name = asked.pop("name")
    if name is None:
        print(*listing(), sep="\n")
        return 0
    asked["out"] = asked["out"] or default_out(asked["quick"])
    request = Request(**asked, notify=partial(print, flush=True))
    try:
        return reproduce(name, request)
    except (ValueError, OSError) as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(interrupted(request), file=sys.stderr)
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
