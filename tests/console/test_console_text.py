"""What users typed and records held is text in the page, whatever it looks like."""

from __future__ import annotations

import pytest

from tests.console.browser import WIDTHS, Browser
from tests.console.fake_job import JOB, FakeJob, Vertex, now_ms
from tests.console.fake_rest import FakeRest

HOSTILE = {
    "markup": '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>',
    "script url": "javascript:window.hacked=1",
    "template": "${window.hacked=1} {{constructor.constructor('window.hacked=1')()}}",
    "very long": "x" * 4000,
    "right to left": "\u202eكلمة سر \u202d מילה סודית",
    "control": "a\u0000b\u0007\nc\td",
}

STEP = f"job/{JOB}/overview/{'a' * 32}"
PAGES = (
    "",
    f"job/{JOB}",
    STEP,
    f"{STEP}/flame",
    *(
        f"job/{JOB}/{page}"
        for page in ("why", "checkpoints/20", "exceptions", "timeline", "events", "configuration")
    ),
)


def hostile_job(name: str) -> FakeJob:
    step = Vertex("a" * 32, name, 2, (), 100, operators={f"{name.replace('.', '')}.numLateRecordsDropped": 3})
    sink = Vertex("b" * 32, name, 1, (("a" * 32, name),), 100)
    job = FakeJob(name=name, vertices=[step, sink])
    job.fail(name, f'Traceback (most recent call last):\n  File "{name}", line 1\n{name}')
    job.failures[0]["failureLabels"] = {name: name}
    return job


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_names_are_text(browser: Browser, kind: str) -> None:
    name = HOSTILE[kind]
    with FakeRest(hostile_job(name)) as rest:
        rest.why = {
            "watermark": {"holder": name, "since": now_ms()},
            "bottleneck": {"text": name},
            "held": name,
            "stalled": name,
        }
        rest.events = [{"time": now_ms(), "kind": name, "text": name}]
        browser.size(*WIDTHS["narrow"])
        browser.open(rest.url, PAGES[0])
        check(browser, name, PAGES[0])
        for page in PAGES[1:]:
            browser.size(*WIDTHS["narrow"])
            before = browser.driver.title
            browser.go(page)
            browser.until(lambda: browser.driver.title != before, f"{page} does not open")
            check(browser, name, page)


def check(browser: Browser, name: str, page: str) -> None:
    """The page, once all of it is there, is harmless as narrow as it was opened, and when it is widened."""
    browser.until(lambda: said(browser, name), f"{page} does not show the name")
    browser.until(lambda: not browser.all("[aria-busy]"), f"{page} is not all there")
    for width in ("narrow", "wide"):
        browser.size(*WIDTHS[width])
        assert browser.driver.execute_script("return window.hacked") is None
        assert not browser.all("main img, main script, main [onerror], a[href^='javascript:']")
        fits = "return document.documentElement.scrollWidth <= innerWidth"
        browser.until(
            lambda: browser.driver.execute_script(fits), f"{page} goes sideways where it is {width}"
        )
        assert not browser.complaints()


def said(browser: Browser, name: str) -> bool:
    """Whether an element of the page has it as its text, letter by letter."""
    probe = """const found = [...document.querySelectorAll("main bdi")];
    return found.some((element) => element.textContent.startsWith(arguments[0]));"""
    return bool(browser.driver.execute_script(probe, name[:200]))


def test_an_error_of_the_server_is_text(browser: Browser, rest: FakeRest) -> None:
    rest.refuse = HOSTILE["markup"]
    browser.open(rest.url, f"job/{JOB}/overview")
    browser.press("Checkpoint…")
    browser.press("Take a checkpoint", "dialog")
    browser.until(lambda: HOSTILE["markup"] in browser.all("dialog")[0].text)
    assert browser.driver.execute_script("return window.hacked") is None
