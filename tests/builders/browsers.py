"""A headless Chromium for tests of pages: what it logs, what it requests, what it shows."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

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
