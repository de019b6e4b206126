"""Settings of what people are told while a job runs: the form of the log, and the progress bar."""

from __future__ import annotations

from typing import Any

from penstock.core.option import Kind, Option

TELLING_OPTIONS: dict[str, Option[Any]] = {}
"""By key; :mod:`penstock.core.config` joins them to the others."""


def _add(option: Option[Any]) -> Option[Any]:
    TELLING_OPTIONS[option.key] = option
    return option


LOG_FORMAT: Option[str | None] = _add(
    Option(
        "penstock.log.format",
        Kind.ENUM,
        None,
        "json: the log on standard error, of driver and workers, as lines of JSON with job, attempt, vertex "
        "and subtask. Without it PENSTOCK_LOG_FORMAT of the driver's environment decides, or text.",
        (),
        ("text", "json"),
    )
)
PROGRESS: Option[bool] = _add(
    Option(
        "penstock.progress.enabled",
        Kind.BOOLEAN,
        "true",
        "Whether execute() of a job that ends, and `penstock run`, show progress; only ever on a terminal.",
    )
)
