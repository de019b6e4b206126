"""The server beside a job: no client harms the job, and a server that cannot start is one warning."""

from __future__ import annotations

import logging
import socket
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from local_jobs import environment, until
from rest_client import COUNT, Client, served

from penstock.core.job import JobStatus
from penstock.rest.serving import serve
from penstock.testing.local import local_cluster
from tests.patience import PATIENCE_S


def test_two_hundred_clients_take_nothing_from_the_job(tmp_path: Path) -> None:
    with served(tmp_path) as job:
        with ThreadPoolExecutor(200) as pool:
            found = list(pool.map(lambda _: job.client.ask(job.base).status, range(400)))
        assert set(found) == {200}
        job.gate.touch()
        job.job.result().result(PATIENCE_S)
        assert (
            sum(
                values["numRecordsIn"]
                for subtask, values in job.job.history.view().metrics.items()
                if subtask.vertex == job.job.job.plan.vertices[1].id
            )
            == COUNT
        )


def test_clients_that_vanish_or_talk_nonsense_do_no_harm(tmp_path: Path) -> None:
    with served(tmp_path) as job:
        host, port = job.serving.url.removeprefix("http://").split(":")
        half = [socket.create_connection((host, int(port))) for _ in range(20)]
        for number, one in enumerate(half):
            one.sendall([b"GET / HTTP/1.1\r\nHost:", b"\x16\x03\x01\x00\xff", b"GET /\r\n\r\n"][number % 3])
        long = socket.create_connection((host, int(port)))
        long.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"x" * 100_000)
        assert b"400" in long.recv(100)
        assert job.client.get("/jobs")["jobs"]
        for one in [*half, long]:
            one.close()
        assert job.client.get("/jobs")["jobs"] and job.job.status() is JobStatus.RUNNING


def test_a_port_that_is_taken_gives_the_next(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with caplog.at_level(logging.INFO, "penstock"), served(tmp_path, rest__port=str(port)) as job:
            other = int(job.serving.url.rpartition(":")[2])
            assert other > port and f"port {port} is taken, its page is on {other}" in caplog.text


def test_a_server_that_cannot_be_loaded_is_one_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "penstock.rest.server", None)
    env = environment(tmp_path, rest__port="0")
    with local_cluster(1) as launcher:
        env.from_collection([1, 2, 3]).print()
        env.execute_async("alone")
        (job,) = launcher.jobs
        serving = serve(job)
        assert serving is not None
        with pytest.raises(OSError):
            Client(serving.url, serving.token).get("/jobs")
        until(lambda: serving.failed is not None, "the first client made it load")
        job.result().result(PATIENCE_S)
        serving.close()
    told = [record for record in caplog.records if "has no page" in record.message]
    assert len(told) == 1 and job.status() is JobStatus.FINISHED


def test_settings_that_will_not_do_are_one_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    loose = tmp_path / "token"
    loose.write_text("x" * 40)
    loose.chmod(0o644)
    with local_cluster(1) as launcher:
        for number, settings in enumerate(
            [
                {"penstock__rest__bearer_file": str(loose)},
                {"security__ssl__rest__enabled": "true"},
                {"rest__bind_address": "203.0.113.7"},
            ]
        ):
            env = environment(None, rest__port="0", **settings)
            env.from_collection([1]).print()
            env.execute_async(f"job {number}")
            assert serve(launcher.jobs[-1]) is None
            launcher.jobs[-1].result().result(PATIENCE_S)
    assert [record.levelname for record in caplog.records if "has no page" in record.message] == [
        "WARNING"
    ] * 3


def test_it_can_be_switched_off() -> None:
    with local_cluster(1) as launcher:
        env = environment(None, penstock__rest__enabled="false")
        env.from_collection([1]).print()
        env.execute_async("quiet")
        assert serve(launcher.jobs[-1]) is None
        launcher.jobs[-1].result().result(PATIENCE_S)
