"""Subtasks and vertices in Flink's words: states, times and what they have read and written.  Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from penstock.coordinator.attempt_history import TaskRecord, TaskState
from penstock.core.ids import Subtask
from penstock.graph.plan import Plan, Vertex
from penstock.rest.look import Look
from penstock.rest.stats import spread

STATES = (*(state.name for state in TaskState), "RECONCILING")
SHOWN_DURATIONS = ("CREATED", "SCHEDULED", "DEPLOYING", "INITIALIZING", "RUNNING")
_IO = {
    "read-bytes": "numBytesIn",
    "write-bytes": "numBytesOut",
    "read-records": "numRecordsIn",
    "write-records": "numRecordsOut",
}
_TIMES = {
    "accumulated-backpressured-time": "backPressuredTimeMs",
    "accumulated-idle-time": "idleTimeMs",
    "accumulated-busy-time": "busyTimeMs",
}


def state_counts(look: Look, subtasks: Iterable[Subtask]) -> dict[str, int]:
    """How many are in each state, by its name in capital letters."""
    counted = Counter(look.history.tasks[subtask].state.name for subtask in subtasks)
    return {state: counted[state] for state in STATES}


def vertex_state(look: Look, vertex: Vertex) -> str:
    """The state of all together, by Flink's rule."""
    counts = state_counts(look, vertex.subtasks())
    for state in ("FAILED", "CANCELING", "CANCELED", "INITIALIZING", "RUNNING"):
        if counts[state]:
            return state
    if counts["FINISHED"]:
        return "FINISHED" if counts["FINISHED"] == vertex.parallelism else "RUNNING"
    return next((state for state in ("DEPLOYING", "SCHEDULED") if counts[state]), "CREATED")


def io_metrics(look: Look, subtasks: list[Subtask]) -> dict[str, Any]:
    """What subtasks have read and written, and how they spent their time."""
    known = look.history.metrics
    found = [known[subtask] for subtask in subtasks if subtask in known]
    complete = len(found) == len(subtasks)
    made: dict[str, Any] = {}
    for name, metric in _IO.items():
        made[name] = int(sum(values.get(metric, 0) for values in found))
        made[f"{name}-complete"] = complete
    for name, metric in _TIMES.items():
        made[name] = int(sum(values.get(metric, 0) for values in found))
    return made


def start_of(record: TaskRecord) -> int:
    """When its slot was there for it; -1 if it never was."""
    found = (record.since.get(state) for state in (TaskState.DEPLOYING, TaskState.RUNNING))
    return next((int(at) for at in found if at is not None), -1)


def end_of(record: TaskRecord) -> int:
    """When it was over; -1 if it is not."""
    return int(record.since[record.state]) if record.state.is_over else -1


def span(look: Look, starts: Iterable[int], ends: Iterable[int]) -> dict[str, int]:
    """Start, end and duration of several together."""
    known = [start for start in starts if start >= 0]
    if not known:
        return {"start-time": -1, "end-time": -1, "duration": -1}
    start, over = min(known), list(ends)
    end = max(over) if over and min(over) >= 0 else -1
    return {"start-time": start, "end-time": end, "duration": look.elapsed(start, end if end >= 0 else None)}


def records_span(look: Look, records: list[TaskRecord]) -> dict[str, int]:
    """The same of task records."""
    return span(look, map(start_of, records), map(end_of, records))


def status_durations(look: Look, record: TaskRecord) -> dict[str, int]:
    """How long it was in each of the states that end."""
    times = sorted(record.since.items(), key=lambda item: item[1])
    ends = [at for _, at in times[1:]] + [look.now]
    spent = {state.name: max(0, int(end - at)) for (state, at), end in zip(times, ends, strict=True)}
    return {name: spent.get(name, -1 if name == "RUNNING" else 0) for name in SHOWN_DURATIONS}


def place_of(look: Look, subtask: Subtask) -> tuple[str, str]:
    """Endpoint and task manager of a subtask."""
    slot = look.history.slots.get(Plan.slot_of(subtask))
    if slot is None:
        return "(unassigned)", "(unassigned)"
    host = slot.host or "localhost"
    return (f"{host}:{slot.port}" if slot.port else host), manager_id(int(slot.slot))


def manager_id(slot: int) -> str:
    """The task manager that a slot is to Flink's tools."""
    return f"slot-{slot}"


def subtask_view(look: Look, subtask: Subtask) -> dict[str, Any]:
    """One subtask in its newest attempt."""
    record = look.history.tasks[subtask]
    endpoint, manager = place_of(look, subtask)
    times = records_span(look, [record])
    return {
        "subtask": int(subtask.index),
        "status": record.state.name,
        "attempt": max(0, look.history.attempt),
        "endpoint": endpoint,
        **times,
        "start_time": times["start-time"],
        "metrics": io_metrics(look, [subtask]),
        "taskmanager-id": manager,
        "status-duration": status_durations(look, record),
        "other-concurrent-attempts": [],
    }


def aggregated(views: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Spreads of the numbers of several subtasks."""
    return {
        "metrics": {name: spread(view["metrics"][name] for view in views) for name in (*_IO, *_TIMES)},
        "status-duration": {
            state: spread(view["status-duration"][state] for view in views) for state in SHOWN_DURATIONS
        },
    }
