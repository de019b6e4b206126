"""What each slot of a job takes of its Spark executor."""

from __future__ import annotations

from penstock.core.option import Kind, Option, OptionGroup

SLOT_OPTIONS = OptionGroup()
_add = SLOT_OPTIONS.add


SLOT_CPUS: Option[int | None] = _add(
    "penstock.slots.cpus",
    Kind.INT,
    None,
    "Cores of Spark that each slot of a streaming job takes, on a standalone cluster, YARN or Kubernetes; if "
    "not set, as many as spark.task.cpus says.",
    least=1,
)
SLOT_RESOURCES: Option[dict[str, str]] = _add(
    "penstock.slots.resources",
    Kind.MAP,
    "",
    "What else of its executor each such slot takes, `gpu:1`: resources as Spark knows them "
    "(spark.executor.resource.*), a whole number or a share of one.",
)
