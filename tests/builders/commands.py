"""Running the command ``sswim`` within the tests, and in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from typer.testing import CliRunner, Result

from sswim.cli.app import app


def invoke(*arguments: str | Path) -> Result:
    """Run a command; an error that would show a traceback is raised."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def run_command(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a command in a process of its own."""
    return run_python("-m", "sswim", *map(str, arguments))


def run_python(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python with some arguments, on one core."""
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
