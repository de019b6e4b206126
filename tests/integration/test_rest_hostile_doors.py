"""Doors of real jobs before clients that mean no good, and what they are told when the job ends."""

from __future__ import annotations

import select
import socket
import ssl
import threading
import urllib.error
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from local_jobs import until
from rest_client import Client, Served, key_store, served

from penstock.core.job import JobStatus
from penstock.rest import app, server
from penstock.rest.requests import Requests
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


def told(job: Served, path: str, client: Client | None = None) -> tuple[int, str]:
    """What a client sees: a status and what is wrong, or 0 if nobody took its call."""
    try:
        answer = (client or job.client).ask(path)
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


def test_only_those_who_may_ask_stand_in_the_line_of_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A flood of calls without a token costs the job no more than the page may, and its users no turn."""
    lines: list[bool] = []

    async def turn(self: Share, known: bool = True) -> None:
        lines.append(known)

    monkeypatch.setattr(Share, "turn", turn)
    with served(tmp_path) as job:
        stranger = Client(job.serving.url, None)
        for client, path, status, known in (
            (job.client, "/jobs", 200, True),
            (stranger, "/jobs", 401, False),
            (stranger, "/jobs%0A", 400, False),
            (stranger, "/?code=guessed", 401, False),
            (stranger, job.serving.link().removeprefix(job.serving.url), 200, True),
            (stranger, f"/?code=guessed&code={job.serving.sessions.new_code()}", 200, True),
        ):
            assert (client.ask(path).status, lines.pop(), lines) == (status, known, []), path


def test_a_connection_is_not_kept_for_answers_that_nobody_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is not read fills buffers, and closing alone waits until they are empty."""
    monkeypatch.setattr(server, "_UNREAD_S", 0.5)
    with served(tmp_path) as job:
        place = urlsplit(job.client.url)
        head = f"Host: localhost\r\nAuthorization: Bearer {job.client.token}\r\n\r\n"
        with socket.socket() as caller:
            caller.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            caller.connect((place.hostname, place.port))
            caller.sendall(f"GET /openapi.json HTTP/1.1\r\n{head}".encode() * 300)
            (library, _), *_ = until(
                lambda: job.serving._server and job.serving._server._servers, "it serves"
            )
            until(lambda: library.server_state.total_requests, "it is asked")
            until(lambda: not library.server_state.connections, "the connection is gone")
        assert job.client.get("/jobs")["jobs"]


def test_callers_that_do_not_end_their_handshake_take_no_descriptors_from_the_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "MOST_CONNECTIONS", 4)
    store = tmp_path / "rest.pem"
    key_store(store)
    settings = {"security__ssl__rest__enabled": "true", "security__ssl__rest__keystore": str(store)}
    with served(tmp_path, rest__address="localhost", **settings) as job, ExitStack() as callers:
        trusting = ssl.create_default_context(cafile=str(store))
        client = Client(job.serving.url, job.serving.token, tls=trusting)
        assert client.get("/jobs")["jobs"]
        place = ("127.0.0.1", urlsplit(job.serving.url).port)
        silent = [callers.enter_context(socket.create_connection(place, PATIENCE_S)) for _ in range(12)]
        until(lambda: len(select.select(silent, [], [], 0)[0]) >= 8, "those that are too many are sent away")
        assert len(select.select(silent, [], [], 0)[0]) <= 9
        for caller in silent:
            caller.close()
        assert until(lambda: told(job, "/jobs", client) == (200, ""), "there is room again")


def test_a_crowd_that_waits_for_a_store_keeps_nobody_from_cancelling(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    over, waiting = threading.Event(), threading.Semaphore(0)

    def slow(self: Requests, *asked: object) -> str:
        waiting.release()
        over.wait(PATIENCE_S)
        return "0" * 32

    monkeypatch.setattr(Requests, "snapshot", slow)
    with served(tmp_path) as job, ThreadPoolExecutor(50) as crowd:
        asked = [crowd.submit(job.client.ask, f"{job.base}/checkpoints", "POST", {}) for _ in range(50)]
        try:
            assert waiting.acquire(timeout=PATIENCE_S)
            until(lambda: under_way(job) == 50, "all of them are there")
            assert job.client.ask(f"{job.base}?mode=cancel", "PATCH").status == 202
            until(lambda: job.job.status() is JobStatus.CANCELED, "it is cancelled")
        finally:
            over.set()
        assert {one.result(PATIENCE_S).status for one in asked} <= {202, 503}
