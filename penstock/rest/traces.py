"""Checkpoints and restarts as spans of OpenTelemetry, sent to where a setting says.

Without the setting nothing of this is loaded.  With it, a thread looks at the job's history once a second; the
engine knows nothing of it.  What fails here is one warning, and the job runs on.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from penstock.coordinator.checkpoint_history import CheckpointRecord, CheckpointState
from penstock.coordinator.job_history import HistoryView
from penstock.coordinator.running_job import RunningJob
from penstock.core.discreet import shown
from penstock.core.errors import ConfigError
from penstock.core.ids import WallMs
from penstock.core.job import JobStatus
from penstock.core.optional import require
from penstock.core.trace_options import TRACE_ENDPOINT

_log = logging.getLogger("penstock")
_LOOK_S = 1.0
_CLOSE_S = 5.0
_PATH = "/v1/traces"


@dataclass(frozen=True, slots=True)
class Span:
    """Something that took its time and is over."""

    name: str
    begun_ms: WallMs
    ended_ms: WallMs
    attributes: dict[str, str | int | float | bool] = field(default_factory=dict)
    failure: str | None = None


class SpanFinder:
    """What of a history is over and was not told yet.  Pure."""

    def __init__(self) -> None:
        self._told: set[tuple[int, WallMs]] = set()
        self._restarts_to: WallMs = 0

    def new(self, view: HistoryView) -> Iterator[Span]:
        """The spans that have ended since the last call, by the names that Flink has for them."""
        ended = [one for one in view.checkpoints if one.state is not CheckpointState.IN_PROGRESS]
        for record in ended:
            if (int(record.epoch), record.triggered_ms) not in self._told:
                yield _checkpoint(record)
        self._told = {(int(record.epoch), record.triggered_ms) for record in ended}
        yield from self._restarts(view)

    def _restarts(self, view: HistoryView) -> Iterator[Span]:
        begun: WallMs | None = None
        for status, at in view.statuses:
            if status is JobStatus.RESTARTING:
                begun = at if begun is None else begun
            elif begun is not None and (status is JobStatus.RUNNING or status.is_terminal_state()):
                if begun > self._restarts_to:
                    self._restarts_to = begun
                    yield _restart(view, begun, at, status)
                begun = None


def _checkpoint(record: CheckpointRecord) -> Span:
    parts = record.parts.values()
    ended = record.ended_ms or record.latest_ack_ms or record.triggered_ms
    return Span(
        "Checkpoint",
        record.triggered_ms,
        max(ended, record.triggered_ms),
        {
            "checkpointId": int(record.epoch),
            "checkpointStatus": record.state.name,
            "checkpointType": record.kind.name,
            "isUnaligned": record.unaligned,
            "checkpointedSize": sum(part.written_bytes for part in parts),
            "fullSize": sum(part.state_bytes for part in parts),
            "subtasks": record.subtasks,
            "acknowledged": len(record.parts),
            "maxAlignmentMs": max((part.alignment_ms for part in parts), default=0.0),
            "maxSyncMs": max((part.sync_ms for part in parts), default=0.0),
            "maxAsyncMs": max((part.async_ms for part in parts), default=0.0),
            "maxStartDelayMs": max((part.start_delay_ms for part in parts), default=0.0),
        },
        record.failure if record.state is CheckpointState.FAILED else None,
    )


def _restart(view: HistoryView, begun: WallMs, ended: WallMs, status: JobStatus) -> Span:
    causes = [one.root.name for one in view.failures if one.root.at_ms <= ended]
    attributes: dict[str, str | int | float | bool] = {"attempt": view.attempt, "status": status.name}
    if causes:
        attributes["cause"] = causes[-1]
    if view.restored is not None:
        attributes["restoredCheckpointId"] = int(view.restored.epoch)
    failure = None if status is JobStatus.RUNNING else f"the job is {status.name}"
    return Span("Restart", begun, max(begun, ended), attributes, failure)


class TraceExport:
    """Tells OpenTelemetry of a job's spans until the job ends."""

    def __init__(self, running: RunningJob, endpoint: str) -> None:
        self._running = running
        self._endpoint = endpoint
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="penstock-traces")
        self._thread.start()

    def close(self) -> None:
        """The job has ended: send what is left, within seconds. Safe to repeat."""
        self._over.set()
        if threading.current_thread() is not self._thread:
            self._thread.join(_CLOSE_S)

    def _run(self) -> None:
        try:
            provider, tell = _opened(self._endpoint, self._running)
        except Exception as error:
            _warn(self._running, error)
            return
        finder, view = SpanFinder(), self._running.history.view
        try:
            while not self._over.wait(_LOOK_S):
                for span in finder.new(view()):
                    tell(span)
            for span in finder.new(view()):
                tell(span)
        except Exception as error:
            _warn(self._running, error)
        finally:
            provider.shutdown()


def _warn(running: RunningJob, error: Exception) -> None:
    name = running.job.plan.job_name
    _log.warning("job %r runs on without traces: %s: %s", name, type(error).__name__, shown(str(error)))


def _opened(endpoint: str, running: RunningJob) -> tuple[Any, Callable[[Span], None]]:
    """A provider of OpenTelemetry, and what gives it a span."""
    parts = urlsplit(endpoint)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise ConfigError(
            f"{TRACE_ENDPOINT.key} is not the address of an HTTP server: write http://host:4318"
        )
    url = endpoint if parts.path.strip("/") else endpoint.rstrip("/") + _PATH
    sdk = require("opentelemetry.sdk.trace", "otel")
    batches = require("opentelemetry.sdk.trace.export", "otel").BatchSpanProcessor
    exporter = require("opentelemetry.exporter.otlp.proto.http.trace_exporter", "otel").OTLPSpanExporter
    resource = require("opentelemetry.sdk.resources", "otel").Resource
    status = require("opentelemetry.trace", "otel")
    job = {"job_id": running.job.job_id.hex, "job_name": running.job.plan.job_name}
    provider = sdk.TracerProvider(resource=resource.create({"service.name": "penstock", **job}))
    provider.add_span_processor(batches(exporter(endpoint=url)))
    tracer = provider.get_tracer("penstock")

    def tell(span: Span) -> None:
        made = tracer.start_span(
            span.name, start_time=span.begun_ms * 1_000_000, attributes={**job, **span.attributes}
        )
        if span.failure is not None:
            made.set_status(status.Status(status.StatusCode.ERROR, shown(span.failure)))
        made.end(end_time=span.ended_ms * 1_000_000)

    return provider, tell


def trace(running: RunningJob) -> TraceExport | None:
    """Export a job's spans until it ends, if a setting says where to."""
    endpoint = running.job.configuration.get(TRACE_ENDPOINT)
    return None if not endpoint else TraceExport(running, endpoint)
