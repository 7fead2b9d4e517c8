"""A real Chromium for tests. It starts once; pages report in `data-ready` that their requests have finished."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement

from omnigraph.base.clock import SYSTEM_CLOCK

_FLAGS: Final = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1280,900",
)
WIDE, NARROW = 1280, 400


@dataclass(slots=True, kw_only=True)
class Browser:
    """A window of Chromium."""

    driver: Chrome
    base: str = ""
    """The address of the server."""
    seconds_max: float = 120.0
    """The limit of a wait, which only a page that hangs reaches."""
    expected: tuple[str, ...] = ()
    """Parts of console messages that the test causes, such as a status that the browser reports."""

    def load(self, place: str = "") -> None:
        """Load the document of the server, as a new window or with another token, and wait until the page is drawn."""
        self.driver.get("about:blank")
        self.driver.get(f"{self.base}/{place}")
        self.wait_ready()

    def open(self, place: str) -> None:
        """Open a page as a new one: without loading the document again, if it is the one of the server."""
        if self.run("return location.href.split('#')[0]") != f"{self.base}/":
            self.load(place)
            return
        self.go("#/graphs")  # no part of a page of a graph remains
        self.go(place)

    def go(self, place: str) -> None:
        """Go to another address of the same document."""
        self.run("location.hash = arguments[0]", place)
        self.wait_ready()

    def wait_ready(self) -> None:
        ready = "return document.documentElement.dataset.ready === (location.hash || '#')"
        self.wait_for(lambda: bool(self.run(ready)), "the page is ready")

    def call(self, name: str, *arguments: Any) -> Any:
        """Call a function of `api.js` for the graph, as a page does, and return the document."""
        script = "const [name, ...rest] = arguments; return import('./ui/app/api.js').then(api => api[name](...rest))"
        return self.run(script, name, "default", *arguments)

    def allow_downloads(self, directory: Path) -> None:
        settings = {"behavior": "allow", "downloadPath": str(directory)}
        self.driver.execute_cdp_cmd("Browser.setDownloadBehavior", settings)

    def wait_download(self, directory: Path, pattern: str) -> bytes:
        """Wait until a file is downloaded, and return its content. Chromium renames it at the end."""
        self.wait_for(lambda: bool(list(directory.glob(pattern))), f"a file {pattern}")
        return next(directory.glob(pattern)).read_bytes()

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def find(self, selector: str) -> WebElement:
        """Wait for an element and return it."""
        self.wait_for(lambda: bool(self.all(selector)), selector)
        return self.all(selector)[0]

    def all(self, selector: str) -> list[WebElement]:
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def click(self, selector: str, text: str = "") -> None:
        """Click the first element that a selector matches and that contains a text."""
        find = "return [...document.querySelectorAll(arguments[0])].find(e => e.textContent.includes(arguments[1]))"
        self.wait_for(lambda: self.run(find, selector, text) is not None, f"{selector} {text}")
        self.run("arguments[0].scrollIntoView({block: 'center'})", self.run(find, selector, text))
        self.run(find, selector, text).click()

    def type(self, selector: str, text: str) -> None:
        """Replace the content of a field."""
        script = """const [field, text] = arguments;
            Object.getOwnPropertyDescriptor(Object.getPrototypeOf(field), 'value').set.call(field, text);
            for (const name of ['input', 'change']) field.dispatchEvent(new Event(name, {bubbles: true}))"""
        self.run(script, self.find(selector), text)

    def log_in(self, token: str) -> None:
        self.type("#token", token)
        self.click(".login button")

    def text(self, selector: str = "main") -> str:
        shown = self.run("return document.querySelector(arguments[0])?.innerText", selector)
        return str(shown or "")

    def wait_text(self, text: str, selector: str = "main") -> None:
        self.wait_for(lambda: text in self.text(selector), f"'{text}' in {selector}")

    def wait_for(self, condition: Callable[[], bool], what: str) -> None:
        deadline = SYSTEM_CLOCK.monotonic() + self.seconds_max
        while not condition():
            assert SYSTEM_CLOCK.monotonic() < deadline, (
                f"timed out: {what}. The window shows: {self.text('body')[:2_000]}"
            )
            SYSTEM_CLOCK.sleep(0.01)

    def resize(self, width: int, height: int = 900) -> None:
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def wait_frame(self) -> None:
        """Wait until the window is drawn with a new size or mode."""
        script = "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => done()))"
        self.driver.execute_async_script(script)

    def set_dark(self, *, is_dark: bool) -> None:
        features = [{"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def scrolls_sideways(self) -> bool:
        return bool(self.run("const e = document.scrollingElement; return e.scrollWidth > e.clientWidth"))

    def console(self) -> list[str]:
        """Return the messages of the console since the last call."""
        return [entry["message"] for entry in self.driver.get_log("browser")]  # type: ignore[no-untyped-call]

    def save(self, file: Path) -> None:
        self.driver.save_screenshot(str(file))


def find_programs() -> tuple[str, str]:
    """Return the paths of Chromium and its driver; raise if one is missing."""
    programs = (os.environ.get("OMNIGRAPH_CHROMIUM") or shutil.which("chromium"), shutil.which("chromedriver"))
    if programs[0] is None or programs[1] is None:
        raise RuntimeError("Chromium is missing. Run `apt-get update && apt-get install chromium chromium-driver`.")
    return programs[0], programs[1]


@contextmanager
def start_browser(directory: Path) -> Iterator[Browser]:
    """Start Chromium with an empty profile."""
    program, driver_program = find_programs()
    options = ChromeOptions()
    options.binary_location = program
    for flag in (*_FLAGS, f"--user-data-dir={directory}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = Chrome(options=options, service=Service(driver_program))  # with a path, selenium downloads nothing
    browser = Browser(driver=driver)
    driver.set_script_timeout(browser.seconds_max)
    try:
        yield browser
    finally:
        driver.quit()
