"""Version and help: what they print, and that they load nothing heavy."""

from __future__ import annotations

import pytest
from builders.commands import invoke, run_command, run_python

from sswim.base.version import __version__

HEAVY = ("torch", "sklearn", "pyarrow", "matplotlib", "scipy", "sswim_lab")

PROGRAM = f"""
import sys
from sswim.cli.app import app
for line in sys.argv[1:]:
    try:
        app(line.split())
    except SystemExit as ended:
        loaded = [name for name in {HEAVY} if name in sys.modules]
        print("after", line, "code", ended.code, "loaded", *loaded, file=sys.stderr)
"""

COMMANDS = [
    [],
    *([name] for name in ("fit", "predict", "evaluate", "info", "demo", "datasets", "reproduce")),
    ["bench"],
    ["bench", "accuracy"],
    ["bench", "table"],
]


def test_version() -> None:
    assert invoke("--version").output.strip() == __version__


def test_python_dash_m_is_the_command() -> None:
    assert run_command("--version").stdout.strip() == __version__


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_help_shows_the_command(command: list[str]) -> None:
    result = invoke(*command, "--help")
    assert result.exit_code == 0
    assert f"Usage: {' '.join(['root', *command])} " in " ".join(result.output.split())


def test_version_and_help_load_nothing_heavy() -> None:
    """All in one process: the first line that names a module is of the command that loads it."""
    lines = ["--version", *(" ".join([*command, "--help"]) for command in COMMANDS)]
    result = run_python("-c", PROGRAM, *lines)
    assert result.returncode == 0, result.stderr
    assert result.stderr.splitlines() == [f"after {line} code 0 loaded" for line in lines]
