"""A warning for jobs on RocksDB with steps whose state is arrays in memory all the same."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from penstock.core import options
from penstock.core.config import Configuration
from penstock.datastream._ported import say_once
from penstock.graph.nodes import Node
from penstock.operators.changes.first_rows import FirstRowsOperator
from penstock.operators.changes.group_agg import GroupAggOperator
from penstock.operators.changes.last_rows import LastRowsOperator
from penstock.operators.changes.regular_join import RegularJoinOperator
from penstock.operators.changes.top_rows import TopRowsOperator

_LASTING = (FirstRowsOperator, GroupAggOperator, LastRowsOperator, RegularJoinOperator, TopRowsOperator)
"""Steps that keep something for each key for ever."""


def steps_in_memory(nodes: Sequence[Node]) -> list[str]:
    """The names of the steps whose state no backend keeps on a disk."""
    made = ((it.name, it.factory) for it in nodes)
    return [name for name, by in made if isinstance(by, partial) and by.func in _LASTING]


def say_what_stays_in_memory(nodes: Sequence[Node], configuration: Configuration) -> None:
    """Tell who has chosen a backend on disks which steps do not use it."""
    steps = steps_in_memory(nodes) if configuration.get(options.STATE_BACKEND) == "rocksdb" else []
    if steps:
        say_once(
            f"RocksDB is not used by the steps {', '.join(map(repr, dict.fromkeys(steps)))}",
            "results that change keep their state in the memory of the slots, and it must fit there; "
            "windows, a join with ttl or between, or more slots keep it small",
        )
