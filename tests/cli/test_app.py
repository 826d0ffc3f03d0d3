"""Version and help: what they print, and that they load nothing heavy."""

from __future__ import annotations

import pytest
from builders.commands import invoke, run_command, run_python

from sswim.base.version import __version__

HEAVY = ("torch", "sklearn", "pyarrow", "matplotlib", "scipy", "sswim.lab")

PROGRAM = f"""
import sys
from sswim.cli.app import app
try:
    app(sys.argv[1:])
finally:
    print("loaded:", *(name for name in {HEAVY} if name in sys.modules))
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


@pytest.mark.parametrize(
    "arguments", [["--version"], *([*command, "--help"] for command in COMMANDS)], ids=" ".join
)
def test_version_and_help_load_nothing_heavy(arguments: list[str]) -> None:
    result = run_python("-c", PROGRAM, *arguments)
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines()[-1].strip() == "loaded:"


def test_the_estimator_loads_neither_tables_nor_figures() -> None:
    """The room of tables would load pyarrow, which scikit-learn loads only if pandas is there."""
    program = "import sys; from sswim import SSWIMRegressor; print(*sys.modules)"
    loaded = run_python("-c", program).stdout.split()
    assert "sswim.estimator.regressor" in loaded
    assert not {"sswim.tables", "sswim.plotting", "sswim.lab", "matplotlib"} & {*loaded}
