"""Doors of real jobs before clients that mean no good, and what they are told when the job ends."""

from __future__ import annotations

import socket
import threading
import urllib.error
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from local_jobs import until
from rest_client import Served, served

from penstock.core.job import JobStatus
from penstock.rest import app, server
from penstock.rest.share import Share
from penstock.rest.state import States
from tests.patience import PATIENCE_S


def test_no_other_name_of_a_call_gets_past_read_only_mode(tmp_path: Path) -> None:
    with served(tmp_path, penstock__rest__read_only="true") as job:
        for name in ("yarn-cancel", "yarn-cancel%0A", "yarn-cancel/%0A", "yarn%2Dcancel", "yarn-cancel/"):
            for prefix in ("", "/v1"):
                answer = job.client.ask(f"{prefix}{job.base}/{name}")
                assert answer.status in (400, 403), (name, answer)
        assert job.job.status() is JobStatus.RUNNING


def told(job: Served, path: str) -> tuple[int, str]:
    """What a client sees: a status and what is wrong, or 0 if nobody took its call."""
    try:
        answer = job.client.ask(path)
    except (ConnectionError, urllib.error.URLError):
        return 0, ""
    return answer.status, str(answer.body["errors"]) if answer.status >= 400 else ""


def under_way(job: Served) -> int:
    library = job.serving._server
    return sum(len(each.server_state.tasks) for each, _ in library._servers) if library else 0


def test_a_turn_that_does_not_come_is_a_reason_to_be_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that waits in line is not kept for longer than one that waits for its answer."""
    monkeypatch.setattr(Share, "owed_s", lambda self: 60.0)
    monkeypatch.setattr(app, "REQUEST_S", 0.1)
    with served(tmp_path) as job:
        assert told(job, job.base) == (503, "['the answer took longer than 0.1 s']")


def test_an_answer_that_takes_longer_than_the_end_of_a_job_is_given_up_with_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    over = threading.Event()
    monkeypatch.setattr(States, "all", lambda self: {"never": over.wait(PATIENCE_S)})
    monkeypatch.setattr(server, "_LAST_S", 1)
    with served(tmp_path) as job, ThreadPoolExecutor(1) as pool:
        answer = pool.submit(told, job, f"{job.base}/penstock/state")
        until(lambda: under_way(job) == 1, "it is asked for")
        job.serving.close()
        status, why = answer.result(PATIENCE_S)
        over.set()
    assert (status, why) == (503, "['the job has ended']")


def test_a_connection_is_not_kept_for_a_request_that_never_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody need know the token for the first answer, and a few hundred of them would shut everybody out."""
    monkeypatch.setattr(server, "_KEEP_ALIVE_S", 1)
    with served(tmp_path) as job:
        place = urlsplit(job.client.url)
        with socket.create_connection((place.hostname, place.port), PATIENCE_S) as caller:
            caller.sendall(b"GET /jobs HTTP/1.1\r\nHost: localhost\r\n\r\n")
            seen = caller.recv(1 << 16)
            caller.sendall(b"GET /jobs HT")
            while piece := caller.recv(1 << 16):
                seen += piece
        assert seen.startswith(b"HTTP/1.1 401") and seen.count(b"HTTP/1.1") == 1
        assert job.client.get("/jobs")["jobs"]
