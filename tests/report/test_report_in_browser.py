"""Reports in a real browser: nothing fails, nothing is requested, nothing of the data runs."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from builders import reports
from builders.reports import HOSTILE, IMAGE_TEXT, SCRIPT_NAME, Case

from sswim.report import write_report

PHONE, DESK = 390, 1280
"""Widths of windows, in pixels."""


class Browser:
    """A browser that opens files, with its log and its requests."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def open(self, path: Path, *, width: int = DESK, dark: bool = False) -> None:
        """Open a file in a window of a width, on a system with light or dark colours."""
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width == PHONE}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        colours = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [colours]})
        self.driver.get_log("performance")  # those of earlier pages are forgotten
        self.driver.get_log("browser")
        self.driver.get(path.as_uri())

    def run(self, script: str, *arguments: Any) -> Any:
        """Run a script in the page, and return what it returns."""
        return self.driver.execute_script(script, *arguments)

    def log(self) -> list[str]:
        """Return the messages of the console, which has those of the security policy too."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requests(self) -> list[str]:
        """Return the addresses that were requested, without those that hold their content."""
        events = [
            json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")
        ]
        sent = [each for each in events if each["method"] == "Network.requestWillBeSent"]
        found = [each["params"]["request"]["url"] for each in sent]
        return [url for url in found if not url.startswith("data:")]

    def move_pointer(self, selector: str, *places: tuple[float, float], drag: bool = False) -> None:
        """Move the mouse over an element to places, given as shares of its width and height."""
        from selenium.webdriver.common.by import By  # noqa: PLC0415 (it need not be installed)

        element = self.driver.find_element(By.CSS_SELECTOR, selector)
        self.run("arguments[0].scrollIntoView({block: 'center'})", element)
        box = self.run(
            "const r = arguments[0].getBoundingClientRect(); return [r.x, r.y, r.width, r.height]",
            element,
        )
        for number, (across, down) in enumerate(places):
            event = {"x": box[0] + across * box[2], "y": box[1] + down * box[3], "button": "none"}
            self._send(event | {"type": "mouseMoved", "buttons": int(drag and number > 0)})
            if drag and number in (0, len(places) - 1):
                kind = "mouseReleased" if number else "mousePressed"
                self._send(event | {"type": kind, "button": "left", "clickCount": 1})

    def _send(self, event: dict[str, Any]) -> None:
        self.driver.execute_cdp_cmd("Input.dispatchMouseEvent", event)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """A headless Chromium or Chrome; tests skip where there is none."""
    pytest.importorskip("selenium", reason="needs selenium, of the extra dev")
    from selenium import webdriver  # noqa: PLC0415 (it need not be installed)
    from selenium.webdriver.chrome.service import Service  # noqa: PLC0415

    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    binary = next(filter(None, map(shutil.which, names)), None)
    driver_path = shutil.which("chromedriver")
    if binary is None or driver_path is None:
        pytest.skip("needs Chromium and chromedriver: apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for argument in ("--headless=new", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    if getattr(os, "geteuid", lambda: 1)() == 0:
        options.add_argument("--no-sandbox")  # Chromium refuses to start for root otherwise
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(driver_path))
    try:
        yield Browser(driver)
    finally:
        driver.quit()


CASES = ("one_input", "two_inputs", "many_columns", "hostile_table")


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return the report of a case by its name; each is written once."""
    folder = tmp_path_factory.mktemp("reports")

    def page(name: str) -> Path:
        path = folder / f"{name}.html"
        if not path.exists():
            case: Case = getattr(reports, name)()
            write_report(case.model, case.X, case.y, path)
        return path

    return page


Pages = Callable[[str], Path]


def choose(browser: Browser, name: str) -> None:
    """Choose the column against which residuals are drawn."""
    browser.run(
        "const select = document.querySelector('#residuals select'); select.value = arguments[0];"
        "select.dispatchEvent(new Event('change'))",
        name,
    )


@pytest.mark.parametrize("width", [DESK, PHONE])
@pytest.mark.parametrize("name", CASES)
def test_pages_draw_all_charts_without_errors_requests_or_overflow(
    browser: Browser, pages: Pages, name: str, width: int
) -> None:
    browser.open(pages(name), width=width)
    assert browser.log() == []
    assert browser.requests() == [pages(name).as_uri()]
    assert browser.run("return document.documentElement.scrollWidth") <= width
    too_wide = browser.run(
        "return [...document.querySelectorAll('main *')].filter(e => !e.closest('.wide, svg') &&"
        " e.getBoundingClientRect().right > innerWidth + 1).map(e => e.outerHTML.slice(0, 99))"
    )
    assert too_wide == []
    assert browser.run(
        "return [...document.querySelectorAll('.plot')].every(e => !e.clientWidth ||"
        " e.querySelector('svg path, svg image'))"
    )
    assert browser.run("return document.querySelectorAll('.plot svg').length") >= 8
    assert not browser.run(
        "return [...document.querySelectorAll('path')].some("
        "e => /NaN|undefined|Infinity/.test(e.getAttribute('d')))"
    )


