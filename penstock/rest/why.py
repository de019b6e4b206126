"""Why a job is slow or its event time late, in one answer.  Pure."""

from __future__ import annotations

from typing import Any

from penstock.core.discreet import plain
from penstock.core.ids import MIN_TIME, KeyGroup, Subtask
from penstock.core.keygroups import owner
from penstock.core.messages import WatermarkReport
from penstock.graph.plan import Vertex
from penstock.rest.bottleneck import Load, bottleneck
from penstock.rest.freshness import freshness
from penstock.rest.look import Look, rest_id, vertex_name
from penstock.rest.task_views import place_of

MOST = 100
"""The most subtasks or key groups that anybody gets."""
_STILL_MS = 10_000
"""Event time that has not moved for so long stands still."""
_FEW = 500
"""With fewer records, a sample says nothing of which key groups are hot."""


def why(look: Look, most: int) -> dict[str, Any]:
    """Everything that answers "why": ``most`` subtasks and key groups at most."""
    most = min(most, MOST)
    return {
        "now": look.now,
        "watermark": watermark(look),
        "stalled": look.history.stalled,
        "held": look.history.held,
        "bottleneck": _bottleneck(look),
        "slowest": slowest(look, most),
        "hot_key_groups": hot_key_groups(look, most),
        "freshness": freshness(look),
    }


# --- event time ---------------------------------------------------------------------------------


def watermark(look: Look) -> dict[str, Any] | None:
    """Who holds event time, where, and since when; ``None`` if nobody makes watermarks, or all are done."""
    counting = [item for item in look.history.watermarks.items() if item[1].counts]
    if not counting or look.status.is_terminal_state():
        return None
    since = look.history.seen.since
    place, report = min(counting, key=lambda item: (item[1].watermark, since.get(item[0], look.now)))
    stood = look.elapsed(since.get(place, look.now), None)
    has_one = report.watermark > MIN_TIME
    return {
        "step": report.step,
        "subtask": report.subtask,
        "split": report.split,
        "holder": _named(report),
        "because": because(report),
        "watermark": str(report.watermark) if has_one else None,
        "lag_ms": max(0, look.now - report.watermark) if has_one else None,
        "since": since.get(place, look.now),
        "still": stood >= _STILL_MS or look.history.stalled is not None,
    }


def _named(report: WatermarkReport) -> str:
    step = report.step.removeprefix("Source: ")
    if report.split is not None and not report.blocked:
        return plain(f"split {report.split} of {step}")
    return plain(f"subtask {report.subtask} of {step}")


def because(report: WatermarkReport) -> str:
    """What holds it, as a clause."""
    name = _named(report)
    if report.blocked:
        return f"{name} is backpressured: a step behind it takes records more slowly than they come"
    if report.given is None:
        return f"of {name}: {plain(report.holder)}" if report.holder else f"of {name}"
    if report.given:
        return f"{name} has given {report.given:,} records that do not advance it"
    return f"{name} has given nothing"


# --- load ---------------------------------------------------------------------------------------


def _load(look: Look, subtask: Subtask) -> Load | None:
    rates = look.history.rates.get(subtask)
    if not rates:
        return None
    names = ("busyTimeMs", "backPressuredTimeMs", "idleTimeMs")
    return Load(*(round(min(1.0, max(0.0, rates.get(name, 0.0) / 1000)), 4) for name in names))


def _together(look: Look, vertex: Vertex) -> Load | None:
    found = [load for one in vertex.subtasks() if (load := _load(look, one)) is not None]
    if not found:
        return None
    most = (max(load.busy for load in found), max(load.backpressured for load in found))
    return Load(*most, min(load.idle for load in found))


def _bottleneck(look: Look) -> dict[str, Any] | None:
    by_id = {str(vertex.id): vertex for vertex in look.plan.vertices}
    measured = {name: _together(look, vertex) for name, vertex in by_id.items()}
    loads = {name: load for name, load in measured.items() if load is not None}
    inputs: dict[str, list[str]] = {}
    for edge in look.plan.edges:
        inputs.setdefault(str(edge.target), []).append(str(edge.source))
    found = bottleneck(loads, inputs)
    if found is None:
        return None
    vertex, load = by_id[found.step], loads[found.step]
    waiting = [vertex_name(by_id[name]) for name in dict.fromkeys(found.waiting)]
    said = f"{vertex_name(vertex)} is busy {load.busy:.0%} of the time"
    if waiting:
        said += f", and {', '.join(waiting)} {'waits' if len(waiting) == 1 else 'wait'} for it"
    else:
        said += "; no step waits for another"
    return {
        "vertex": rest_id(vertex),
        "step": vertex_name(vertex),
        "busy": load.busy,
        "backpressured": load.backpressured,
        "idle": load.idle,
        "waiting": waiting,
        "text": plain(f"{said}."),
    }


def slowest(look: Look, most: int) -> list[dict[str, Any]]:
    """Subtasks with the least time to spare; ``us_per_record`` is what a record costs them."""
    rows: list[dict[str, Any]] = []
    for vertex in look.plan.vertices:
        for subtask in vertex.subtasks():
            load, rates = _load(look, subtask), look.history.rates.get(subtask, {})
            if load is None:
                continue
            took = max(rates.get("numRecordsIn", 0.0), rates.get("numRecordsOut", 0.0), 0.0)
            rows.append(
                {
                    "vertex": rest_id(vertex),
                    "step": vertex_name(vertex),
                    "subtask": int(subtask.index),
                    "busy": load.busy,
                    "backpressured": load.backpressured,
                    "idle": load.idle,
                    "records_per_second": took,
                    "us_per_record": load.busy * 1e6 / took if took > 0 else None,
                    "endpoint": place_of(look, subtask)[0],
                }
            )
    return sorted(rows, key=lambda row: -row["busy"])[:most]


def hot_key_groups(look: Look, most: int) -> list[dict[str, Any]]:
    """Key groups that get more than twice their even share of a keyed step's records, the hottest first."""
    rows: list[dict[str, Any]] = []
    for vertex in look.plan.vertices:
        sample = look.history.seen.hot_groups.get(vertex.id)
        if sample is None or sample.records < _FEW:
            continue
        even = 1 / vertex.max_parallelism
        for group, count in sample.counts.items():
            share = count / sample.records
            if share > 2 * even:
                rows.append(
                    {
                        "vertex": rest_id(vertex),
                        "step": vertex_name(vertex),
                        "key_group": group,
                        "subtask": int(owner(KeyGroup(group), vertex.parallelism, vertex.max_parallelism)),
                        "share": round(share, 4),
                        "even": round(even, 6),
                        "sampled": sample.records,
                    }
                )
    return sorted(rows, key=lambda row: -row["share"])[:most]
