"""Spans of a running job arrive where the setting says; a missing library or address is one warning."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from local_jobs import environment, kill_slot, number_stream, until

from penstock.core.job import JobStatus
from penstock.core.trace_options import TRACE_ENDPOINT
from penstock.rest.traces import trace
from penstock.testing.local import local_cluster
from tests.patience import PATIENCE_S

ENDPOINT = "traces__reporter__otel__exporter__endpoint"


@contextmanager
def receiver() -> Iterator[tuple[str, list[tuple[str, bytes]]]]:
    """An HTTP server that keeps what it is sent."""
    got: list[tuple[str, bytes]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            return

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", got
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def started(tmp_path: Path, endpoint: str | None) -> Iterator[Any]:
    env = environment(tmp_path / "checkpoints", **({} if endpoint is None else {ENDPOINT: endpoint}))
    with local_cluster(2) as launcher:
        number_stream(env, 1000, gate=tmp_path / "gate").key_by(lambda i: i % 7).map(lambda i: i).print()
        env.execute_async("traced")
        job = launcher.jobs[-1]
        until(lambda: job.status() is JobStatus.RUNNING, "the job runs")
        yield launcher, job
        (tmp_path / "gate").touch()
        job.result().result(PATIENCE_S)


def spans_of(got: list[tuple[str, bytes]]) -> list[Any]:
    message = pytest.importorskip("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
    found = []
    for path, body in got:
        assert path == "/v1/traces"
        request = message.ExportTraceServiceRequest.FromString(body)
        for resource in request.resource_spans:
            for scope in resource.scope_spans:
                found += scope.spans
    return found


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_checkpoints_and_a_restart_arrive(tmp_path: Path) -> None:
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
    with receiver() as (url, got), started(tmp_path, url) as (launcher, job):
        export = trace(job)
        assert export is not None
        until(lambda: job.history.view().checkpoint_counts["completed"], "a checkpoint is complete")
        kill_slot(launcher)
        until(lambda: job.status() is JobStatus.RUNNING, "the job runs again")
        until(lambda: _restarted(job), "the restart is in the history")
        export.close()
        until(lambda: any(span.name == "Restart" for span in spans_of(got)), "the restart has arrived")
        spans = spans_of(got)
        (restart,) = [span for span in spans if span.name == "Restart"]
        assert restart.end_time_unix_nano >= restart.start_time_unix_nano > 0
        checkpoints = [_attributes(span) for span in spans if span.name == "Checkpoint"]
        assert any(one["checkpointStatus"] == "COMPLETED" for one in checkpoints)
        assert all(one["job_name"] == "traced" for one in checkpoints)
        ids = [one["checkpointId"] for one in checkpoints]
        assert len(ids) == len(set(ids)), "each once"


def _restarted(job: Any) -> bool:
    statuses = [status for status, _ in job.history.view().statuses]
    return JobStatus.RESTARTING in statuses and statuses[-1] is JobStatus.RUNNING


def _attributes(span: Any) -> dict[str, Any]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in span.attributes}


def test_nothing_runs_without_the_setting(tmp_path: Path) -> None:
    with started(tmp_path, None) as (_, job):
        assert trace(job) is None


def test_a_missing_library_or_a_wrong_address_is_one_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)

    def said() -> list[str]:
        texts = [record.getMessage() for record in caplog.records]
        return [text for text in texts if "without traces" in text]

    with caplog.at_level(logging.WARNING, "penstock"), started(tmp_path, "http://127.0.0.1:1") as (_, job):
        first = trace(job)
        until(said, "the missing library is told")
        job.job.configuration.set(TRACE_ENDPOINT, "localhost")
        second = trace(job)
        until(lambda: len(said()) == 2, "the wrong address is told")
        assert first is not None and second is not None
        first.close()
        second.close()
    assert len(said()) == 2 and "penstock[otel]" in said()[0] and "http://host:4318" in said()[1]
