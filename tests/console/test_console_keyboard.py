"""The keyboard reaches everything, and who uses it sees where they are."""

from __future__ import annotations

import pytest

from tests.console.browser import ActionChains, Browser, Keys
from tests.console.fake_job import JOB
from tests.console.fake_rest import FakeRest

REACHABLE = """
const shown = (element) => element.checkVisibility({contentVisibilityAuto: true, visibilityProperty: true});
const kinds = "a[href], button:not(:disabled), input, select, summary, [tabindex='0']";
return [...document.querySelectorAll(kinds)].filter(shown).length;
"""
MARK = """
const here = document.activeElement;
const seen = here.dataset.seen === arguments[0];
here.dataset.seen = arguments[0];
const style = getComputedStyle(here);
const outlined = style.outlineStyle !== "none" && style.outlineWidth !== "0px";
return {seen, body: here === document.body, outlined};
"""
NAMELESS = """
const named = (e) => (e.getAttribute("aria-label") || e.textContent || e.title || "").trim();
const fields = [...document.querySelectorAll("input, select")].filter((field) => !field.labels?.length);
const kinds = "a, button, summary, [role=region], [role=img]";
const others = [...document.querySelectorAll(kinds)].filter((e) => !named(e));
return [...fields, ...others].map((element) => element.outerHTML.slice(0, 200));
"""
PAGES = {
    "": "No job has ended yet.",
    f"job/{JOB}": "Freshness and late records",
    f"job/{JOB}/overview/{'d' * 32}/metrics": "0.numRecordsIn",
    f"job/{JOB}/why": "Most",
    f"job/{JOB}/checkpoints/20": "The same as a table",
    "driver/logs": "Follow the end",
}


@pytest.mark.parametrize("route", PAGES)
def test_tab_reaches_everything_and_shows_where(browser: Browser, rest: FakeRest, route: str) -> None:
    # Nothing is drawn anew while the keys go round: the page asks again only after a very long time.
    rest.refresh_ms = 10_000_000
    browser.open(rest.url, route)
    browser.until_says(PAGES[route])
    wanted = browser.until(lambda: settled(browser))
    reached = 0
    for _ in range(wanted + 20):
        ActionChains(browser.driver).send_keys(Keys.TAB).perform()
        found = browser.driver.execute_script(MARK, "once")
        if found["body"]:
            continue
        if found["seen"]:
            break
        assert found["outlined"]
        reached += 1
    assert reached == wanted


def settled(browser: Browser) -> int:
    """How much there is to reach, once two looks in a row say the same."""
    before = browser.driver.execute_script(REACHABLE)
    browser.driver.execute_async_script("setTimeout(arguments[0], 300)")
    after = int(browser.driver.execute_script(REACHABLE))
    return after if after == before else 0


@pytest.mark.parametrize("route", PAGES)
def test_everything_has_a_name(browser: Browser, rest: FakeRest, route: str) -> None:
    browser.open(rest.url, route)
    browser.until(lambda: browser.all("main h1"))
    browser.until(lambda: not browser.all("[aria-busy]"))
    assert browser.driver.execute_script(NAMELESS) == []
    headings = [heading.tag_name for heading in browser.all("main h1, main h2")]
    assert headings.count("h1") == 1 and headings[0] == "h1"


def test_a_step_is_opened_and_left_by_keys(browser: Browser, rest: FakeRest) -> None:
    browser.open(rest.url, f"job/{JOB}/overview")
    browser.until(lambda: browser.all("a.node"))
    browser.driver.execute_script("document.querySelector('a.node').focus()")
    ActionChains(browser.driver).send_keys(Keys.ENTER).perform()
    browser.until(lambda: browser.driver.execute_script("return document.activeElement.id") == "drawer-title")
    ActionChains(browser.driver).send_keys(Keys.ESCAPE).perform()
    browser.until(lambda: not browser.all(".drawer"))


def test_the_head_can_be_skipped(browser: Browser, rest: FakeRest) -> None:
    browser.open(rest.url)
    browser.until_says("Running")
    ActionChains(browser.driver).send_keys(Keys.TAB, Keys.ENTER).perform()
    browser.until(lambda: browser.driver.execute_script("return document.activeElement.id") == "content")


def test_a_table_is_sorted_by_its_heading(browser: Browser, rest: FakeRest) -> None:
    browser.open(rest.url, f"job/{JOB}/overview")
    browser.press("Busy", "table")
    first = "return document.querySelector('tbody tr td').innerText"
    browser.until(lambda: browser.driver.execute_script(first) == "totals per minute and country")
    assert browser.all("th[aria-sort=descending]")
    browser.press("Busy↓", "table")
    browser.until(lambda: browser.driver.execute_script(first) == "Source: users")
