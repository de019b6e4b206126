"""Every page opens, in both widths: without an error of a script, a refusal by policy, or a way sideways."""

from __future__ import annotations

import pytest

from tests.console.browser import WIDTHS, Browser
from tests.console.fake_job import JOB, FakeJob
from tests.console.fake_rest import FakeRest

WINDOW = "d" * 32
STEP = f"job/{JOB}/overview/{WINDOW}"

PAGES = {
    "": ("Running", "clicks by country", "No job has ended yet."),
    f"job/{JOB}": ("Backpressured", "Records a second", "HASH", "Freshness", "totals per minute"),
    f"{STEP}": ("Executor", "host-0:0", "Attempt"),
    f"{STEP}/watermarks": ("Unmoved since", "lowest watermark behind"),
    f"{STEP}/backpressure": ("Measured", "Level"),
    f"{STEP}/metrics": ("Find a metric", "0.numRecordsInPerSecond"),
    f"{STEP}/flame": ("parse_amount", "200 samples"),
    f"{STEP}/tail": ("come to this step", "onerror"),
    f"{STEP}/accumulators": ("bad rows",),
    f"job/{JOB}/why": ("What holds event time", "waits for it", "Slowest subtasks", "Skew"),
    f"job/{JOB}/checkpoints": ("Sizes over time", "Summary", "exactly once", "rocksdb"),
    f"job/{JOB}/checkpoints/20": ("alignment", "asynchronous part", "1 · Sink: totals"),
    f"job/{JOB}/state": ("State in the newest snapshot", "keyed, per window", "46.9 KiB"),
    f"job/{JOB}/exceptions": ("Nothing has failed.",),
    f"job/{JOB}/timeline": ("The job", "running", "choose a step"),
    f"job/{JOB}/events": ("The job is running.", "Checkpoint 30 completed"),
    f"job/{JOB}/configuration": ("exponential delay", "region", "pipeline.setting-00"),
    "driver": ("pipeline.setting-23",),
    "driver/metrics": ("Status.JVM.CPU.Load",),
    "driver/logs": ("checkpoint 89 is complete", "driver.log"),
    "driver/stdout": ("hello from the program",),
    "driver/threads": ("task/task.py",),
    "executors": ("executor-0.cluster:35001",),
    "executors/executor-1": ("Heard from", "393 MiB"),
    "executors/executor-1/logs": ("checkpoint 89 is complete",),
    "executors/executor-1/threads": ("uploads",),
    "nowhere": ("No such page",),
}


@pytest.mark.parametrize("route", PAGES)
def test_a_page_opens(browser: Browser, rest: FakeRest, route: str) -> None:
    browser.size(*WIDTHS["narrow"])
    browser.open(rest.url, route)
    for width in ("narrow", "wide"):
        browser.size(*WIDTHS[width])
        browser.until_says(*PAGES[route])
        assert not browser.complaints()
        assert not browser.all(".failure")
        assert browser.driver.execute_script("return document.documentElement.scrollWidth <= innerWidth")
    asked = browser.driver.execute_script("return performance.getEntries().map((entry) => entry.name)")
    assert all(name.startswith(rest.url) for name in asked if "://" in name)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_colours_can_be_chosen_and_are_remembered(browser: Browser, rest: FakeRest, theme: str) -> None:
    browser.open(rest.url)
    shown = "return document.documentElement.dataset.theme"
    browser.until(lambda: browser.all("header > button"))
    while f"Colours: {theme}" not in str(browser.all("header > button")[0].get_attribute("aria-label")):
        browser.all("header > button")[0].click()
    assert browser.driver.execute_script(shown) == theme
    browser.open(rest.url)
    browser.until_says("Running")
    assert browser.driver.execute_script(shown) == theme
    browser.driver.execute_script("localStorage.clear()")


def test_a_batch_job_has_no_checkpoints(browser: Browser) -> None:
    with FakeRest(FakeJob(kind="BATCH")) as rest:
        rest.absent = {"checkpoints", "watermarks"}
        browser.open(rest.url, f"job/{JOB}")
        browser.until_says("Records a second")
        assert "Checkpoints" not in [link.text for link in browser.all(".tabs a")]
        assert [button.text for button in browser.all(".actions button")] == ["Cancel…"]


def test_an_unknown_job_is_said_to_be_unknown(browser: Browser, rest: FakeRest) -> None:
    browser.open(rest.url, "job/" + "9" * 32)
    browser.until_says("This server knows no such job")
    assert not browser.all(".failure")


LACKING = {
    f"job/{JOB}": ({"metrics", "watermarks"}, "No operator of this job reports lag"),
    f"job/{JOB}/checkpoints": ({"checkpoints", f"jobs/{JOB}/checkpoints/config"}, "Checkpointing is off"),
    f"job/{JOB}/why": ({"backpressure", "metrics", "watermarks"}, "The server measures no subtasks."),
    f"job/{JOB}/state": ({"state"}, "This server shows no state."),
    f"job/{JOB}/exceptions": ({"exceptions"}, "The server keeps no exceptions of this job."),
    f"job/{JOB}/configuration": ({"config"}, "The server gives no settings."),
    f"{STEP}/flame": ({"flamegraph"}, "The server samples no calls of this step."),
    f"{STEP}/metrics": ({"metrics"}, "The server has no metrics of this step."),
    f"{STEP}/tail": ({"tail"}, "This server shows no records."),
    "driver/threads": ({"thread-dump"}, "The server gives no threads of it."),
    "driver/logs": ({"log", "logs"}, "The server lists no files."),
    "executors": ({"taskmanagers"}, "The server lists no executors."),
}


@pytest.mark.parametrize("route", LACKING)
def test_what_the_server_lacks_is_said_quietly(browser: Browser, rest: FakeRest, route: str) -> None:
    rest.absent, sentence = LACKING[route]
    browser.open(rest.url, route)
    browser.until_says(sentence)
    assert not browser.all(".failure")
