"""Debian's chromium without a window, driven by selenium; where it is missing, tests skip with a sentence."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import pytest

from tests.patience import PATIENCE_S
from tests.servers import SERVERS

webdriver = pytest.importorskip("selenium.webdriver", reason="No selenium here: `make venv` installs it.")

from selenium.common.exceptions import StaleElementReferenceException  # noqa: E402
from selenium.webdriver.chrome.service import Service  # noqa: E402
from selenium.webdriver.common.action_chains import ActionChains  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402
from selenium.webdriver.remote.webelement import WebElement  # noqa: E402
from selenium.webdriver.support.ui import WebDriverWait  # noqa: E402

__all__ = ["WIDTHS", "ActionChains", "Browser", "By", "Keys", "chromium", "why_not"]
"""Tests take selenium's names from here: where it is missing, they are skipped and not broken."""

T = TypeVar("T")

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-gpu-rasterization",  # Debian switches it on, and here a processor plays the GPU
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--force-color-profile=srgb",
    # A page that was left is gone, and the next one is in the same process: neither is started in advance.
    "--renderer-process-limit=1",
    "--disable-features=SpareRendererForSitePerProcess,BackForwardCache",
)
BLANK = "about:blank"
WIDTHS = {"wide": (1280, 900), "narrow": (400, 860)}


def why_not() -> str | None:
    """Why there is no browser here, or None."""
    if os.environ.get(SERVERS) == "no":
        return f"{SERVERS}=no"
    if shutil.which("chromium") is None or shutil.which("chromedriver") is None:
        return "No chromium here: install the packages chromium and chromium-driver, or run `make servers`."
    return None


class Browser:
    """One window, and what its page complained about."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver

    def size(self, width: int, height: int) -> None:
        """The page's own size, which a window's borders are no part of."""
        values = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", values)

    def open(self, url: str, route: str = "") -> None:
        """A page from its beginning: nothing of the one before is left."""
        if self.driver.current_url != BLANK:
            self.driver.get(BLANK)
        self.driver.get(f"{url}#/{route}")

    def leave(self) -> None:
        """To no page; what the last one has stored is forgotten, for the next may be at the same address."""
        self.driver.execute_script("try { localStorage.clear() } catch {}")  # a page of no server has none
        self.driver.get(BLANK)

    def go(self, route: str) -> None:
        self.driver.execute_script("location.hash = arguments[0]", f"#/{route}")

    @property
    def text(self) -> str:
        return str(self.driver.execute_script("return document.body ? document.body.innerText : ''"))

    def all(self, css: str) -> list[WebElement]:
        return list(self.driver.find_elements(By.CSS_SELECTOR, css))

    def until(self, what: Callable[[], T], about: str = "") -> T:
        """The first true value; an element that was redrawn meanwhile is looked for again."""
        wait = WebDriverWait(
            self.driver, PATIENCE_S, 0.05, ignored_exceptions=[StaleElementReferenceException]
        )
        return wait.until(lambda _: what(), about)

    def until_says(self, *words: str) -> str:
        for word in words:
            self.until(lambda word=word: word in self.text, f"the page does not say {word!r}")  # type: ignore[misc]
        return self.text

    def button(self, name: str, within: str = "body") -> WebElement:
        """The button that is called so, once it is there."""
        found = f"//*[self::button or self::a or self::summary][normalize-space()={name!r}]"
        return self.until(
            lambda: next(
                (
                    one
                    for place in self.all(within)
                    for one in place.find_elements(By.XPATH, f".{found}")
                    if one.is_displayed()
                ),
                None,
            ),
            f"no button {name!r}",
        )

    def press(self, name: str, within: str = "body") -> None:
        def pressed() -> bool:
            button = self.button(name, within)
            if not button.is_enabled():  # to click it then does nothing, without a word
                return False
            button.click()
            return True

        self.until(pressed, f"{name!r} cannot be pressed")

    def complaints(self) -> list[str]:
        """Script errors, refusals by the page's policy, and files that were not found.

        Calls of the API are left out: a server that lacks something is no error of the page.
        """
        kept = [entry for entry in self.driver.get_log("browser") if entry["level"] == "SEVERE"]
        return [entry["message"] for entry in kept if not _an_answer(entry)]

    def shot(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.driver.save_screenshot(str(path))


def _an_answer(entry: dict[str, str]) -> bool:
    address = entry["message"].split(" ", 1)[0]
    return entry["source"] == "network" and not address.endswith((".js", ".css", ".svg", ".html"))


@contextmanager
def chromium(profile: Path, *flags: str) -> Iterator[Browser]:
    """A browser with a profile of its own."""
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for flag in (*FLAGS, f"--user-data-dir={profile}", *flags):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    try:
        yield Browser(driver)
    finally:
        driver.quit()
