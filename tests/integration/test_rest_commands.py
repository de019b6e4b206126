"""Savepoints, stop and cancel by REST, and requests that are refused."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from local_jobs import until
from rest_client import outcome, served

from penstock.core.job import JobStatus
from penstock.rest.app import MAX_BODY
from tests.patience import PATIENCE_S


def test_a_savepoint_by_rest_and_again_by_the_same_id(tmp_path: Path) -> None:
    with served(tmp_path) as job:
        body = {"target-directory": str(tmp_path / "sp"), "triggerId": "ab" * 16}
        first = job.client.ask(f"{job.base}/savepoints", "POST", body)
        assert first.status == 202 and first.body == {"request-id": "ab" * 16}
        again = job.client.ask(f"{job.base}/savepoints", "POST", body)
        assert again.status == 202 and again.body == first.body
        where = outcome(job, f"{job.base}/savepoints/{'ab' * 16}")["location"]
        assert len(list((tmp_path / "sp").iterdir())) == 1 and where.startswith("file://")
        latest = until(lambda: job.client.get(f"{job.base}/checkpoints")["latest"]["savepoint"], "it is told")
        assert latest["is_savepoint"] and latest["external_path"] == where
        gone = job.client.ask("/savepoint-disposal", "POST", {"savepoint-path": where})
        assert gone.status == 200
        outcome(job, f"/savepoint-disposal/{gone.body['request-id']}")
        assert not list((tmp_path / "sp").iterdir())


def test_stop_with_a_savepoint_ends_the_job(tmp_path: Path) -> None:
    with served(tmp_path) as job:
        asked = job.client.ask(f"{job.base}/stop", "POST", {"targetDirectory": str(tmp_path / "sp")})
        assert asked.status == 202
        found = outcome(job, f"{job.base}/savepoints/{asked.body['request-id']}")
        assert "location" in found, found
        job.job.result().result(PATIENCE_S)
        assert job.client.get(f"{job.base}/status") == {"status": "FINISHED"}
        late = job.client.ask(f"{job.base}/stop", "POST", {})
        assert late.status == 409 and "FINISHED" in late.body["errors"][0]
        assert job.client.ask(job.base, "PATCH").status == 409


@pytest.mark.parametrize(
    ("method", "path"), [("PATCH", "?mode=cancel"), ("GET", "/yarn-cancel"), ("DELETE", "cluster")]
)
def test_a_job_is_cancelled(tmp_path: Path, method: str, path: str) -> None:
    with served(tmp_path) as job:
        where = "/cluster" if path == "cluster" else f"{job.base}{path}"
        assert job.client.ask(where, method).status in (200, 202)
        until(lambda: job.job.result().done(), "the job has ended")
        assert job.job.status() is JobStatus.CANCELED


BAD: list[tuple[str, str, Any, int]] = [
    ("GET", "/nothing", None, 404),
    ("GET", "/jobs/" + "f" * 32, None, 404),
    ("GET", "JOB/vertices/" + "f" * 32, None, 404),
    ("GET", "JOB/checkpoints/details/99999", None, 404),
    ("GET", "JOB/savepoints/" + "f" * 32, None, 404),
    ("GET", "/taskmanagers/slot-9", None, 404),
    ("GET", "/jobmanager/logs/..%2f..%2fpasswd", None, 404),
    ("GET", "JOB/exceptions?maxExceptions=many", None, 400),
    ("POST", "JOB/savepoints", b"{", 400),
    ("POST", "JOB/savepoints", b"[1]", 400),
    ("POST", "JOB/savepoints", {"target-directory": 5}, 400),
    ("POST", "JOB/savepoints", {"formatType": "ZIP"}, 400),
    ("POST", "JOB/savepoints", {"triggerId": "short"}, 400),
    ("POST", "JOB/savepoints", {"target-directory": "/proc/nowhere"}, 400),
    ("POST", "JOB/savepoints", {}, 400),
    ("POST", "JOB/checkpoints", {"checkpointType": "HALF"}, 400),
    ("POST", "JOB/stop", b"x" * (MAX_BODY + 1), 413),
    ("PATCH", "JOB?mode=explode", None, 400),
    ("PUT", "JOB/resource-requirements", {}, 400),
    ("PUT", "JOB/resource-requirements", {"0" * 32: {"parallelism": {"upperBound": 2}}}, 400),
    ("PATCH", "JOB/rescaling", None, 400),
    ("PATCH", "JOB/rescaling?parallelism=-1", None, 400),
    ("PATCH", "JOB/rescaling?parallelism=9999", None, 400),
    ("POST", "/savepoint-disposal", {}, 400),
    ("DELETE", "/overview", None, 405),
]


def test_bad_input_is_refused_with_a_reason_and_the_job_untouched(tmp_path: Path) -> None:
    with served(tmp_path) as job:
        for method, path, body, status in BAD:
            found = job.client.ask(path.replace("JOB", job.base), method, body)
            assert found.status == status, (method, path, found)
            assert found.body["errors"] and found.body["errors"][0], (method, path)
        assert job.job.status() is JobStatus.RUNNING and job.job.driver.restarts == 0


def test_a_savepoint_while_one_is_under_way_is_refused(tmp_path: Path) -> None:
    with served(tmp_path) as job:
        open_: Any = threading.Event()

        def slowly(kind: Any, directory: Any, accepted: Any) -> Any:
            future: Future[str] = Future()
            accepted()
            threading.Thread(target=lambda: (open_.wait(PATIENCE_S), future.set_result("file:///sp"))).start()
            return "x", future

        job.serving._plane.requests._ask = slowly
        first = job.client.ask(f"{job.base}/savepoints", "POST", {})
        second = job.client.ask(f"{job.base}/savepoints", "POST", {})
        assert (first.status, second.status) == (202, 409) and "under way" in second.body["errors"][0]
        open_.set()
        assert outcome(job, f"{job.base}/savepoints/{first.body['request-id']}") == {"location": "file:///sp"}
