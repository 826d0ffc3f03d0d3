"""Turns links to files of the repository, which GitHub follows, into links to pages of the site."""

from __future__ import annotations

import re

from sphinx.application import Sphinx

PAGES = {
    "../CONTRIBUTING.md": "site/contributing.md",
    "../CHANGELOG.md": "site/changes.md",
    "../README.md": "index.md",
    "../lab/results/paper/table-": "site/table-",
}
EXAMPLE = re.compile(r"\]\(\.\./examples/gallery/(?:(\w+)\.py|)\)")


def follow(app: Sphinx, name: str, source: list[str]) -> None:
    """Replace the links of a page."""
    text = EXAMPLE.sub(lambda found: f"](gallery/{found[1] or 'index'}.rst)", source[0])
    for path, page in PAGES.items():
        text = text.replace(f"]({path}", f"]({page}")
    source[0] = text


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect to the build."""
    app.connect("source-read", follow)
    return {"parallel_read_safe": True}
