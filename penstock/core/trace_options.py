"""Settings of what is exported by OpenTelemetry."""

from __future__ import annotations

from penstock.core.option import Kind, Option, OptionGroup

TRACE_OPTIONS = OptionGroup()

TRACE_ENDPOINT: Option[str | None] = TRACE_OPTIONS.add(
    "traces.reporter.otel.exporter.endpoint",
    Kind.STRING,
    None,
    "Where checkpoints and restarts are sent as spans, by OpenTelemetry's protocol over HTTP: "
    "`http://host:4318`. Needs the extra `otel`; without it nothing is sent.",
)
