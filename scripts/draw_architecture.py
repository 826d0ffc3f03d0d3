"""Draw the rooms of the package and the imports between them, from the code itself.

    python scripts/draw_architecture.py docs/images/architecture.png

Every box is a room with its number of modules and lines. An arrow means that the lower room imports
the upper one; its width grows with the number of imports. The order of the rooms is that of the
import-linter contract in pyproject.toml.
"""

from __future__ import annotations

import argparse
import ast
import sys
import tomllib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "sswim"

CARRIES = {
    "base": "records of tensors, Cholesky, checks",
    "files": "files that are complete or absent, sealed files",
    "distributed": "processes and their shares of the rows",
    "search": "the nearest rows",
    "rows": "source → chunks → summary → standardised rows",
    "kernels": "frequencies → expected features; exact kernels",
    "warps": "pseudo-data → warped measures; output warp, noise",
    "members": "start → train → leave out → condition → predict",
    "ensemble": "plan → members → weights → mixture",
    "insight": "relevance, local metric, effects",
    "conformal": "intervals with a guarantee, signs of drift",
    "surrogate": "exact GPs on warped inputs, for few rows",
    "tables": "frames, Parquet, CSV → schema → source of rows",
    "estimator": "the estimators: fit, predict, save, load",
    "maps": "grids, files of maps, blocks",
    "plotting": "figures",
    "report": "scores, charts → one page",
    "integrations": "sswim inside other libraries",
    "cli": "the command sswim",
}
"""The data that flow through each room."""


@dataclass(frozen=True)
class Room:
    """A sub-package, and the number of its imports of each other room."""

    name: str
    n_modules: int
    n_lines: int
    imports: Counter[str]


def room_order() -> list[str]:
    """Return the rooms from the first to the last, as the import contract has them."""
    content = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    contract = content["tool"]["importlinter"]["contracts"][0]
    return list(reversed(contract["layers"]))


def read_rooms() -> list[Room]:
    """Read all rooms from the source."""
    return [_read_room(name) for name in room_order()]


def _read_room(name: str) -> Room:
    files = sorted((PACKAGE / name).rglob("*.py"))
    texts = [file.read_text("utf-8") for file in files]
    imported = Counter(
        room for text in texts for room in _imported_rooms(ast.parse(text)) if room != name
    )
    n_modules = sum(file.name != "__init__.py" for file in files)
    return Room(name, n_modules, sum(text.count("\n") for text in texts), imported)


def _imported_rooms(tree: ast.Module) -> list[str]:
    """Return the rooms that a module imports, inside functions too; one entry per import."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            package, *rest = node.module.split(".")
            if package == "sswim":
                found += rest[:1] or [alias.name for alias in node.names]
    return [room for room in found if room in CARRIES]


def draw(rooms: list[Room]) -> Figure:
    """Draw the rooms from top to bottom, with their imports at the right."""
    figure = Figure(figsize=(9.4, 0.82 * len(rooms) + 0.4), layout="constrained")
    axes = figure.subplots()
    heights = {room.name: -number for number, room in enumerate(rooms)}
    for room in rooms:
        _draw_box(axes, room, heights[room.name])
        for other, count in room.imports.items():
            _draw_import(axes, heights[room.name], heights[other], count)
    axes.set_xlim(-0.1, 9.5)
    axes.set_ylim(-len(rooms) + 0.45, 0.55)
    axes.set_axis_off()
    return figure


def _draw_box(axes: Axes, room: Room, height: float) -> None:
    box = FancyBboxPatch(
        (0, height - 0.34),
        6.4,
        0.68,
        boxstyle="round,pad=0,rounding_size=0.12",
        facecolor="#eef3f8",
        edgecolor="#4a6785",
    )
    axes.add_patch(box)
    axes.text(0.15, height + 0.1, room.name, fontsize=12, fontweight="bold", va="center")
    plural = "module" if room.n_modules == 1 else "modules"
    size = f"{room.n_modules} {plural}, {room.n_lines:,} lines"
    axes.text(6.25, height + 0.1, size, fontsize=9, ha="right", va="center", color="#555555")
    axes.text(0.15, height - 0.18, CARRIES[room.name], fontsize=9.5, va="center")


def _draw_import(axes: Axes, importer: float, imported: float, count: int) -> None:
    """Draw an arc from the importing room to the imported one; longer arcs reach further right."""
    distance = abs(imported - importer)
    arrow = FancyArrowPatch(
        (6.42, importer + 0.12),
        (6.42, imported - 0.12),
        connectionstyle=f"arc3,rad={0.30 + 0.30 / distance:.3f}",
        arrowstyle="-|>",
        mutation_scale=9,
        linewidth=0.4 + 0.05 * min(count, 40),
        color="#b5523b" if imported < importer else "#4a6785",
        alpha=0.55,
    )
    axes.add_patch(arrow)


def main() -> int:
    """Write the picture."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("out", type=Path, help="a PNG, SVG or PDF file")
    out = parser.parse_args().out
    draw(read_rooms()).savefig(out, dpi=110)
    print(f"Wrote {out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
