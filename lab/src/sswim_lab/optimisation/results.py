"""The results file: JSON, one line for each run."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path

from sswim.base.validation import UserError
from sswim_lab.optimisation.run import Run


def read_runs(path: Path) -> list[Run]:
    """Read the runs of a file; a missing file has none, a damaged line raises UserError."""
    if not path.exists():
        return []
    runs = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            fields = json.loads(line)
            lists = {name: tuple(fields[name]) for name in ("values", "seconds")}
            runs.append(Run(**{**fields, **lists}))
        except (ValueError, TypeError, KeyError) as error:
            raise UserError(f"Line {number} of {str(path)!r} is not a run: {error}.") from error
    return runs


def append_run(path: Path, run: Run) -> None:
    """Append a run to a file; it is on disk on return."""
    with path.open("ab") as file:
        # One write, so that an interruption splits no line.
        file.write(json.dumps(asdict(run), ensure_ascii=False).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())
