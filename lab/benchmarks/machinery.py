"""Count the machinery of a checkout: modules, lines, settings, and what a row passes.

    python lab/benchmarks/machinery.py ../before . --out results/machinery.json

Every checkout is counted in a process of its own, which imports the library from there. Lines of
code are those with tokens other than comments and docstrings. A row is followed by a profiler
through ``SSWIMRegressor().fit(frame, y)`` and ``predict(frame, return_std=True)``: the modules and
functions of the library that are entered at least once, also in their threads. All rooms are
imported before: what runs on import, such as making a default object, is not on a row's way. A
wrapper is a function whose body is one statement that calls, and does nothing else.
"""

from __future__ import annotations

import ast
import inspect
import io
import json
import os
import pkgutil
import subprocess
import sys
import tempfile
import threading
import tokenize
from collections.abc import Callable, Iterable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from scripting import script_parser, table_line

SMALL = 60
"""Modules of fewer lines are counted apart."""
OTHER_ROOMS = {"lab"}
"""Rooms of older checkouts that are another distribution now."""
Function = ast.FunctionDef | ast.AsyncFunctionDef


def count(checkout: Path) -> dict[str, Any]:
    """Return all counts of a checkout; its ``src`` must be first on the path."""
    package = checkout / "src" / "sswim"
    return {
        **source_counts(package_files(package)),
        "settings": settings(),
        "top-level names": len(top_level_names()),
        "wheel, KiB": wheel_size(checkout),
        "lines of tests": test_lines(checkout),
        **row_counts(package),
    }


def package_files(package: Path) -> list[Path]:
    """Return the modules of the library, without the rooms that moved to the lab."""
    return sorted(
        path
        for path in package.rglob("*.py")
        if path.relative_to(package).parts[0] not in OTHER_ROOMS
    )


def source_counts(files: Iterable[Path]) -> dict[str, int | str]:
    """Return numbers of modules and lines, and the longest function."""
    texts = {path: path.read_text(encoding="utf-8") for path in files}
    longest, name = max(
        (
            (node.end_lineno or node.lineno) - node.lineno + 1,
            f"{path.stem}.{node.name}",
        )
        for path, text in texts.items()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, Function)
    )
    modules = {path: text for path, text in texts.items() if path.name != "__init__.py"}
    return {
        "modules": len(texts),
        "lines": sum(text.count("\n") for text in texts.values()),
        "lines of code": sum(map(code_lines, texts.values())),
        f"modules under {SMALL} lines": sum(t.count("\n") < SMALL for t in modules.values()),
        "longest function, lines": longest,
        "longest function": name,
    }


def code_lines(text: str) -> int:
    """Return the number of lines that are neither blank, nor a comment, nor in a docstring."""
    ignored = {
        tokenize.COMMENT,
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENDMARKER,
    }
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in ignored:
            lines |= set(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):  # docstrings, of attributes too
            lines -= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(lines)


def settings() -> dict[str, int]:
    """Return the number of settings of each public estimator."""
    import sswim  # noqa: PLC0415 (of the checkout)

    names = [name for name in top_level_names() if name.endswith("Regressor")]
    return {
        name: len(inspect.signature(getattr(sswim, name).__init__).parameters) - 1 for name in names
    }


def top_level_names() -> list[str]:
    """Return the public names of the package."""
    import sswim  # noqa: PLC0415 (as above)

    return list(sswim.__all__)


def wheel_size(checkout: Path) -> int | None:
    """Return the KiB of the wheel, built without isolation; None if it cannot be built."""
    with tempfile.TemporaryDirectory() as folder:
        build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir"]
        command = [*build, folder, str(checkout.resolve())]
        done = subprocess.run(command, check=False, capture_output=True, cwd=folder)
        wheels = list(Path(folder).glob("sswim-*.whl"))
        if done.returncode or not wheels:
            return None
        return round(wheels[0].stat().st_size / 1024)


def test_lines(checkout: Path) -> int:
    """Return the lines of tests of all distributions of a checkout."""
    folders = (checkout / "tests", checkout / "lab" / "tests")
    files = [path for folder in folders for path in folder.rglob("*.py")]
    files += [path for path in [checkout / "conftest.py"] if path.exists()]
    return sum(path.read_text(encoding="utf-8").count("\n") for path in files)


