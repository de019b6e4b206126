"""``penstock ui`` and ``penstock events``: the way to a job's page, and what happened to it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from penstock.cli.main import cli
from penstock.coordinator import registry
from penstock.coordinator.registry import Page
from penstock.core.job import JobID

HAPPENED = [
    {"timestamp": 1_700_000_000_000, "kind": "status", "text": "RUNNING"},
    {"timestamp": 1_700_000_001_000, "kind": "failure", "text": "ValueError: \x1b[2Jno"},
]


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path))


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found: list[str] = []
    monkeypatch.setattr("webbrowser.open", found.append)
    return found


@pytest.fixture
def job() -> Iterator[Any]:
    page = Page("http://127.0.0.1:8081", "token", lambda: "http://127.0.0.1:8081/?code=once")
    made = registry.register(
        JobID.of_name("orders").hex, "orders", dict, dict, page=page, events=lambda: HAPPENED
    )
    yield made
    made.close()


def run(*words: str) -> Any:
    return CliRunner().invoke(cli, words)


def test_the_page_is_opened_by_a_link_that_works_once(job: Any, opened: list[str]) -> None:
    said = run("ui", "orders")
    assert said.exit_code == 0 and said.output == "http://127.0.0.1:8081/?code=once\n"
    assert opened == ["http://127.0.0.1:8081/?code=once"] and "token" not in said.output


def test_the_only_job_need_not_be_named_and_no_browser_be_opened(job: Any, opened: list[str]) -> None:
    assert run("ui", "--no-browser").output.endswith("code=once\n") and opened == []


def test_without_a_page_it_is_said(opened: list[str]) -> None:
    assert "with a page run: none" in run("ui").output
    made = registry.register(JobID.of_name("bare").hex, "bare", dict, dict)
    assert made is not None
    assert "has no page" in run("ui", "bare").output and opened == []
    made.close()


def test_what_happened_is_listed(job: Any) -> None:
    shown = run("events", "orders").output
    assert "2023-11-14 22:13:20" in shown and "ValueError" in shown and "\x1b" not in shown
    assert [one["kind"] for one in json.loads(run("events", "orders", "--json", "--last", "1").output)] == [
        "failure"
    ]


def test_a_driver_that_does_not_answer_is_said(job: Any) -> None:
    job._listener.close()
    assert "does not answer" in run("events", "orders").output
    assert "does not answer" in run("ui", "orders").output
