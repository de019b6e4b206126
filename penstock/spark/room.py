"""The slots of a session that Penstock starts by itself, on a machine that nobody named.

There a job gets the slots that it asks for, as from Flink's local cluster, and so do other jobs beside it: a
slot is a process, and processes may be more than cores.  Spark cannot add slots later, so there are plenty
from the start.  Everything that Spark counts by cores otherwise goes on to be counted so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import SparkSession

from penstock.core.config import GIVEN_MASTER as MASTER
from penstock.graph.nodes import Node

CORES = "spark.penstock.cores"
"""In the settings of such a session: how many cores there are."""
_PARALLELISM = "spark.default.parallelism"
_LEAST = 16
_SPARE = 2
"""How many times the slots that cores, or the first job, would need."""


def asked_slots(nodes: Sequence[Node], parallelism: int | None) -> int:
    """How many slots a program asks for by itself; 0 if it leaves that open."""
    return max((node.parallelism or parallelism or 0 for node in nodes), default=0)


def with_room(settings: Mapping[str, str], cores: int, asked: int) -> dict[str, str]:
    """The settings of a session whose first job asks for so many slots."""
    slots = max(_LEAST, _SPARE * cores, _SPARE * asked)
    return {_PARALLELISM: str(cores), **settings, CORES: str(cores), MASTER: f"local[{slots}]"}


def cores_of(spark: SparkSession) -> int | None:
    """The cores of a session made with :func:`with_room`; ``None`` of any other."""
    cores = spark.sparkContext.getConf().get(CORES)
    return None if cores is None else int(cores)