def row_counts(package: Path) -> dict[str, int]:
    """Return how many modules, functions and wrappers a row passes in a fit and a prediction."""
    import numpy as np  # noqa: PLC0415
    import pandas as pd  # noqa: PLC0415

    import sswim  # noqa: PLC0415 (of the checkout)

    for module in pkgutil.walk_packages(sswim.__path__, "sswim."):
        with suppress(ImportError):  # of a library that an extra installs
            import_module(module.name)
    Regressor = sswim.SSWIMRegressor
    random = np.random.default_rng(0)
    frame = pd.DataFrame(random.normal(size=(120, 3)), columns=["a", "b", "c"])
    y = np.sin(2 * frame["a"]) + frame["b"] + 0.1 * random.normal(size=len(frame))
    made: list[Any] = []
    counts: dict[str, int] = {}
    for what, run in (
        ("fit", lambda: made.append(Regressor(random_state=0, device="cpu").fit(frame, y))),
        ("predict", lambda: made[0].predict(frame, return_std=True)),
    ):
        passed = entered(run, package)
        wrappers = [code for code in passed if is_wrapper(code)]
        counts |= {
            f"modules in {what}": len({code.co_filename for code in passed}),
            f"functions in {what}": len(passed),
            f"wrappers in {what}": len(wrappers),
        }
    return counts


def entered(run: Callable[[], object], package: Path) -> set[CodeType]:
    """Run something, and return the named functions of a package that it enters."""
    codes: set[CodeType] = set()

    def note(frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and frame.f_code.co_flags & inspect.CO_OPTIMIZED:  # no class body
            codes.add(frame.f_code)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    root = str(package.resolve()) + os.sep
    return {code for code in codes if code.co_filename.startswith(root) and code.co_name[:1] != "<"}


def is_wrapper(code: CodeType) -> bool:
    """Return whether the body of a function is one statement that passes its arguments on."""
    tree = ast.parse(Path(code.co_filename).read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        first = min((d.lineno for d in getattr(node, "decorator_list", ())), default=None)
        if not isinstance(node, Function) or node.name != code.co_name:
            continue
        if code.co_firstlineno in (first, node.lineno):
            return _only_calls(node)
    return False


def _only_calls(function: Function) -> bool:
    body = [
        statement
        for statement in function.body
        if not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant))
    ]
    if len(body) != 1 or not isinstance(body[0], ast.Return | ast.Expr):
        return False
    call = body[0].value
    if not isinstance(call, ast.Call):
        return False
    arguments = [*call.args, *(keyword.value for keyword in call.keywords)]
    plain = (ast.Name, ast.Attribute, ast.Constant, ast.Starred)
    return all(isinstance(argument, plain) for argument in arguments)


def count_apart(checkout: Path) -> dict[str, Any]:
    """Count a checkout in a process of its own, with its library first on the path."""
    path = [str(checkout.resolve() / "src"), str(Path(__file__).parent)]
    done = subprocess.run(
        [sys.executable, __file__, "--count", str(checkout.resolve())],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(path)},
    )
    counts: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return counts


def markdown(found: dict[str, dict[str, Any]]) -> str:
    """Return the counts as a table in Markdown, a column for each checkout."""
    lines = [table_line(["", *found]), "|---" * (len(found) + 1) + "|"]
    for name in next(iter(found.values())):
        values = [counts[name] for counts in found.values()]
        lines.append(table_line([name, *map(_cell, values)]))
    return "\n".join(lines)


def _cell(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {number}" for name, number in value.items())
    return f"{value:,}" if isinstance(value, int) else str(value)


def main() -> None:
    """Count checkouts, print the table and store the counts."""
    parser = script_parser(__doc__)
    parser.add_argument("checkouts", type=Path, nargs="*", help="folders to count")
    parser.add_argument("--out", type=Path, help="JSON file to write")
    parser.add_argument("--count", type=Path, help="count this one here, and print JSON")
    asked = parser.parse_args()
    if asked.count is not None:
        print(json.dumps(count(asked.count)))
        return
    found = {str(checkout): count_apart(checkout) for checkout in asked.checkouts}
    print(markdown(found))
    if asked.out is not None:
        asked.out.parent.mkdir(parents=True, exist_ok=True)
        asked.out.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
