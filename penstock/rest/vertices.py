"""One vertex and its subtasks: states, times, places, backpressure, watermarks.  Pure."""

from __future__ import annotations

from typing import Any

from penstock.coordinator.attempt_history import TaskState
from penstock.core.ids import MIN_TIME, Subtask
from penstock.graph.plan import Vertex
from penstock.rest.look import Look, rest_id, vertex_name
from penstock.rest.task_views import (
    aggregated,
    io_metrics,
    place_of,
    records_span,
    span,
    state_counts,
    subtask_view,
)

_LOW, _HIGH = 0.10, 0.5


def vertex(look: Look, found: Vertex) -> dict[str, Any]:
    """The vertex with all its subtasks."""
    views = [subtask_view(look, subtask) for subtask in found.subtasks()]
    return {
        **_head(look, found),
        "parallelism": found.parallelism,
        "maxParallelism": found.max_parallelism,
        "subtasks": views,
        "aggregated": aggregated(views),
    }


def _head(look: Look, found: Vertex) -> dict[str, Any]:
    return {"id": rest_id(found), "name": vertex_name(found), "now": look.now}


def subtask_times(look: Look, found: Vertex) -> dict[str, Any]:
    """When each subtask came into each state; 0 for never."""
    made = []
    for subtask in found.subtasks():
        record, endpoint = look.history.tasks[subtask], place_of(look, subtask)[0]
        made.append(
            {
                "subtask": int(subtask.index),
                "endpoint": endpoint,
                "host": endpoint,
                "duration": records_span(look, [record])["duration"],
                "timestamps": {
                    **{state.name: int(record.since.get(state, 0)) for state in TaskState},
                    "RECONCILING": 0,
                },
            }
        )
    return {**_head(look, found), "subtasks": made}


def task_managers(look: Look, found: Vertex) -> dict[str, Any]:
    """The vertex by the processes that its subtasks are in."""
    groups: dict[tuple[str, str], list[Subtask]] = {}
    for subtask in found.subtasks():
        groups.setdefault(place_of(look, subtask), []).append(subtask)
    made = []
    for (endpoint, manager), subtasks in groups.items():
        views = [subtask_view(look, subtask) for subtask in subtasks]
        counts = state_counts(look, subtasks)
        made.append(
            {
                "endpoint": endpoint,
                "status": next(state for state in _WORST if counts[state]),
                **span(look, (view["start-time"] for view in views), (view["end-time"] for view in views)),
                "metrics": io_metrics(look, subtasks),
                "status-counts": counts,
                "taskmanager-id": manager,
                "aggregated": aggregated(views),
            }
        )
    return {**_head(look, found), "taskmanagers": made}


_WORST = (
    "FAILED",
    "CANCELING",
    "CANCELED",
    "INITIALIZING",
    "RUNNING",
    "DEPLOYING",
    "SCHEDULED",
    "CREATED",
    "FINISHED",
)


def accumulators(found: Vertex) -> dict[str, Any]:
    """There are none."""
    return {"id": rest_id(found), "user-accumulators": []}


def subtask_accumulators(look: Look, found: Vertex) -> dict[str, Any]:
    """Nor has any subtask."""
    subtasks = [
        {
            "subtask": int(subtask.index),
            "attempt": max(0, look.history.attempt),
            "endpoint": place_of(look, subtask)[0],
            "host": place_of(look, subtask)[0],
            "user-accumulators": [],
        }
        for subtask in found.subtasks()
    ]
    return {"id": rest_id(found), "parallelism": found.parallelism, "subtasks": subtasks}


def backpressure(look: Look, found: Vertex) -> dict[str, Any]:
    """Which share of its time each subtask waits for room downstream, works, or waits for input."""
    made: list[dict[str, Any]] = []
    for subtask in found.subtasks():
        rates = look.history.rates.get(subtask, {})
        shares = {
            "ratio": _share(rates.get("backPressuredTimeMs", 0.0)),
            "idleRatio": _share(rates.get("idleTimeMs", 0.0)),
            "busyRatio": _share(rates.get("busyTimeMs", 0.0)),
        }
        level = _level(shares["ratio"])
        made.append(
            {
                "subtask": int(subtask.index),
                "attempt-number": max(0, look.history.attempt),
                "backpressureLevel": level,
                "backpressure-level": level,
                **shares,
                "other-concurrent-attempts": [],
            }
        )
    worst = _level(max((one["ratio"] for one in made), default=0.0))
    return {
        "status": "ok",
        "backpressureLevel": worst,
        "backpressure-level": worst,
        "end-timestamp": look.now,
        "subtasks": made,
    }


def _share(per_second_ms: float) -> float:
    return round(min(1.0, max(0.0, per_second_ms / 1000)), 4)


def _level(ratio: float) -> str:
    return "ok" if ratio <= _LOW else "low" if ratio <= _HIGH else "high"


def watermarks(look: Look, found: Vertex) -> list[dict[str, str]]:
    """How far event time has come at each subtask's input; a source's is that which it makes."""
    name = "currentInputWatermark" if found.head.node.links else "currentOutputWatermark"
    known = look.history.metrics
    return [
        {
            "id": f"{subtask.index}.currentInputWatermark",
            "value": str(int(known.get(subtask, {}).get(name, MIN_TIME))),
        }
        for subtask in found.subtasks()
    ]


def flame_graph(look: Look, found: Vertex, kind: str, index: str | None) -> dict[str, Any]:
    """What its subtasks, or one of them, were seen at: a tree of frames, each with how often it was.

    Of a thread that was in a task nobody can tell whether it waited for something there: ``OFF_CPU`` is not
    told (-2).  -3 says that the first samples are on their way, -1 that the task is over.
    """
    if kind == "OFF_CPU" or look.is_batch:
        return {"endTimestamp": -2, "data": None}
    if look.status.is_terminal_state():
        return {"endTimestamp": -1, "data": None}
    chosen = {
        slot: seen for slot, seen in look.history.samples.items() if index is None or str(int(slot)) == index
    }
    if not chosen:
        return {"endTimestamp": -3, "data": None}
    root: dict[str, Any] = {"name": "root", "value": 0, "children": []}
    for _, samples in chosen.values():
        for stack, count in samples.stacks.get(found.id, {}).items():
            _add(root, stack.split(";"), count)
    return {"endTimestamp": max(at for at, _ in chosen.values()), "data": root}


def _add(node: dict[str, Any], frames: list[str], count: int) -> None:
    node["value"] += count
    for name in frames:
        child = next((one for one in node["children"] if one["name"] == name), None)
        if child is None:
            child = {"name": name, "value": 0, "children": []}
            node["children"].append(child)
        child["value"] += count
        node = child
