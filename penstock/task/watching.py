"""What people want to know of the exchanges that a slot's tasks send to: hot key groups, a few records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from penstock.core.ids import VertexId
from penstock.core.messages import HotGroups, TakeTail
from penstock.core.secret_fields import secret_fields
from penstock.exchange.outputs import OutputEdge
from penstock.exchange.tail import PATIENCE, Tail
from penstock.task.task import Task


def hot_groups(tasks: Sequence[Task]) -> dict[VertexId, HotGroups]:
    """By the vertex that reads."""
    hot: dict[VertexId, HotGroups] = {}
    for _, edge in _edges(tasks):
        found = edge.hot_groups()
        if found is not None and edge.target is not None:
            hot[edge.target] = found.joined(hot.get(edge.target))
    return hot


def watch(tasks: Sequence[Task], message: TakeTail) -> None:
    """Somebody watches a vertex: some of its records are taken for the next sign of life.

    What was taken for another and is not sent yet stays: whoever watches asks again.
    """
    for task, edge in _edges(tasks):
        at = task.subtask.vertex if message.leaving else edge.target
        if at == message.vertex and (edge.tail is None or not edge.tail.texts):
            edge.tail = Tail(message.vertex, secret_fields(message.secret))


def watched(tasks: Sequence[Task]) -> dict[VertexId, tuple[str, ...]]:
    """What was taken. Where nothing has come for long, nobody waits any more."""
    taken: dict[VertexId, tuple[str, ...]] = {}
    for _, edge in _edges(tasks):
        tail = edge.tail
        if tail is None:
            continue
        if tail.texts:
            taken[tail.vertex] = (*taken.get(tail.vertex, ()), *tail.texts)
        tail.waited += 1
        if tail.texts or tail.waited >= PATIENCE:
            edge.tail = None
    return taken


def _edges(tasks: Sequence[Task]) -> Iterator[tuple[Task, OutputEdge]]:
    return ((task, edge) for task in tasks for edge in task.edges)
