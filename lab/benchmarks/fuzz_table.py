"""Print the table of docs/fuzzing.md: the last line of every property in results/fuzz.jsonl."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from scripting import read_lines, stored

RESULTS = Path("results/fuzz.jsonl")


def last_lines(lines: list[Any]) -> list[dict[str, Any]]:
    """Return the last line of every property, in the order of their names."""
    last = {line["property"]: line for line in lines}
    return [last[name] for name in sorted(last)]


def table(lines: list[Any]) -> str:
    """Return the table in Markdown."""
    rows = ["| property | examples | fits | refused | failed |", "|---|---|---|---|---|"]
    lines = last_lines(lines)
    for line in lines:
        name = line["property"].removeprefix("test_").replace("_", " ")
        counts = (f"{line[each]:,}" for each in ("tried", "fits", "refused", "failures"))
        rows.append(f"| {name} | {' | '.join(counts)} |")
    sums = (sum(line[each] for line in lines) for each in ("tried", "fits", "refused", "failures"))
    rows.append(f"| all | {' | '.join(f'{each:,}' for each in sums)} |")
    return "\n".join(rows)


if __name__ == "__main__":
    print(table(read_lines(stored(RESULTS))))
