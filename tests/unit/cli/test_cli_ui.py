"""``penstock ui`` and ``penstock events``: the way to a job's page, and what happened to it."""

from __future__ import annotations

import json
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
from penstock.core.job import JobStatus
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


def test_the_only_job_need_not_be_named_and_no_browser_be_opened(job: Published, opened: list[str]) -> None:
    assert run("ui", "--no-browser").output.startswith(f"{job.serving.url}/?code=") and opened == []


def test_without_a_page_it_is_said(opened: list[str]) -> None:
    assert "with a page run: none" in run("ui").output
    with published("bare"):
        assert "has no page" in run("ui", "bare").output and opened == []
        assert registry.find("bare").page_link() is None


def test_what_happened_is_listed(job: Published) -> None:
    shown = run("events", "orders").output
    assert "2023-11-14 22:13:20" in shown and "ValueError" in shown and "\x1b" not in shown
    (last,) = json.loads(run("events", "orders", "--json", "--last", "1").output)
    assert (last["timestamp"], last["kind"]) == (AT.wall, "commit")


def test_a_driver_that_does_not_answer_is_said(job: Published) -> None:
    job.serving._server.stop()
    job.serving._thread.join(PATIENCE_S)
    assert "does not answer" in run("events", "orders").output
    assert "does not answer" in run("ui", "orders").output
