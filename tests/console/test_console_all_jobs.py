"""The page of all jobs in a browser: one that runs, one that ends before its eyes, files that mean harm."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from flow_graphs import Pace

from penstock.core.config import Configuration
from penstock.core.job import JobStatus
from penstock.rest.ui_serving import UiServer
from penstock.spark.launcher import publish_to_registry
from penstock.testing.local import local_cluster
from tests.console.browser import Browser
from tests.integration.local_jobs import finish, start_graph, until, wait_for_snapshots
from tests.patience import PATIENCE_S

HARM = "<img src=x onerror=document.title='broken'><script>document.title='broken'</script>"


@contextmanager
def opened(browser: Browser, archive: Path) -> Iterator[None]:
    """The list, by the link that ``penstock ui`` prints."""
    server = UiServer(Configuration.from_dict({"rest.port": "0"}), [str(archive)])
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        browser.driver.get(server.link())
        browser.until_says("Running", "Ended", "Archives")
        yield
    finally:
        # Asked no more before the server goes, so that no call is cut off and complained about.
        browser.driver.get("about:blank")
        server.stop()
        thread.join(PATIENCE_S)


def plant(archive: Path) -> None:
    """An archive whose every text is markup, and a file that is none."""
    archive.mkdir()
    jid = "0123456789abcdef" * 2
    line = {"jid": jid, "name": HARM, "state": "FAILED", "start-time": 1, "end-time": 9, "duration": 8}
    entry = {"timestamp": 5, "exceptionName": HARM, "stacktrace": HARM, "taskName": HARM, "failureLabels": {}}
    answers = {
        "/jobs/overview": {"jobs": [line]},
        f"/jobs/{jid}": {**line, "now": 9, "plan": {"nodes": []}, "vertices": []},
        f"/jobs/{jid}/exceptions": {"exceptionHistory": {"entries": [entry], "truncated": False}},
        f"/jobs/{jid}/events": {"events": [{"timestamp": 5, "kind": HARM, "text": HARM}]},
    }
    listed = [{"path": path, "json": json.dumps(found)} for path, found in answers.items()]
    (archive / f"{jid}-9.json").write_text(json.dumps({"archive": listed}))
    (archive / f"{'a' * 32}-9.json").write_text("half of an archive")


def test_all_jobs_and_their_archives_on_one_page(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path / "home"))
    archive, gate = tmp_path / "archive", tmp_path / "gate"
    plant(archive)
    settings = {"rest__port": "0", "jobmanager__archive__fs__dir": str(archive)}
    with local_cluster() as launcher, opened(browser, archive):
        client = start_graph(
            "keyed", tmp_path / "out", tmp_path / "chk", 2, 900, Pace(2500.0, gate), **settings
        )
        job = launcher.jobs[-1]
        publish_to_registry(job)
        wait_for_snapshots(launcher, 2)
        until(lambda: job.status() is JobStatus.RUNNING, "the job runs")
        said = browser.until_says("job keyed", HARM, "not all of it is there")
        assert "Driver" not in said.split("Jobs")[1][:40] and not browser.all("main img, main script")

        browser.press("job keyed")
        browser.until(lambda: len(browser.all("a.node")) >= 2)
        browser.until_says("running", "Driver", "Executors", "Savepoint…")
        address = browser.driver.current_url
        gate.touch()
        finish(client)
        browser.until_says("Finished.", "archive")
        assert browser.driver.current_url == address
        browser.press("Events")
        browser.until_says("attempt 0 begins")
        browser.press("Checkpoints")
        browser.until_says("Sizes over time")
        assert "Savepoint…" not in browser.text

        browser.press("Jobs")
        browser.until_says("No job is running.")
        browser.press(HARM)
        for page in ("exceptions", "events"):
            browser.go(f"job/{'0123456789abcdef' * 2}/{page}")
            browser.until_says(HARM)
        assert browser.driver.title != "broken" and not browser.all("main img, main script")
