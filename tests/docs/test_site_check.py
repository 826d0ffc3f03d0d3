"""The script that checks the links of the built site."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "check_site.py"

Check = Callable[[], tuple[object, str]]

START = """
<h1 id="top">Start</h1><a href="guide.html#maps">Maps</a> <a href="#top">up</a>
<a href="https://example.org/gone">elsewhere</a><img src="picture.png">
<p class="sphx-glr-timing">seconds</p>
"""
GUIDE = '<h2 id="maps">Maps</h2><a href="../site/">start</a><a href="index.html">start</a>'


@pytest.fixture
def site(tmp_path: Path) -> Path:
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "index.html").write_text(START)
    (folder / "guide.html").write_text(GUIDE)
    (folder / "picture.png").write_bytes(b"")
    (tmp_path / "warnings.txt").write_text("")
    return folder


@pytest.fixture
def check(site: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Check:
    """Run the script; return its exit code and what it prints."""

    def run() -> tuple[object, str]:
        arguments = [str(SCRIPT), str(site), str(site.parent / "warnings.txt")]
        monkeypatch.setattr("sys.argv", arguments)
        with pytest.raises(SystemExit) as ended:
            runpy.run_path(str(SCRIPT), run_name="__main__")
        return ended.value.code, capsys.readouterr().out

    return run


def test_a_site_without_faults_passes_and_warnings_of_the_build_fail(
    site: Path, check: Check
) -> None:
    counts = "2 pages, 1 executed examples, 6 links: 0 broken links, "
    assert check() == (0, f"{counts}0 warnings\n")
    (site.parent / "warnings.txt").write_text("page.md:3: WARNING: unknown document\n")
    code, printed = check()
    assert code == 1
    assert f"{counts}1 warnings\n" in printed


@pytest.mark.parametrize("link", ["gone.html", "guide.html#gone", "#gone", "gone.png"])
def test_a_broken_link_is_named(site: Path, check: Check, link: str) -> None:
    (site / "guide.html").write_text(GUIDE + f'<a href="{link}">gone</a>')
    code, printed = check()
    assert code == 1
    assert f"guide.html: broken link {link}\n" in printed
    assert "1 broken links" in printed