def test_nothing_of_the_data_becomes_an_element_or_a_script(browser: Browser, pages: Pages) -> None:
    browser.open(pages("hostile_table"))
    assert browser.log() == []
    assert browser.run("return document.images.length") == 0
    assert browser.run("return document.querySelectorAll('script:not([type])').length") == 1
    assert (
        browser.run("return document.querySelectorAll('[onerror], [onmouseover], b').length") == 0
    )
    text = browser.run("return document.body.innerText + document.title")
    assert SCRIPT_NAME in text
    assert IMAGE_TEXT in text
    assert "</title><script>alert(1)</script>" in browser.run("return document.title")
    # Names and levels are also text in charts, which the script draws from JSON.
    drawn = "return document.querySelector('#residuals .option:not([hidden]) svg').textContent"
    choose(browser, SCRIPT_NAME)
    assert SCRIPT_NAME in browser.run(drawn)
    choose(browser, IMAGE_TEXT)
    assert any(level[:4] in browser.run(drawn) for level in HOSTILE)
    assert "\x00" not in text
    assert "\u202e" not in text
    browser.move_pointer("#residuals .option:not([hidden]) svg", (0.5, 0.5), (0.52, 0.45))
    assert browser.log() == []


def test_policy_stops_scripts_and_requests_even_if_something_slips_in(
    browser: Browser, pages: Pages
) -> None:
    browser.open(pages("one_input"))
    browser.run(
        "const i = document.createElement('img'); i.src = 'https://example.org/x.png';"
        "document.body.append(i); const s = document.createElement('script');"
        "s.textContent = 'window.owned = 1'; document.body.append(s);"
    )
    assert browser.run("return window.owned") is None
    messages = browser.log()
    assert any("img-src" in message for message in messages)
    assert any("script-src" in message for message in messages)


def test_a_click_on_a_head_sorts_the_table(browser: Browser, pages: Pages) -> None:
    browser.open(pages("many_columns"))
    cells = (
        "return [...document.querySelector('table.sortable').tBodies[0].rows]"
        ".map(row => Number(row.cells[{}].textContent.replace('−', '-')))"
    )
    click = "document.querySelectorAll('table.sortable th button')[{}].click()"
    densities = browser.run(cells.format(1))
    assert densities == sorted(densities)
    for column in (0, 2, 9):
        browser.run(click.format(column))
        values = browser.run(cells.format(column))
        assert values == sorted(values)
        assert values != browser.run(cells.format(1))
        browser.run(click.format(column))
        assert browser.run(cells.format(column)) == sorted(values, reverse=True)
    assert browser.run("return document.querySelectorAll('th[aria-sort]').length") == 1


def test_colours_follow_the_system_or_the_switch(browser: Browser, pages: Pages) -> None:
    background = "return getComputedStyle(document.body).backgroundColor"
    click = "document.querySelector('.themes button[value={}]').click()"
    browser.open(pages("one_input"))
    browser.run("localStorage.clear()")
    light = browser.run(background)
    browser.run(click.format("dark"))
    dark = browser.run(background)
    assert dark != light
    browser.open(pages("one_input"))
    assert browser.run(background) == dark  # it was remembered
    browser.run(click.format("auto"))
    assert browser.run(background) == light
    browser.open(pages("one_input"), dark=True)
    assert browser.run(background) == dark
    browser.run(click.format("light"))
    assert browser.run(background) == light
    browser.run("localStorage.clear()")


def test_charts_show_values_zoom_and_hide_layers(browser: Browser, pages: Pages) -> None:
    browser.open(pages("two_inputs"))
    chart = "#scores .chart"
    path = f"return document.querySelector('{chart} svg .dots').getAttribute('d')"
    before = browser.run(path)
    browser.move_pointer(f"{chart} svg", (0.5, 0.5), (0.55, 0.5), (0.6, 0.45), (0.65, 0.4))
    tips = "return [...document.querySelectorAll('.tip:not([hidden]) div')].map(e => e.textContent)"
    assert any(line.startswith("observed height") for line in browser.run(tips))
    browser.move_pointer(f"{chart} svg", (0.3, 0.3), (0.5, 0.5), (0.7, 0.6), drag=True)
    assert browser.run(path) != before
    reset = f"return document.querySelector('{chart} .reset').hidden"
    assert browser.run(reset) is False
    browser.run(f"document.querySelector('{chart} .reset').click()")
    assert browser.run(path) == before
    browser.run(f"[...document.querySelectorAll('{chart} .legend button')].at(-1).click()")
    assert browser.run(f"return document.querySelector('{chart} svg .dots')") is None
    assert browser.log() == []


def test_keys_zoom_a_chart(browser: Browser, pages: Pages) -> None:
    browser.open(pages("one_input"))
    press = (
        "document.querySelector('#predictions svg').dispatchEvent(new KeyboardEvent('keydown',"
        " {{key: '{}'}})); return document.querySelector('#predictions .reset').hidden"
    )
    assert browser.run(press.format("+")) is False
    assert browser.run(press.format("ArrowLeft")) is False
    assert browser.run(press.format("Escape")) is True


def test_a_choice_shows_one_chart_at_a_time(browser: Browser, pages: Pages) -> None:
    browser.open(pages("many_columns"))
    shown = (
        "return [...document.querySelectorAll('#residuals .option:not([hidden]) h3')]"
        ".map(e => e.textContent)"
    )
    assert len(browser.run(shown)) == 1
    choose(browser, "column 17")
    assert browser.run(shown) == ["Residuals against column 17"]
