"""A job that ends while a crowd looks at it: all of them are answered, and nothing is printed over it."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from local_jobs import until
from rest_client import served

from penstock.rest import share
from tests.patience import PATIENCE_S

CROWD = 20


def test_whoever_waits_for_a_turn_when_the_job_ends_is_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(share, "_SAVED_S", -50.0)  # a crowd before this one has used up a quarter of an hour
    with served(tmp_path) as job, ThreadPoolExecutor(CROWD) as crowd:
        looks = [crowd.submit(job.client.ask, job.base) for _ in range(CROWD)]
        (server, _), *_ = until(lambda: job.serving._server and job.serving._server._servers, "it serves")
        until(lambda: len(server.server_state.tasks) == CROWD, "all of them wait")
        assert not [look for look in looks if look.done()]
        job.gate.touch()
        job.job.result().result(PATIENCE_S)
        job.serving.close()
        assert [look.result(PATIENCE_S).status for look in looks] == [200] * CROWD
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []
