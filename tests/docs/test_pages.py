"""The README and the pages of docs/: their links, names, scripts and commands exist."""

from __future__ import annotations

import ast
import importlib
import operator
import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.core import TyperGroup

from sswim.cli.app import app

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]

LINK = re.compile(r"\]\(([^)\s]+)\)")
CODE_SPAN = re.compile(r"`([^`\n]+)`")
CODE_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PYTHON_NAME = re.compile(r"(?<![\w./])sswim(?:\.[A-Za-z_]\w*)+")
SCRIPT = re.compile(r"\b(?:lab/benchmarks|scripts|examples)/\w+\.py\b")
TOCTREE = re.compile(r"^```\{toctree\}\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"(?<![\w./-])sswim ((?:[a-z][a-z-]* )+)(.*)")
OPTION = re.compile(r"(?<![\w-])--[a-z-]+")

pages = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


def read(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives the headings of a page."""
    prose = CODE_BLOCK.sub("", read(page))
    headings = re.findall(r"^#+ (.*)$", prose, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def exists(name: str) -> bool:
    """Return whether a dotted name is a module, or an attribute in one.

    A module is not imported: some need optional packages.
    """
    module, attributes = name, list[str]()
    while not is_module(module):
        module, _, last = module.rpartition(".")
        attributes.insert(0, last)
    try:
        if attributes:
            operator.attrgetter(".".join(attributes))(importlib.import_module(module))
    except AttributeError:
        return False
    return True


def is_module(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # its parent is not a package
        return False


def commands(text: str) -> Iterator[tuple[list[str], list[str]]]:
    """Yield the subcommands and the options of every `sswim` command."""
    for line in re.sub(r"\\\n\s*", " ", text).splitlines():
        for code in CODE_SPAN.findall(line) or [line]:
            for words, rest in COMMAND.findall(code):
                yield words.split(), OPTION.findall(rest)


@pages
def test_relative_links_lead_to_files_and_headings(page: Path) -> None:
    missing = []
    for link in LINK.findall(read(page)):
        if link.startswith(("http:", "https:")):
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            missing.append(link)
    assert missing == []


def test_every_page_has_a_place_in_the_site() -> None:
    listed = {"index"}
    for page in PAGES:
        for toctree in TOCTREE.findall(read(page)):
            listed |= set(toctree.split())
    assert {page.stem for page in PAGES if page.parent.name == "docs"} - listed == set()


@pages
def test_dotted_names_exist(page: Path) -> None:
    spans = CODE_SPAN.findall(CODE_BLOCK.sub("", read(page)))
    names = {name for span in spans for name in PYTHON_NAME.findall(span)}
    assert [name for name in sorted(names) if not exists(name)] == []


@pages
def test_imports_of_code_blocks_and_scripts_exist(page: Path) -> None:
    text = read(page)
    blocks = [block for language, block in CODE_BLOCK.findall(text) if language == "python"]
    nodes = [node for block in blocks for node in ast.walk(ast.parse(block))]
    imports = [
        f"{node.module}.{alias.name}"
        for node in nodes
        if isinstance(node, ast.ImportFrom) and str(node.module).split(".")[0] == "sswim"
        for alias in node.names
    ]
    assert [name for name in imports if not exists(name)] == []
    assert [name for name in SCRIPT.findall(text) if not (ROOT / name).exists()] == []


@pages
def test_commands_and_their_options_exist(page: Path) -> None:
    missing = []
    context: Any = None
    for words, options in commands(read(page)):
        command: Any = typer.main.get_command(app)
        for word in words:
            if not isinstance(command, TyperGroup) or word not in command.list_commands(context):
                break
            command = command.resolve_command(context, [word])[1]
        known = {"--help"} | {
            name for each in command.params for name in (*each.opts, *each.secondary_opts)
        }
        missing += [f"{' '.join(words)} {option}" for option in options if option not in known]
    assert missing == []
