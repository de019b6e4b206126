"""What people want to know of a slot's tasks: hot key groups of what they send to, some of their records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from penstock.core.ids import VertexId
from penstock.core.messages import HotGroups, TakeTail
from penstock.core.secret_fields import secret_fields
from penstock.exchange.outputs import OutputEdge
from penstock.exchange.tail import PATIENCE, UNWATCHED, Tail
from penstock.task.task import Task


def hot_groups(tasks: Sequence[Task]) -> dict[VertexId, HotGroups]:
    """By the vertex that reads."""
    hot: dict[VertexId, HotGroups] = {}
    for edge in (edge for task in tasks for edge in task.edges):
        found = edge.hot_groups()
        if found is not None and edge.target is not None:
            hot[edge.target] = found.joined(hot.get(edge.target))
    return hot


def watch(tasks: Sequence[Task], message: TakeTail) -> None:
    """Somebody watches a vertex: some of its records are taken for the next heartbeat.

    What was taken and is not sent yet stays: whoever watches asks again.
    """
    for task in tasks:
        if task.subtask.vertex == message.vertex:
            places: Sequence[Task | OutputEdge] = task.edges if message.leaving else [task]
            for place in places:
                if not place.tail.texts:
                    place.tail = Tail(message.vertex, secret_fields(message.secret))


def watched(tasks: Sequence[Task]) -> dict[VertexId, tuple[str, ...]]:
    """What was taken. Where nothing has come for long, nobody waits any more."""
    taken: dict[VertexId, tuple[str, ...]] = {}
    for place in _places(tasks):
        tail = place.tail
        if tail is UNWATCHED:
            continue
        if tail.texts:
            taken[tail.vertex] = (*taken.get(tail.vertex, ()), *tail.texts)
        tail.waited += 1
        if tail.texts or tail.waited >= PATIENCE:
            place.tail = UNWATCHED
    return taken


def _places(tasks: Sequence[Task]) -> Iterator[Task | OutputEdge]:
    for task in tasks:
        yield task
        yield from task.edges
