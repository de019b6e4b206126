"""The page of a real job, on the in-process cluster, served by its own control plane."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from flow_graphs import GRAPHS, Pace

from penstock.coordinator.running_job import RunningJob
from penstock.core.job import JobStatus
from penstock.rest.serving import serve
from penstock.testing.local import LocalLauncher, local_cluster
from tests.console.browser import Browser, By
from tests.integration.local_jobs import finish, kill_slot, output, start_graph, until, wait_for_snapshots

COUNT = 900
GRAPH = "keyed"


@pytest.fixture
def launcher() -> Iterator[LocalLauncher]:
    with local_cluster() as made:
        yield made


def begin(tmp_path: Path, pace: Pace, graph: str = GRAPH, **settings: str) -> Any:
    return start_graph(graph, tmp_path / "out", tmp_path / "chk", 2, COUNT, pace, rest__port="0", **settings)


@contextmanager
def page(browser: Browser, launcher: LocalLauncher, route: str) -> Iterator[RunningJob]:
    """The newest job's page, by the link that ``penstock ui`` would open."""
    job = launcher.jobs[-1]
    until(lambda: job.status() is JobStatus.RUNNING, "the job runs")
    server = serve(job)
    assert server is not None
    try:
        browser.driver.get(server.link())
        browser.until(lambda: browser.all("table"))
        browser.go(f"job/{job.job_id.hex}/{route}")
        yield job
    finally:
        # Asked no more before the server goes, so that no call is cut off and complained about.
        browser.driver.get("about:blank")
        server.close()


def test_stopped_by_the_button_and_restored_exactly(
    browser: Browser, launcher: LocalLauncher, tmp_path: Path
) -> None:
    client = begin(tmp_path, Pace(2500.0, tmp_path / "gate"))
    wait_for_snapshots(launcher, 2)
    with page(browser, launcher, "overview"):
        browser.until(lambda: len(browser.all("a.node")) >= 2)
        browser.press("Stop…")
        browser.until(lambda: browser.all("dialog input[type=text]"))
        browser.all("dialog input[type=text]")[0].send_keys(str(tmp_path / "sp"))
        browser.press("Stop with a savepoint", "dialog")
        said = browser.until(lambda: outcome(browser))
        assert "Written to file:" in said
        browser.until_says("Finished.")
    finish(client)
    halfway = output(GRAPH, tmp_path / "out")
    finish(begin(tmp_path, Pace(), execution__state_recovery__path=said.partition("Written to ")[2].strip()))
    golden = GRAPHS[GRAPH][1](COUNT)
    assert len(halfway) < len(golden) and output(GRAPH, tmp_path / "out") == golden


def test_a_watermark_that_stands_still_is_named(
    browser: Browser, launcher: LocalLauncher, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    client = begin(tmp_path, Pace(2500.0, gate), "sessions", pipeline__watermark_stall_timeout="200 ms")
    with page(browser, launcher, "why"):
        said = browser.until_says(
            "What holds event time", "It has stood there for at least", "from which no record came"
        )
        assert "holds the watermark" in said
        browser.until_says("That is because split", "has given nothing")
        gate.touch()
        browser.until_says("Finished.")
    finish(client)


def outcome(browser: Browser) -> str:
    """What the dialog says in the end; empty before."""
    shown = [
        one.find_elements(By.CSS_SELECTOR, ".outcome.done, .outcome.failed") for one in browser.all("dialog")
    ]
    return next((one.text for found in shown for one in found), "")


def test_a_killed_worker_is_a_failure_and_a_restart(
    browser: Browser, launcher: LocalLauncher, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    client = begin(tmp_path, Pace(2500.0, gate))
    wait_for_snapshots(launcher, 2)
    with page(browser, launcher, "exceptions"):
        browser.until_says("Nothing has failed.")
        kill_slot(launcher)
        said = browser.until_says("Newest failure", "Restarts\n1")
        assert "Nothing has failed." not in said
        browser.press("Events")
        browser.until_says("attempt 1")
        gate.touch()
        browser.until_says("Finished.")
    finish(client)
    assert output(GRAPH, tmp_path / "out") == GRAPHS[GRAPH][1](COUNT)
