"""The page is alive: numbers move, a lost connection is shown and found again, a hidden tab asks nothing."""

from __future__ import annotations

from tests.console.browser import Browser
from tests.console.fake_job import JOB, Vertex, now_ms
from tests.console.fake_rest import FakeRest

OVERVIEW = f"job/{JOB}/overview"
NODE = "a.node"
HIDE = """
Object.defineProperty(document, "visibilityState", {get: () => arguments[0], configurable: true});
document.dispatchEvent(new Event("visibilitychange"));
"""


def test_graph_and_rates_move(browser: Browser, rest: FakeRest) -> None:
    browser.open(rest.url, OVERVIEW)
    before = browser.until(lambda: browser.all(NODE) and browser.all(NODE)[0].text)
    chart = browser.until(lambda: browser.all(".chart output") and browser.all(".chart output")[0].text)
    browser.until(lambda: browser.all(NODE)[0].text != before)
    browser.until(lambda: browser.all(".chart output")[0].text != chart)


def test_the_graph_follows_the_job(browser: Browser, rest: FakeRest) -> None:
    browser.open(rest.url, OVERVIEW)
    browser.until(lambda: len(browser.all(NODE)) == 6)
    rest.job.vertices.append(Vertex("1" * 32, "Sink: audit", 1, (("d" * 32, "RESCALE"),)))
    browser.until(lambda: len(browser.all(NODE)) == 7)
    browser.until_says("Sink: audit", "RESCALE")


def test_a_lost_connection_is_shown_and_recovered(browser: Browser, rest: FakeRest) -> None:
    browser.open(rest.url, OVERVIEW)
    browser.until_says("Backpressured")
    rest.down = True
    browser.until_says("The driver does not answer.", "the page keeps trying")
    assert "clicks by country" in browser.text
    rest.job.name = "clicks, once more"
    rest.down = False
    browser.until_says("clicks, once more")
    browser.until(lambda: not browser.all(".banner"))


def test_a_finished_job_stays_visible(browser: Browser, rest: FakeRest) -> None:
    browser.open(rest.url, OVERVIEW)
    browser.until_says("Backpressured")
    rest.job.state = "FINISHED"
    browser.until_says("Finished.", "Records in\n–", "Event time behind\n–")
    assert all(not button.is_enabled() for button in browser.all(".actions button"))
    rest.down = True
    browser.until_says("The driver does not answer.")
    assert "Finished." in browser.text
    browser.press("Timeline")
    browser.until_says("Job and steps")


def test_a_hidden_tab_asks_nothing(browser: Browser, rest: FakeRest) -> None:
    browser.open(rest.url, OVERVIEW)
    browser.until_says("Backpressured")
    browser.driver.execute_script(HIDE, "hidden")
    # By the page's own clock, so that a slow browser waits longer too.  Looks may have been under way, and a
    # slow server counts them late.
    browser.until(lambda: rests(browser, rest), "a hidden tab goes on asking")
    before = rest.job.looks
    browser.driver.execute_script(HIDE, "visible")
    browser.until(lambda: rest.job.looks > before)


def rests(browser: Browser, rest: FakeRest) -> bool:
    """Whether the page asks nothing in the time of ten looks."""
    before = rest.job.looks
    browser.driver.execute_async_script("setTimeout(arguments[1], arguments[0])", 10 * rest.refresh_ms)
    return rest.job.looks == before


def test_a_stuck_watermark_is_named(browser: Browser, rest: FakeRest) -> None:
    rest.job.stuck_since = now_ms() - 120_000
    rest.why = {
        "watermark": {"holder": "Source: clicks, split clicks-3", "since": now_ms() - 90_000},
        "bottleneck": None,
        "stalled": "Split clicks-3 has sent nothing since 12:00.",
        "held": "Checkpoints wait for the commit of epoch 7.",
    }
    browser.open(rest.url, f"job/{JOB}/why")
    browser.until_says(
        "Source: clicks, split clicks-3 holds the watermark since", "Split clicks-3 has sent nothing"
    )
    browser.until_says("Checkpoints wait for the commit of epoch 7.")
    assert "It has stood there for at least" in browser.until_says("It has stood")


def test_what_a_server_says_of_its_sources_is_understood(browser: Browser, rest: FakeRest) -> None:
    source = {"step": "clicks", "counts": True, "holder": "split clicks-3 is silent"}
    rest.holders = {
        "stalled": "Event time stands still.",
        "held": None,
        "sources": [source | {"subtask": at, "watermark": str(now_ms() - 1000 * at)} for at in range(3)],
    }
    browser.open(rest.url, f"job/{JOB}/why")
    said = browser.until_says("clicks, subtask 2: split clicks-3 is silent holds the watermark")
    assert "Event time stands still." in said


def test_a_failure_and_a_restart_are_shown(browser: Browser, rest: FakeRest) -> None:
    browser.open(rest.url, f"job/{JOB}/exceptions")
    browser.until_says("Nothing has failed.")
    rest.job.fail()
    rest.job.state = "RESTARTING"
    browser.until_says("ValueError", "clicks.py", "'12,50'", "Restarting after a failure")
    assert "site-packages" not in browser.text
    browser.press("Show the engine's frames (4 lines)")
    browser.until_says("site-packages/penstock/task/task.py")
    rest.job.state = "RUNNING"
    rest.job.fail("WorkerLost", "Executor 1 was lost.")
    browser.until_says("Before that", "Executor 1 was lost.")


def test_a_failed_checkpoint_is_said_at_the_top(browser: Browser, rest: FakeRest) -> None:
    rest.job.checkpoint_failed = True
    browser.open(rest.url, OVERVIEW)
    browser.until_says("Checkpoint 30 failed.")
    browser.press("Checkpoint 30 failed.")
    said = browser.until_says("Checkpoint expired before completing.")
    assert "Newest failure" in said


def test_the_server_log_of_events_is_preferred(browser: Browser, rest: FakeRest) -> None:
    rest.events = [
        {"time": now_ms(), "kind": "commit", "text": f"Epoch {at} is committed."} for at in range(3)
    ]
    browser.open(rest.url, f"job/{JOB}/events")
    browser.until_says("Epoch 0 is committed.", "3 of 3")
    assert "The job is running." not in browser.text
