"""``penstock ui`` and ``penstock events``: the way to a job's page, and what happened to it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from penstock.cli.main import cli
from penstock.coordinator import registry
from penstock.coordinator.events import Held, StatusChanged
from penstock.core.clock import Now
from penstock.core.ids import MonoMs, WallMs
from penstock.core.job import JobID, JobStatus
from tests.paper_job import Published, published
from tests.patience import PATIENCE_S

AT = Now(MonoMs(0), WallMs(1_700_000_000_000))
PAGE = {"rest.port": "0"}


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path))


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found: list[str] = []
    monkeypatch.setattr("webbrowser.open", found.append)
    return found


@pytest.fixture
def job() -> Iterator[Published]:
    with published("orders", settings=PAGE) as made:
        made.job.history.did(StatusChanged(JobStatus.RUNNING), AT)
        made.job.history.did(Held("ValueError: \x1b[2Jno"), AT)
        yield made


def run(*words: str) -> Any:
    return CliRunner().invoke(cli, words)


def test_the_page_is_opened_by_a_link_that_works_once(job: Published, opened: list[str]) -> None:
    said = run("ui", "orders")
    assert said.exit_code == 0 and said.output.startswith(f"{job.serving.url}/?code=")
    assert opened == [said.output.strip()]
    assert job.serving.token not in said.output and job.entry.token not in said.output
    with urllib.request.urlopen(opened[0], timeout=PATIENCE_S) as answer:
        assert answer.status == 200 and "penstock-" in answer.headers["set-cookie"]
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(opened[0], timeout=PATIENCE_S)


def test_no_browser_need_be_opened(job: Published, opened: list[str]) -> None:
    assert run("ui", "orders", "--no-browser").output.startswith(f"{job.serving.url}/?code=") and opened == []


def test_all_jobs_are_served_until_an_interrupt(job: Published, tmp_path: Path) -> None:
    """By a process of its own: what it prints lets in once, what it serves is the list."""
    command = [sys.executable, "-m", "penstock.cli.main", "ui", "--no-browser", "--port", "0"]
    with subprocess.Popen(
        [*command, "--archive", str(tmp_path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as serving:
        assert serving.stdout is not None
        link = serving.stdout.readline().strip()
        base = link.partition("?code=")[0]
        with urllib.request.urlopen(link, timeout=PATIENCE_S) as answer:
            cookie = answer.headers["set-cookie"].partition(";")[0]
        asked = urllib.request.Request(f"{base}jobs/overview", headers={"Cookie": cookie})
        with urllib.request.urlopen(asked, timeout=PATIENCE_S) as answer:
            (line,) = json.loads(answer.read())["jobs"]
        assert line["name"] == "orders" and line["state"] == "RUNNING"
        serving.send_signal(signal.SIGINT)
        _, said = serving.communicate(timeout=PATIENCE_S)
    assert (
        serving.returncode == 0 and "All jobs of this machine are at" in said and said.endswith("Closed.\n")
    )


def test_what_cannot_be_shown_is_said(tmp_path: Path) -> None:
    said = run("ui", "--no-browser", "--archive", str(tmp_path / "nowhere"))
    assert said.exit_code == 1 and "there is no directory" in said.output
    said = run("ui", "--no-browser", "--archive", "nosuch://bucket/x")
    assert said.exit_code == 1 and "is no known file system" in said.output
    said = run("ui", "--no-browser", "-D", "rest.bind-address=0.0.0.0")
    assert said.exit_code == 1 and "opens it to the network" in said.output
    said = run("ui", "--no-browser", "-D", "rest.prot=1")
    assert said.exit_code == 1 and "rest.port" in said.output


def test_without_a_page_it_is_said(opened: list[str]) -> None:
    with published("bare"):
        assert "has no page" in run("ui", "bare").output and opened == []
        assert registry.find("bare").page_link() is None


def test_what_happened_is_listed(job: Published) -> None:
    shown = run("events", "orders").output
    assert "2023-11-14 22:13:20" in shown and "ValueError" in shown and "\x1b" not in shown
    (last,) = json.loads(run("events", "orders", "--json", "--last", "1").output)
    assert (last["timestamp"], last["kind"]) == (AT.wall, "commit")


def test_what_happened_to_an_archived_job_is_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name, jid = "ended", JobID.of_name("ended").hex
    archive = tmp_path / "archive"
    archive.mkdir()
    for at, text in ((5, "older"), (7, "\x1b[2Jnewer")):
        line = {"jid": jid, "name": name, "state": "FAILED", "start-time": at, "end-time": at, "duration": 0}
        told = {"events": [{"timestamp": 1_700_000_000_000, "kind": "failure", "text": text}]}
        entries = {"/jobs/overview": {"jobs": [line]}, f"/jobs/{jid}/events": told}
        listed = [{"path": path, "json": json.dumps(found)} for path, found in entries.items()]
        (archive / f"{jid}-{at}.json").write_text(json.dumps({"archive": listed}))
    assert "no running job is called" in run("events", name).output
    shown = run("events", name, "--archive", str(archive)).output
    assert "newer" in shown and "older" not in shown and "\x1b" not in shown
    (tmp_path / "penstock.yaml").write_text(f"jobmanager.archive.fs.dir: {archive}")
    monkeypatch.chdir(archive)
    (one,) = json.loads(run("events", jid, "--json").output)
    assert one["kind"] == "failure"
    assert "no running job is called" in run("events", "other").output


def test_a_driver_that_does_not_answer_is_said(job: Published) -> None:
    assert "does not answer" not in run("events", "orders").output
    job.serving._server.stop()
    job.serving._thread.join(PATIENCE_S)
    assert "does not answer" in run("events", "orders").output
    assert "does not answer" in run("ui", "orders").output
