"""Settings of the autoscaler, by the names that Flink's Kubernetes operator gives them."""

from __future__ import annotations

from typing import Any

from penstock.core.option import Kind, Option, OptionGroup

AUTOSCALER_OPTIONS = OptionGroup()


def _add(key: str, kind: Kind, default: str, doc: str, **bounds: Any) -> Option[Any]:
    return AUTOSCALER_OPTIONS.add(f"job.autoscaler.{key}", kind, default, doc, **bounds)


AUTOSCALER_ENABLED: Option[bool] = _add(
    "enabled",
    Kind.BOOLEAN,
    "false",
    "Whether the job changes its own parallelism with its load, in place, within the bounds below.",
)
AUTOSCALER_LEAST: Option[int] = _add(
    "vertex.min-parallelism", Kind.INT, "1", "The autoscaler goes no lower.", least=1
)
AUTOSCALER_MOST: Option[int] = _add(
    "vertex.max-parallelism",
    Kind.INT,
    "200",
    "The autoscaler goes no higher, nor beyond the slots that Spark has room for.",
    least=1,
)
AUTOSCALER_TARGET: Option[float] = _add(
    "utilization.target",
    Kind.FLOAT,
    "0.7",
    "Share of their time that slots are to be busy when the job has been rescaled.",
    least=0.001,
    most=1.0,
)
AUTOSCALER_LOW: Option[float] = _add(
    "utilization.min", Kind.FLOAT, "0.4", "Slots that are less busy are too many.", least=0.0, most=1.0
)
AUTOSCALER_HIGH: Option[float] = _add(
    "utilization.max",
    Kind.FLOAT,
    "0.95",
    "Slots that would have to be busier to keep up are too few.",
    least=0.001,
    most=1.0,
)
AUTOSCALER_WINDOW: Option[int] = _add(
    "metrics.window", Kind.DURATION, "1 min", "The load is taken as it was over this time.", least=5_000
)
AUTOSCALER_STABILIZATION: Option[int] = _add(
    "stabilization.interval",
    Kind.DURATION,
    "1 min",
    "What is measured so soon after the tasks have started does not count.",
)
AUTOSCALER_CATCH_UP: Option[int] = _add(
    "catch-up.duration",
    Kind.DURATION,
    "5 min",
    "Records that wait at the sources are to be worked off within this time.",
    least=1_000,
)
AUTOSCALER_DOWN: Option[int] = _add(
    "scale-down.interval",
    Kind.DURATION,
    "1 h",
    "The job becomes smaller only if it would have been too large all this time.",
)
