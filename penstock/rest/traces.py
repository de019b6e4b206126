"""Checkpoints and restarts as spans of OpenTelemetry, sent to where a setting says.

Without the setting OpenTelemetry is not loaded.  With it, a thread looks at the job's history once a second;
the engine knows nothing of it.  What fails here is one warning, and the job runs on.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from penstock.coordinator.running_job import RunningJob
from penstock.core.discreet import log_of, shown
from penstock.core.errors import ConfigError
from penstock.core.optional import require
from penstock.core.trace_options import TRACE_ENDPOINT
from penstock.rest.spans import Span, SpanFinder

_log = log_of(__name__)
_LOOK_S = 1.0
_CLOSE_S = 3.0
_PATH = "/v1/traces"


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
        if self._over.is_set():
            return
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
    about = resource.create({"service.name": "penstock", **job})
    provider = sdk.TracerProvider(resource=about, shutdown_on_exit=False)  # an exit would wait for it
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
