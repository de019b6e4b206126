"""BATCH mode: which programs run in it, and in what form records travel between their vertices.

BATCH gives the final results of a program over sources that end.  Records of a key come in order of time,
event time stands still until all of them were seen and then jumps to its end, and only then does the next
key begin.  Broadcast inputs are read before everything else.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from penstock.core.error_codes import Code
from penstock.core.errors import GraphError
from penstock.exchange.partition import Broadcast, Hash
from penstock.graph.nodes import Node
from penstock.graph.plan import Edge, Plan


class Form(Enum):
    """How an exchange carries records in BATCH mode."""

    FRAMES = "many records together, in order of arrival"
    FIRST = "many records together, to be read before all other inputs"
    GROUPS = "many records of a key group together, one group after the other"
    RECORDS = "many records together, sorted by key and time"


def runs_in_batch(mode: str, nodes: Sequence[Node]) -> bool:
    """Whether a program runs in BATCH mode; one that asks for it and cannot is refused."""
    sources = [(node.name, node.source) for node in nodes if node.source is not None]
    endless = [name for name, source in sources if not source.bounded]
    if mode.upper() == "AUTOMATIC":
        return not endless
    if mode.upper() != "BATCH":
        return False
    if endless:
        raise GraphError(
            f"BATCH mode needs sources that end; step {endless[0]!r} does not: give the source an end, or "
            "set execution.runtime-mode to STREAMING, or to AUTOMATIC, which is BATCH if all sources end",
            code=Code.ENDLESS_BATCH,
        )
    return True


def form_of(plan: Plan, edge: Edge) -> Form:
    """How ``edge`` carries records."""
    if isinstance(edge.partitioning, Broadcast):
        return Form.FIRST
    node = plan.vertex(edge.target).head.node
    if not node.keyed or not isinstance(edge.partitioning, Hash):
        return Form.FRAMES
    return Form.GROUPS if node.in_columns else Form.RECORDS
