"""What the commands say: to the terminal, in sentences, without tracebacks."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import typer
from rich.console import Console

from sswim.base.cholesky import FactorisationError
from sswim.distributed.processes import SHARED, ProcessError, is_launched, rank

messages = Console(stderr=True)
output = Console()


def say(console: Console, text: str) -> None:
    """Print text as it is: names of files and columns may look like mark-up."""
    console.print(text, markup=False, highlight=False, soft_wrap=True)


@contextmanager
def user_errors() -> Iterator[None]:
    """Errors and warnings that a user can do something about, without tracebacks."""
    with warnings.catch_warnings():
        # Columns are matched by name when they are encoded, and come as plain arrays after that.
        warnings.simplefilter("default")
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        warnings.showwarning = lambda message, *_: say(messages, f"Warning: {message}")
        try:
            yield
        except (ValueError, OSError, FactorisationError, ProcessError) as error:
            if rank() == 0 or SHARED not in getattr(error, "__notes__", ()):
                say(messages, f"Error{_where()}: {error}")
            raise typer.Exit(1) from error


def _where() -> str:
    """Which process speaks, if there are several."""
    return f" in process {rank()}" if is_launched() else ""
