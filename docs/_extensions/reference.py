"""Writes the pages of the API reference: one for each public module, and one for each of its names.

A module's ``__all__`` decides what is in it, so that a new public name needs no change here.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from sphinx.application import Sphinx
from sphinx.pycode import ModuleAnalyzer

MODULES = (
    "sswim",
    "sswim.members",
    "sswim.rows",
    "sswim.distributed",
    "sswim.tables",
    "sswim.maps",
    "sswim.plotting",
    "sswim.report",
    "sswim_lab.datasets",
    "sswim.integrations.gpytorch",
    "sswim.integrations.botorch",
    "sswim.integrations.ax",
    "sswim.integrations.optuna",
)
RETURNED = (
    "sswim.ensemble.mixture.Mixture",
    "sswim.ensemble.joint_posterior.JointPosterior",
    "sswim.insight.Relevance",
    "sswim.insight.Effect",
    "sswim.insight.LocalMetric",
    "sswim.estimator.evaluation.Importance",
    "sswim.conformal.MonitorReport",
    "sswim.ensemble.plan.FittedKind",
    "sswim.rows.scaling.Scaling",
)
"""Classes that users get from methods and attributes, but do not import."""
FOLDER = "reference"

KINDS = {
    "Classes": lambda value: inspect.isclass(value) and not issubclass(value, BaseException),
    "Functions": inspect.isroutine,
    "Exceptions": lambda value: inspect.isclass(value) and issubclass(value, BaseException),
}
DIRECTIVES = {
    "Classes": ("autoclass", ("members", "inherited-members")),
    "Functions": ("autofunction", ()),
    "Exceptions": ("autoexception", ("show-inheritance",)),
}


def underlined(title: str) -> str:
    """Return a title of reStructuredText."""
    return f"{title}\n{'=' * len(title)}\n"


def public_names(module: ModuleType) -> list[str]:
    """Return what ``__all__`` names, the class that most users need first, not the version."""
    names = [name for name in module.__all__ if name != "__version__"]
    return sorted(names, key=lambda name: name != "SSWIMRegressor")


def kind_of(value: Any) -> str:
    """Return the heading that a public name stands under."""
    return next((kind for kind, belongs in KINDS.items() if belongs(value)), "Constants")


def constant_description(name: str, value: Any) -> str:
    """Return the string that follows the definition of a constant, wherever that is."""
    for module_name in sorted(key for key in sys.modules if key.startswith("sswim.")):
        if getattr(sys.modules[module_name], name, None) is not value:
            continue
        found = ModuleAnalyzer.for_module(module_name).find_attr_docs()
        if ("", name) in found:
            return " ".join(" ".join(found["", name]).split())
    return ""


def constant(module: str, name: str, value: Any) -> str:
    """Return the description of a constant, with its value where that is short."""
    text = repr(value)
    shown = f"   :value: {text}\n" if len(text) < 80 else ""
    return f".. py:data:: {module}.{name}\n{shown}\n   {constant_description(name, value)}\n"


def summary_table(names: list[str]) -> str:
    """Return a table of names, each with the first line of its docstring and a link to its page."""
    lines = "\n".join(f"   {name}" for name in names)
    return f".. autosummary::\n   :nosignatures:\n\n{lines}\n"


def hidden_toctree(paths: list[str]) -> str:
    """Return the place of pages in the navigation."""
    lines = "\n".join(f"   {path.rpartition('.')[2]} <{path}>" for path in paths)
    return f".. toctree::\n   :hidden:\n\n{lines}\n"


def module_page(module: ModuleType, elsewhere: dict[str, Any]) -> str:
    """Return the page of a module: its docstring, and tables of its names.

    Args:
        module: The module.
        elsewhere: Public names of an earlier module, which have their pages there.
    """
    name = module.__name__
    values = {each: getattr(module, each) for each in public_names(module)}
    shared = {each for each in values if values[each] is elsewhere.get(each)}
    parts = [underlined(name), f".. automodule:: {name}\n   :no-members:\n"]
    for kind in KINDS:
        members = [each for each, value in values.items() if kind_of(value) == kind]
        if members:
            own = [f"names/{name}.{each}" for each in members if each not in shared]
            listed = [f"sswim.{each}" if each in shared else each for each in members]
            parts += [f".. rubric:: {kind}\n", summary_table(listed), hidden_toctree(own)]
    constants = [each for each, value in values.items() if kind_of(value) == "Constants"]
    if constants:
        parts.append(".. rubric:: Constants\n")
        parts += [constant(name, each, values[each]) for each in constants]
    return "\n".join(parts)


def returned_page() -> str:
    """Return the page of the classes that methods return."""
    return "\n".join(
        (
            underlined("What methods return"),
            "Methods and attributes of ``SSWIMRegressor`` return these records.\n",
            summary_table(list(RETURNED)),
            hidden_toctree([f"names/{name}" for name in RETURNED]),
        )
    )


def name_page(module: str, name: str, value: Any) -> str:
    """Return the page of a class, a function or an exception."""
    directive, options = DIRECTIVES[kind_of(value)]
    flags = "".join(f"   :{option}:\n" for option in options)
    return f"{underlined(name)}\n.. {directive}:: {module}.{name}\n{flags}"


def pages() -> Iterator[tuple[str, str]]:
    """Yield the path and the text of every page."""
    elsewhere: dict[str, Any] = {}
    for name in MODULES:
        module = import_module(name)
        yield f"{name}.rst", module_page(module, elsewhere)
        values = {each: getattr(module, each) for each in public_names(module)}
        for each, value in values.items():
            if kind_of(value) != "Constants" and value is not elsewhere.get(each):
                yield f"names/{name}.{each}.rst", name_page(name, each, value)
        elsewhere = elsewhere or values
    yield "returned.rst", returned_page()
    for path in RETURNED:
        module_name, _, each = path.rpartition(".")
        value = getattr(import_module(module_name), each)
        yield f"names/{path}.rst", name_page(module_name, each, value)


def write_pages(app: Sphinx) -> None:
    """Write the pages that are new or have changed, and remove those of names that are gone."""
    folder = Path(app.srcdir) / FOLDER
    wanted = {folder / path: text for path, text in pages()}
    for path in set(folder.rglob("*.rst")) - set(wanted):
        path.unlink()
    for path, text in wanted.items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")


def leave_out_borrowed_members(
    app: Sphinx, what: str, name: str, obj: Any, skip: bool, options: Any
) -> bool | None:
    """Leave out what a class inherits from another library, which documents it."""
    function = obj.fget if isinstance(obj, property) else obj
    home = getattr(function, "__module__", None)
    return True if home is not None and not home.startswith("sswim") else None


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect to the build."""
    app.connect("builder-inited", write_pages)
    app.connect("autodoc-skip-member", leave_out_borrowed_members)
    return {"parallel_read_safe": True}
