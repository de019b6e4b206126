"""A listener that raises what cannot even be written goes on hearing, to the end of the job."""

from __future__ import annotations

import logging
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.common._listening import Listening
from penstock.common.job_listener import JobListener
from penstock.core.job import JobStatus
from tests.patience import PATIENCE_S


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class _Handle:
    """A job that has ended."""

    def __init__(self) -> None:
        self._result: Future[Any] = Future()
        self._result.set_result(None)

    def view(self) -> Any:
        return SimpleNamespace(
            job_id="0", run_id="1", name="orders", started="", status=JobStatus.FINISHED, error=None
        )

    def progress(self, told: int = 0) -> tuple[int, list[dict[str, Any]]]:
        return 1, [{"id": "0", "runId": "1", "timestamp": "", "numInputRows": 1}][told:]

    def on_progress(self, wake: Any) -> None:
        wake()

    def result(self) -> Future[Any]:
        return self._result


def test_what_cannot_be_written_ends_no_listener(caplog: pytest.LogCaptureFixture) -> None:
    heard: list[str] = []

    class Raises(JobListener):
        def on_started(self, event: Any) -> None:
            raise Unspeakable

        def on_terminated(self, event: Any) -> None:
            heard.append(event.status.name)

    handle: Any = _Handle()
    listening = Listening(Raises(), handle)
    with caplog.at_level(logging.WARNING):
        listening.start()
        listening.thread.join(PATIENCE_S)
    assert heard == ["FINISHED"]
    assert "has raised Unspeakable and goes on hearing" in caplog.text
