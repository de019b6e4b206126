"""Metrics by Flink's names: of subtasks, vertices, the job, processes; single and together.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from penstock.core import metric_names
from penstock.core.ids import MIN_TIME, Subtask
from penstock.core.job import JobStatus
from penstock.core.metric_names import step_keys
from penstock.graph.plan import Vertex
from penstock.rest.look import Look, Process, Refused, metric_scope
from penstock.rest.stats import aggregates

AGGREGATES = ("min", "max", "avg", "sum", "skew")
RECORDS_IN, RECORDS_OUT = "numRecordsIn", "numRecordsOut"
COUNTED = (RECORDS_IN, RECORDS_OUT, "numBytesIn", "numBytesOut")
_SHARES = {
    "busyTimeMsPerSecond": "busyTimeMs",
    "backPressuredTimeMsPerSecond": "backPressuredTimeMs",
    "hardBackPressuredTimeMsPerSecond": "backPressuredTimeMs",
    "idleTimeMsPerSecond": "idleTimeMs",
}
_TOTALS = {
    "accumulateBusyTimeMs": "busyTimeMs",
    "accumulateBackPressuredTimeMs": "backPressuredTimeMs",
    "accumulateIdleTimeMs": "idleTimeMs",
}

_STEP_RATES = frozenset((RECORDS_IN, RECORDS_OUT))

Values = dict[str, float]


def task_metrics(look: Look, subtask: Subtask) -> Values:
    """What a subtask counts as a whole, without its steps; nothing before it has said anything."""
    raw = look.history.metrics.get(subtask)
    if raw is None:
        return {}
    rates = look.history.rates.get(subtask, {})
    made: Values = {name: raw.get(name, 0) for name in COUNTED}
    made |= {f"{name}PerSecond": max(0.0, rates.get(name, 0.0)) for name in COUNTED}
    made |= {name: min(1000.0, max(0.0, rates.get(share, 0.0))) for name, share in _SHARES.items()}
    made |= {name: raw.get(total, 0) for name, total in _TOTALS.items()}
    made["softBackPressuredTimeMsPerSecond"] = 0.0
    made["isBackPressured"] = float(made["backPressuredTimeMsPerSecond"] > 0)
    for name in ("currentInputWatermark", "currentOutputWatermark"):
        made[name] = raw.get(name, MIN_TIME)
    part = _last_part(look, subtask)
    made["checkpointAlignmentTime"] = part[0] * 1e6
    made["checkpointStartDelayNanos"] = part[1] * 1e6
    return made


def _last_part(look: Look, subtask: Subtask) -> tuple[float, float]:
    for record in reversed(look.history.checkpoints):
        part = record.parts.get(subtask)
        if part is not None:
            return part.alignment_ms, part.start_delay_ms
    return 0.0, 0.0


def raw_step_metrics(look: Look, vertex: Vertex, subtask: Subtask) -> dict[int, Values]:
    """What the steps of a subtask count, by their place in the vertex; user metrics are among it.

    Names are those of :mod:`penstock.core.metric_names`; of a meter there are rate and count.
    """
    raw = look.history.metrics.get(subtask, {})
    rates = look.history.rates.get(subtask, {})
    beginnings = [f"{key}." for key in step_keys(planned.node.name for planned in vertex.operators)]
    made: dict[int, Values] = {number: {} for number in range(len(beginnings))}
    for name, value in raw.items():
        fitting = [number for number, beginning in enumerate(beginnings) if name.startswith(beginning)]
        if not fitting:
            continue
        number = max(fitting, key=lambda one: len(beginnings[one]))
        short, rate = name.removeprefix(beginnings[number]), max(0.0, rates.get(name, 0.0))
        if metric_names.is_meter(short):
            short = metric_names.unmarked(short)
            made[number] |= {short: rate, f"{short}.count": value}
        else:
            made[number][short] = value
            if short in _STEP_RATES:
                made[number][f"{short}PerSecond"] = rate
    if vertex.head.node.source is not None:
        made[0] |= _watermark_lag(look, vertex, subtask)
    return made


def step_metrics(look: Look, vertex: Vertex, subtask: Subtask) -> dict[int, Values]:
    """The same by the names that REST has for them."""
    return {
        number: {metric_names.plain(name): value for name, value in values.items()}
        for number, values in raw_step_metrics(look, vertex, subtask).items()
    }


def _watermark_lag(look: Look, vertex: Vertex, subtask: Subtask) -> Values:
    report = look.history.watermarks.get((vertex.head.operator_id, int(subtask.index)))
    if report is None or report.watermark <= MIN_TIME:
        return {}
    return {"watermarkLag": max(0, look.now - report.watermark)}


def subtask_metrics(look: Look, vertex: Vertex, subtask: Subtask) -> Values:
    """All of a subtask, its steps' under their names."""
    made = task_metrics(look, subtask)
    scopes = step_keys(metric_scope(planned.node) for planned in vertex.operators)
    for number, values in step_metrics(look, vertex, subtask).items():
        scope = scopes[number].replace(" (", "_").rstrip(")")
        made |= {f"{scope}.{name}": value for name, value in values.items()}
    return made


