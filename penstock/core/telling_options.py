"""Settings of what people are told while a job runs: the form of the log, and the progress bar."""

from __future__ import annotations

from penstock.core.option import Kind, Option, OptionGroup

TELLING_OPTIONS = OptionGroup()

LOG_FORMAT: Option[str | None] = TELLING_OPTIONS.add(
    "penstock.log.format",
    Kind.ENUM,
    None,
    "json: the log on standard error, of driver and workers, as lines of JSON with job, attempt, vertex "
    "and subtask. Without it PENSTOCK_LOG_FORMAT of the driver's environment decides, or text.",
    choices=("text", "json"),
)
PROGRESS: Option[bool] = TELLING_OPTIONS.add(
    "penstock.progress.enabled",
    Kind.BOOLEAN,
    "true",
    "Whether execute() of a job that ends, and `penstock run`, show progress; only ever on a terminal.",
)
