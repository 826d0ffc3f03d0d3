"""The command ``sswim demo``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sswim.cli.console import output, user_errors


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the picture and the page.")] = Path("demo"),
) -> None:
    """Show what warps add on a signal with steps, a wave and a chirp."""
    from sswim.lab.demo import run_demo

    with user_errors():
        out.mkdir(parents=True, exist_ok=True)
        run_demo(out, output)
