"""Errors that whoever runs the program can correct."""

from __future__ import annotations


class UserError(ValueError):
    """A mistake in what the user gave: a setting, a name, a file or its content.

    Checks of user input raise it, or a subclass. The command line shows its message without a
    traceback; any other ValueError is a bug and keeps its traceback.
    """