def vertex_metrics(look: Look, vertex: Vertex) -> Values:
    """The same of all subtasks, each behind its number."""
    return {
        f"{subtask.index}.{name}": value
        for subtask in vertex.subtasks()
        for name, value in subtask_metrics(look, vertex, subtask).items()
    }


def job_metrics(look: Look) -> Values:
    """The job's checkpoints, restarts and the time in each status."""
    history, counts = look.history, look.history.checkpoint_counts
    made: Values = {
        "numRestarts": look.numbers.get("restarts", 0),
        "fullRestarts": look.numbers.get("restarts", 0),
        "totalNumberOfCheckpoints": counts["total"],
        "numberOfInProgressCheckpoints": counts["in_progress"],
        "numberOfCompletedCheckpoints": counts["completed"],
        "numberOfFailedCheckpoints": counts["failed"],
        "lastCheckpointRestoreTimestamp": -1 if history.restored is None else history.restored.restored_ms,
    }
    made |= _last_checkpoint(look)
    for status in (JobStatus.CREATED, JobStatus.RUNNING, JobStatus.RESTARTING, JobStatus.FAILING):
        name = _camel(status)
        inside = look.status is status
        spent = look.now - history.since[status] if inside and status in history.since else 0
        made |= {f"{name}State": float(inside), f"{name}Time": max(0, spent)}
        made[f"{name}TimeTotal"] = _total(look, status)
    made["uptime"] = made["runningTime"] if look.status is JobStatus.RUNNING else 0
    made["downtime"] = made["restartingTime"]
    return made


def _last_checkpoint(look: Look) -> Values:
    last = look.history.latest.get("completed")
    if last is None:
        return dict.fromkeys(
            (
                "lastCheckpointDuration",
                "lastCheckpointSize",
                "lastCheckpointFullSize",
                "lastCompletedCheckpointId",
                "lastCheckpointCompletedTimestamp",
            ),
            -1,
        )
    parts = last.parts.values()
    return {
        "lastCheckpointDuration": last.duration_ms or 0,
        "lastCheckpointSize": sum(part.written_bytes for part in parts),
        "lastCheckpointFullSize": sum(part.state_bytes for part in parts),
        "lastCompletedCheckpointId": last.epoch,
        "lastCheckpointCompletedTimestamp": last.ended_ms or -1,
    }


def _camel(status: JobStatus) -> str:
    return status.name.lower()


def _total(look: Look, status: JobStatus) -> float:
    """Milliseconds in a status over all changes that are remembered."""
    changes = look.history.statuses
    ends = [at for _, at in changes[1:]] + [look.now]
    return sum(max(0, end - at) for (one, at), end in zip(changes, ends, strict=True) if one is status)


