"""Every button asks before it does anything, and says what became of it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.console.browser import Browser, By, Keys
from tests.console.fake_job import JOB
from tests.console.fake_rest import FakeRest

SAVED = "Written to file:/data/savepoints/savepoint-5b1e0c-7"

ASKED: dict[str, tuple[str, str, str, str]] = {
    "Checkpoint…": ("Take a checkpoint", "POST", "checkpoints", "Checkpoint 41 is complete."),
    "Savepoint…": ("Take a savepoint", "POST", "savepoints", SAVED),
    "Stop…": ("Stop with a savepoint", "POST", "stop", SAVED),
    "Rescale…": ("Rescale", "PATCH", "rescaling", "The job runs at parallelism 4."),
    "Cancel…": ("Cancel the job", "PATCH", "", "The job is cancelled."),
}


def opened(browser: Browser, rest: FakeRest, button: str) -> None:
    browser.open(rest.url, f"job/{JOB}/overview")
    browser.press(button)
    browser.until(lambda: browser.all("dialog[open]"))


@pytest.mark.parametrize("button", ASKED)
def test_a_button_asks_and_reports(browser: Browser, rest: FakeRest, button: str) -> None:
    yes, method, place, outcome = ASKED[button]
    opened(browser, rest, button)
    browser.button(yes, "dialog")
    assert rest.asked == []
    browser.press(yes, "dialog")
    browser.until(lambda: outcome in browser.all("dialog")[0].text, f"{button} has no outcome")
    assert [(one, path.split(JOB)[1].strip("/")) for one, path, _ in rest.asked] == [(method, place)]
    browser.press("Close", "dialog")
    browser.until(lambda: not browser.all("dialog"))
    browser.until_says("Asked from this page: 1", "is done")


@pytest.mark.parametrize("button", ASKED)
def test_who_thinks_better_of_it_has_done_nothing(browser: Browser, rest: FakeRest, button: str) -> None:
    opened(browser, rest, button)
    browser.driver.switch_to.active_element.send_keys(Keys.ESCAPE)
    browser.until(lambda: not browser.all("dialog"))
    browser.press(button)
    browser.press("Back", "dialog")
    browser.until(lambda: not browser.all("dialog"))
    assert rest.asked == []


@pytest.mark.parametrize("button", ASKED)
def test_a_refusal_is_shown(browser: Browser, rest: FakeRest, button: str) -> None:
    rest.refuse = "A savepoint is being taken already: wait for it."
    opened(browser, rest, button)
    browser.press(ASKED[button][0], "dialog")
    browser.until(lambda: rest.refuse in browser.all("dialog")[0].text)


def test_a_failure_is_shown(browser: Browser, rest: FakeRest) -> None:
    rest.fail_requests = "PermissionError: /data/savepoints cannot be written"
    opened(browser, rest, "Savepoint…")
    browser.press("Take a savepoint", "dialog")
    browser.until(lambda: rest.fail_requests in browser.all("dialog")[0].text)
    assert rest.job.running


def body(rest: FakeRest) -> Any:
    return rest.asked[-1][2]


def test_what_was_typed_is_asked_for(browser: Browser, rest: FakeRest) -> None:
    opened(browser, rest, "Stop…")
    dialog = browser.all("dialog")[0]
    dialog.find_element(By.CSS_SELECTOR, "input[type=text]").send_keys(" file:/tmp/kept ")
    dialog.find_element(By.CSS_SELECTOR, "input[type=checkbox]").click()
    browser.press("Drain and stop", "dialog")
    browser.until(lambda: SAVED in browser.all("dialog")[0].text)
    assert body(rest)["targetDirectory"] == "file:/tmp/kept" and body(rest)["drain"] is True


def test_a_rescale_asks_for_the_number_that_was_typed(browser: Browser, rest: FakeRest) -> None:
    opened(browser, rest, "Rescale…")
    field = browser.all("dialog input[type=number]")[0]
    field.send_keys(Keys.CONTROL, "a")
    field.send_keys("0")
    browser.press("Rescale", "dialog")
    assert rest.asked == []
    field.send_keys(Keys.CONTROL, "a")
    field.send_keys("3")
    browser.press("Rescale", "dialog")
    browser.until(lambda: "The job runs at parallelism 3." in browser.all("dialog")[0].text)
    assert {vertex.parallelism for vertex in rest.job.vertices} == {3}


def test_an_answer_that_was_lost_is_asked_for_again_with_the_same_id(
    browser: Browser, rest: FakeRest
) -> None:
    rest.lose_answers = 1
    opened(browser, rest, "Savepoint…")
    browser.press("Take a savepoint", "dialog")
    browser.until(lambda: SAVED in browser.all("dialog")[0].text)
    assert len(rest.asked) == 2
    assert len({sent["triggerId"] for _, _, sent in rest.asked}) == 1


def test_what_the_server_does_not_do_has_no_button(browser: Browser, rest: FakeRest) -> None:
    rest.features |= {"web-rescale": False}
    browser.open(rest.url, f"job/{JOB}/overview")
    browser.until_says("Savepoint…")
    browser.until(lambda: "Rescale…" not in browser.text)
    rest.features |= {"web-cancel": False}
    browser.open(rest.url, f"job/{JOB}/overview")
    browser.until_says("This page only shows.")
    assert not browser.all(".actions button")
