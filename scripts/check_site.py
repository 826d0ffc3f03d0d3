"""Check that every local link of a built site leads somewhere, and count what was built.

Run ``python scripts/check_site.py docs/_build/html docs/_build/warnings.txt``; ``make docs`` does.
The exit code is 1 if a link is broken or the build had warnings. Links to other sites are not
followed.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LINKS = {"href", "src", "data-src", "poster"}
EXECUTED = "sphx-glr-timing"
"""The class of the line under an example that says how long it ran."""


@dataclass
class Page(HTMLParser):
    """The links and the anchors of a page."""

    path: Path
    links: list[str] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)
    executed: bool = False

    def __post_init__(self) -> None:
        super().__init__()
        self.feed(self.path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect what an element refers to, and its own names."""
        for name, value in attrs:
            if value is None:
                continue
            if name in LINKS:
                self.links.append(value)
            elif name == "id" or (tag == "a" and name == "name"):
                self.anchors.add(value)
            elif name == "class" and EXECUTED in value.split():
                self.executed = True


def broken_links(page: Page, pages: dict[Path, Page]) -> list[str]:
    """Return the local links of a page that lead to no file or no anchor."""
    broken = []
    for link in page.links:
        parts = urlsplit(link)
        if parts.scheme or parts.netloc:
            continue
        target = page.path
        if parts.path:
            target = (page.path.parent / unquote(parts.path)).resolve()
            target = target / "index.html" if target.is_dir() else target
        anchor = unquote(parts.fragment)
        anchors = pages[target].anchors if target in pages else None
        if not target.exists() or (anchor and anchors is not None and anchor not in anchors):
            broken.append(link)
    return broken


def main() -> int:
    """Check the site, and print the broken links and the counts."""
    folder = Path(sys.argv[1]).resolve()
    found = sorted(path for path in folder.rglob("*.html") if "_static" not in path.parts)
    pages = {path: Page(path) for path in found}
    n_links = n_broken = 0
    for page in pages.values():
        n_links += len(page.links)
        for link in broken_links(page, pages):
            n_broken += 1
            print(f"{page.path.relative_to(folder)}: broken link {link}")
    n_executed = sum(page.executed for page in pages.values())
    n_warnings = Path(sys.argv[2]).read_text(encoding="utf-8").count("WARNING")
    print(
        f"{len(pages)} pages, {n_executed} executed examples, {n_links} links: "
        f"{n_broken} broken links, {n_warnings} warnings"
    )
    return 1 if n_broken or n_warnings or not pages else 0


if __name__ == "__main__":
    sys.exit(main())
