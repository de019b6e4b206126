"""Settings of a job that goes on with the slots there are, named as those of Flink's adaptive scheduler."""

from __future__ import annotations

from penstock.core.option import Kind, Option, OptionGroup

ELASTIC_OPTIONS = OptionGroup()
_add = ELASTIC_OPTIONS.add


SCHEDULER: Option[str] = _add(
    "jobmanager.scheduler",
    Kind.ENUM,
    "DEFAULT",
    "DEFAULT waits for all slots. ADAPTIVE goes on at a lower parallelism when slots are gone for good, and "
    "takes them back when there are more.",
    choices=("DEFAULT", "ADAPTIVE"),
)
STABLE_BEFORE_SMALLER: Option[int] = _add(
    "jobmanager.adaptive-scheduler.submission.resource-stabilization-timeout",
    Kind.DURATION,
    "10 s",
    "How long there must have been too few slots, the same number throughout, before an adaptive job goes on "
    "with these; less than penstock.slots.timeout.",
    "jobmanager.adaptive-scheduler.resource-stabilization-timeout",
)
STABLE_BEFORE_LARGER: Option[int] = _add(
    "jobmanager.adaptive-scheduler.executing.resource-stabilization-timeout",
    Kind.DURATION,
    "1 min",
    "How long there must have been more slots, the same number throughout, before an adaptive job that runs "
    "on fewer than it wants is rescaled to them.",
)
LEAST_SLOTS: Option[int] = _add(
    "penstock.slots.minimum",
    Kind.INT,
    "1",
    "An adaptive job does not go on with fewer slots: it waits for more.",
    least=1,
)
