"""Version and help: what they print, and that they load nothing heavy."""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from builders.commands import invoke, refuse, run_command, run_python, succeed

from sswim.base.version import __version__
from sswim.cli import app
from sswim.cli.app import GROUP

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

COMMANDS = [[], ["fit"], ["predict"], ["evaluate"], ["info"], ["demo"]]


def test_version_of_the_command_and_of_python_dash_m() -> None:
    assert invoke("--version").output.strip() == __version__
    assert run_command("--version").stdout.strip() == __version__


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_help_shows_the_command(command: list[str]) -> None:
    shown = " ".join(succeed(*command, "--help").output.split())
    assert f"Usage: {' '.join(['root', *command])} " in shown


def test_version_and_help_load_nothing_heavy() -> None:
    """All in one process: the first line that names a module is of the command that loads it."""
    lines = ["--version", *(" ".join([*command, "--help"]) for command in COMMANDS)]
    result = run_python("-c", PROGRAM, *lines)
    assert result.returncode == 0, result.stderr
    assert result.stderr.splitlines() == [f"after {line} code 0 loaded" for line in lines]


def test_other_distributions_add_commands(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The module of a command is imported when it is used, and neither by help nor by others."""
    (tmp_path / "added.py").write_text("def greet(name: str) -> None:\n    print('Hello', name)\n")
    plug_ins = {
        name: EntryPoint(name, value, GROUP)
        for name, value in {"greet": "added:greet", "broken": "added:nothing"}.items()
    }
    monkeypatch.setattr(app, "_plug_ins", lambda: plug_ins)
    monkeypatch.syspath_prepend(tmp_path)
    listed = invoke("--help").output
    assert "greet" in listed
    assert "broken" in listed
    succeed("info", "--help")
    assert "added" not in sys.modules
    assert invoke("greet", "you").output == "Hello you\n"
    assert refuse("broken").startswith("Cannot load the command 'broken' from added:nothing: ")
    del sys.modules["added"]


def test_commands_of_the_lab_name_it_and_others_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(app, "_plug_ins", dict)
    for name in app.LAB_COMMANDS:
        result = invoke(name)
        assert (result.exit_code, result.output.count("\n")) == (2, 1)
        assert "pip install sswim-lab" in result.output
    assert "No such command 'fti'. Did you mean 'fit'?" in invoke("fti").output
