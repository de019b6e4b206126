"""How old what sources read and sinks show is, and which records were late, dropped or refused.  Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from penstock.connectors.sink import Sink
from penstock.core.ids import MAX_TIME, MIN_TIME
from penstock.core.metrics import LATE_COUNTER
from penstock.graph.nodes import Node, NodeKind
from penstock.graph.plan import Vertex
from penstock.operators.source_operator import ERRORS_COUNTER
from penstock.rest.look import Look, rest_id

_PENDING = ("pendingRecords", "records_lag_max")
"""Names under which sources say how much waits for them."""


def freshness(look: Look) -> dict[str, Any]:
    """Event-time lag of each source and sink, and what became of records that no step took."""
    late = _counts(look, LATE_COUNTER)
    refused = _counts(look, ERRORS_COUNTER)
    return {
        "sources": [_source(look, vertex, node) for vertex, node in _nodes(look, NodeKind.SOURCE)],
        "sinks": [_sink(look, vertex, node) for vertex, node in _nodes(look, NodeKind.SINK)],
        "late_dropped": int(look.numbers.get("late_dropped", sum(late.values()))),
        "late_dropped_by": late,
        "dead_letters": sum(refused.values()),
        "dead_letters_by": refused,
        "outputs_dropped": int(look.numbers.get("outputs_dropped", 0)),
    }


def _nodes(look: Look, kind: NodeKind) -> Iterator[tuple[Vertex, Node]]:
    for vertex in look.plan.vertices:
        for planned in vertex.operators:
            if planned.node.kind is kind:
                yield vertex, planned.node


def _source(look: Look, vertex: Vertex, node: Node) -> dict[str, Any]:
    reports = [
        report
        for (operator, _), report in look.history.watermarks.items()
        if operator == vertex.head.operator_id
    ]
    counting = [report.watermark for report in reports if report.counts]
    return {
        "step": node.name,
        "vertex": rest_id(vertex),
        "lag_ms": _lag(look, min(counting, default=MIN_TIME)),
        "idle_subtasks": sum(not report.counts for report in reports),
        "pending_records": _pending(look, vertex, node),
    }


def _sink(look: Look, vertex: Vertex, node: Node) -> dict[str, Any]:
    """A sink that commits shows what was in it at the last snapshot, and nothing newer."""
    known = look.history.metrics
    reached = [known[one].get("currentInputWatermark", MIN_TIME) for one in vertex.subtasks() if one in known]
    newest = look.history.latest.get("completed")
    commits = look.plan.settings.checkpointing and _commits(node)
    shown = None if newest is None or not commits else max(0, look.now - newest.triggered_ms)
    return {
        "step": node.name,
        "vertex": rest_id(vertex),
        "lag_ms": _lag(look, min(reached, default=MIN_TIME)),
        "commits": commits,
        "visible_up_to_ms_ago": shown,
    }


def _commits(node: Node) -> bool:
    """Whether its sink has a committer, told without making one: that may open connections."""
    return node.sink is not None and type(node.sink).create_committer is not Sink.create_committer


def _lag(look: Look, watermark: float) -> int | None:
    """How far a watermark is behind; ``None`` if there is none yet, 0 at the end of input."""
    if watermark <= MIN_TIME:
        return None
    return 0 if watermark >= MAX_TIME else max(0, look.now - int(watermark))


def _pending(look: Look, vertex: Vertex, node: Node) -> int | None:
    found = [
        value
        for subtask in vertex.subtasks()
        for name, value in look.history.metrics.get(subtask, {}).items()
        if name.startswith(f"{node.name}.") and name.endswith(_PENDING)
    ]
    return int(sum(found)) if found else None


def _counts(look: Look, counter: str) -> dict[str, int]:
    """What each step has counted in this attempt, where it is more than nothing."""
    ending, sums = f".{counter}", dict[str, int]()
    for values in look.history.metrics.values():
        for name, value in values.items():
            if name.endswith(ending) and value:
                step = name.removesuffix(ending)
                sums[step] = sums.get(step, 0) + int(value)
    return sums