def cluster_metrics(look: Look) -> Values:
    """The driver as Flink's job manager: what it watches, and its own process."""
    alive = sum(not slot.lost for slot in look.history.slots.values())
    return {
        "numRunningJobs": float(not look.status.is_terminal_state()),
        "numRegisteredTaskManagers": alive,
        "taskSlotsAvailable": 0,
        "taskSlotsTotal": alive,
        **process_metrics(look.driver),
    }


def process_metrics(process: Process) -> Values:
    """A Python process under the names that dashboards have for a JVM; see ``docs/rest.md``."""
    used, limit = process.used_bytes, process.limit_bytes
    return {
        "Status.JVM.Memory.Heap.Used": used,
        "Status.JVM.Memory.Heap.Committed": used,
        "Status.JVM.Memory.Heap.Max": limit,
        "Status.JVM.Memory.NonHeap.Used": 0,
        "Status.JVM.Memory.NonHeap.Committed": 0,
        "Status.JVM.Memory.NonHeap.Max": -1,
        "Status.JVM.Memory.Metaspace.Used": 0,
        "Status.JVM.Memory.Metaspace.Max": -1,
        "Status.JVM.Memory.Direct.MemoryUsed": 0,
        "Status.JVM.Memory.Mapped.MemoryUsed": 0,
        "Status.JVM.CPU.Load": process.cpu_load,
        "Status.JVM.CPU.Time": int(process.cpu_s * 1e9),
        "Status.JVM.Threads.Count": process.threads,
        "Status.JVM.GarbageCollector.All.Count": sum(process.gc_counts),
        "Status.JVM.GarbageCollector.All.Time": process.gc_ms,
        "Status.JVM.GarbageCollector.All.TimeMsPerSecond": process.gc_ms_per_s,
        "Status.Flink.Memory.Managed.Used": 0,
        "Status.Flink.Memory.Managed.Total": 0,
        "Status.Shuffle.Netty.UsedMemory": 0,
        "Status.Shuffle.Netty.TotalMemory": 0,
    }


def picked(values: Mapping[str, float], wanted: str | None) -> list[dict[str, str]]:
    """All names, or those asked for with their values; names that nobody knows are left out."""
    if not wanted:
        return [{"id": name} for name in values]
    return [{"id": name, "value": text_of(values[name])} for name in wanted.split(",") if name in values]


def together(
    of_each: Sequence[Mapping[str, float]], wanted: str | None, chosen: str | None
) -> list[dict[str, Any]]:
    """The same of several at once: names, or the aggregates asked for."""
    if not wanted:
        names = dict.fromkeys(name for values in of_each for name in values)
        return [{"id": name, **dict.fromkeys(AGGREGATES)} for name in names]
    kinds = AGGREGATES if not chosen else tuple(chosen.split(","))
    wrong = [kind for kind in kinds if kind not in AGGREGATES]
    if wrong:
        raise Refused(400, f"there is no aggregate {wrong[0]!r}; there are {', '.join(AGGREGATES)}")
    made = []
    for name in wanted.split(","):
        found = [values[name] for values in of_each if name in values]
        if found:
            numbers = aggregates(found)
            made.append({"id": name, **{kind: numbers[kind] for kind in kinds}})
    return made


def chosen_subtasks(vertex: Vertex, ranges: str | None) -> Iterable[Subtask]:
    """Those of ``0,2-4``; all if nothing is said."""
    subtasks = vertex.subtasks()
    if not ranges:
        return subtasks
    try:
        parts = [part.partition("-") for part in dict.fromkeys(ranges.split(","))]
        bounds = [(int(first), int(last or first)) for first, _, last in parts]
    except ValueError:
        raise Refused(400, f"{ranges!r:.200} names no subtasks; write 0,2-4") from None
    # Never counted out: a range may have any length, and whoever asks may be nobody's friend.
    numbers = {
        number for first, last in bounds for number in range(max(first, 0), min(last + 1, len(subtasks)))
    }
    return [subtask for subtask in subtasks if int(subtask.index) in numbers]


def text_of(value: float) -> str:
    """A number as text; whole ones without a point."""
    return str(int(value)) if float(value).is_integer() and abs(value) < 2**63 + 1 else str(value)
