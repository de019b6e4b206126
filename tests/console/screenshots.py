"""The pictures of ``docs/console.md``: ``python -m tests.console.screenshots`` takes them of a fake job."""

from __future__ import annotations

import tempfile
from pathlib import Path

from PIL import Image

from tests.console.browser import Browser, chromium
from tests.console.fake_job import JOB, now_ms
from tests.console.fake_rest import FakeRest

IMAGES = Path(__file__).resolve().parents[2] / "docs" / "images"
COLOURS = 128
LOOKS = 60
"""How often the job is looked at before a picture, so that its charts have something to show."""


def take(browser: Browser, rest: FakeRest, name: str, route: str, size: tuple[int, int], theme: str) -> None:
    """One picture, with few colours: the files stay small."""
    browser.size(*size)
    browser.open(rest.url)
    browser.driver.execute_script("localStorage.setItem('penstock.theme', arguments[0])", theme)
    browser.open(rest.url, route)
    seen = rest.job.looks
    browser.until(lambda: rest.job.looks > seen + LOOKS)
    path = IMAGES / f"console_{name}.png"
    browser.shot(path)
    with Image.open(path) as image:
        image.convert("RGB").quantize(COLOURS).save(path, optimize=True)


def main() -> None:
    """All of them."""
    with tempfile.TemporaryDirectory() as profile, FakeRest() as rest, chromium(Path(profile)) as browser:
        take(browser, rest, "overview", f"job/{JOB}/overview", (1280, 900), "light")
        take(browser, rest, "checkpoint", f"job/{JOB}/checkpoints/25", (1280, 900), "light")
        since = now_ms() - 175_000
        rest.why = {"watermark": {"holder": "Source: clicks, split clicks-3", "since": since}}
        take(browser, rest, "why", f"job/{JOB}/why", (1280, 760), "light")
        take(browser, rest, "state", f"job/{JOB}/state", (1280, 620), "light")
        take(browser, rest, "narrow", f"job/{JOB}/overview", (400, 860), "dark")


if __name__ == "__main__":
    main()
