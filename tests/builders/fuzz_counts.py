"""Counts of the fuzz tests: one line for each property, written anew after every part."""

from __future__ import annotations

import json
import os
import platform
from collections import defaultdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from builders.fuzzing import full_scale
from sswim.base.version import __version__


class FuzzCounts:
    """A plugin of pytest that adds up the reports of all parts, whichever process sent them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.before = path.read_text(encoding="utf-8") if path.exists() else ""
        self.properties: dict[str, dict[str, Any]] = defaultdict(
            lambda: {"tried": 0, "refused": 0, "fits": 0, "failures": 0, "seconds": 0.0}
        )

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add one report."""
        if "test_fuzz_" not in report.nodeid:
            return
        counts = self.properties[report.nodeid.rpartition("::")[2].partition("[")[0]]
        counts["failures"] += report.failed
        tallies: dict[str, Any] = dict(report.user_properties)
        if report.when == "call" and "fuzz" in tallies:
            for name, value in tallies["fuzz"].items():
                counts[name] += value
            self._write()

    def _write(self) -> None:
        """Append one line for each property to what the file had; a run may end at any time."""
        shared = {
            "scale": full_scale(),
            "cores": os.cpu_count(),
            "sswim": __version__,
            "python": platform.python_version(),
            **{name: version(name) for name in ("torch", "numpy", "hypothesis")},
        }
        lines = [
            {"property": name, **counts, "seconds": round(counts["seconds"], 1), **shared}
            for name, counts in sorted(self.properties.items())
        ]
        text = "".join(json.dumps(line) + "\n" for line in lines)
        self.path.write_text(self.before + text, encoding="utf-8")
