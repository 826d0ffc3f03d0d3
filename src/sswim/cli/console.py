"""Output of the commands: text, tables of facts, and errors without tracebacks."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import typer
from rich.console import Console

from sswim.base.validation import UserError, visible

messages = Console(stderr=True)
output = Console()


def say(console: Console, text: str) -> None:
    """Print text as it is, because names of files and columns may look like mark-up."""
    console.print(visible(text), markup=False, highlight=False, soft_wrap=True)


def cell(text: object) -> str:
    """Return text for a cell or a title of a table, without mark-up and control characters."""
    from rich.markup import escape

    return escape(visible(str(text)))


def say_left_out(n_left_out: int, n_rows: int) -> None:
    """Print how many of all rows were left out, if any were."""
    if n_left_out:
        say(messages, f"Left out {n_left_out} of {n_rows} rows with missing values.")


def print_facts(console: Console, title: str, facts: Mapping[str, object]) -> None:
    """Print a table with one line for each fact."""
    from rich.table import Table

    table = Table(title=cell(title), show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts.items():
        table.add_row(cell(name), cell(value))
    console.print(table)


@contextmanager
def user_errors() -> Iterator[None]:
    """Print errors that the user can correct, and warnings, as one line; then exit with code 1.

    Any other error is a bug and keeps its traceback.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        # Meant for the developers of other packages.
        warnings.simplefilter("ignore", PendingDeprecationWarning)
        warnings.showwarning = _show
        try:
            yield
        except Exception as error:
            if not _is_user_error(error):
                raise
            _print_error(error)
            raise typer.Exit(1) from error


def _show(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
    """Print a warning, or a note on how a table is read."""
    word = "Note" if category.__name__ == "TableNote" else "Warning"
    say(messages, f"{word}: {message}")


def _is_user_error(error: Exception) -> bool:
    """Return whether the user, rather than a developer, can correct an error."""
    if isinstance(error, UserError | OSError):
        return True
    from sswim.base.cholesky import FactorisationError
    from sswim.distributed.processes import ProcessError

    return isinstance(error, FactorisationError | ProcessError)


def _print_error(error: Exception) -> None:
    """Print an error; of several processes with the same error only the first one prints it."""
    from sswim.distributed.processes import SHARED_ERROR_NOTE, is_launched, rank

    if rank() == 0 or SHARED_ERROR_NOTE not in getattr(error, "__notes__", ()):
        process = f" in process {rank()}" if is_launched() else ""
        say(messages, f"Error{process}: {error}")
