"""Text of strangers with its control characters made visible."""

from __future__ import annotations

import unicodedata

_HARMLESS = "\n\t\u00ad\u200c\u200d"
"""Control characters that stay: of lines, and of writing."""


def visible(text: str) -> str:
    r"""Show control characters as escapes, such as \x1b.

    They could rewrite what a terminal shows, or turn around the text of a page. Line ends and tabs
    stay, and so do the joiners of scripts that need them.
    """
    if text.isprintable():
        return text
    return "".join(each if _is_shown(each) else _escaped(each) for each in text)


def _is_shown(character: str) -> bool:
    return character in _HARMLESS or unicodedata.category(character) not in ("Cc", "Cf", "Cs")


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode()
