"""Settings of what is exported by OpenTelemetry."""

from __future__ import annotations

from typing import Any

from penstock.core.option import Kind, Option

TRACE_ENDPOINT: Option[str | None] = Option(
    "traces.reporter.otel.exporter.endpoint",
    Kind.STRING,
    None,
    "Where checkpoints and restarts are sent as spans, by OpenTelemetry's protocol over HTTP: "
    "`http://host:4318`. Needs the extra `otel`; without it nothing is sent.",
)
TRACE_OPTIONS: dict[str, Option[Any]] = {TRACE_ENDPOINT.key: TRACE_ENDPOINT}
"""By key; :mod:`penstock.core.config` joins them to the others."""
