"""How far a job came with each snapshot, by the keys of Spark's ``StreamingQueryProgress``.  Pure.

A snapshot is to us what a batch is to Spark: all that was read up to its barrier is in it, and the subtasks
say with their part what they had counted by then.  So the rows of an entry are exactly those between two
barriers, and the entries of a job add up to what it has read, restarts or not.  What the engine does not
count is ``None``.
"""

from __future__ import annotations

import contextlib
import datetime as dt
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from penstock.coordinator.checkpoint_history import CheckpointPart, CheckpointRecord
from penstock.core.clock import Now
from penstock.core.ids import MAX_TIME, MIN_TIME, Epoch, MonoMs, Subtask, WallMs
from penstock.core.messages import SnapshotAck, WatermarkReport
from penstock.core.metric_names import step_keys
from penstock.core.metrics import (
    BUSY_COUNTER,
    EVENT_TIME_COUNT,
    EVENT_TIME_MAX,
    EVENT_TIME_MIN,
    EVENT_TIME_SUM,
    LATE_COUNTER,
    RECORDS_COUNTER,
)
from penstock.graph.nodes import Node
from penstock.graph.plan import Plan, Vertex

Entry = dict[str, Any]
Counts = Mapping[Subtask, Mapping[str, float]]

_KEPT = 100
_OPEN = 16
"""Snapshots under way whose counts are remembered."""


class ProgressHistory:
    """The newest entries, oldest first. Told by one thread."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._since = MonoMs(0)
        self._counted: Counts = {}
        self._open: dict[Epoch, dict[Subtask, Mapping[str, float]]] = {}
        self.entries: deque[Entry] = deque(maxlen=_KEPT)
        self.entered = 0
        """How many there have been."""
        self.hearers: list[Callable[[], None]] = []
        """Called when there is a new entry; they must not block."""

    def new_attempt(self, now: MonoMs) -> None:
        """Tasks begin to count anew, behind the snapshot that they go on from."""
        if not self.entries:
            self._since = now
        self._counted = {}
        self._open.clear()

    def ack(self, ack: SnapshotAck) -> None:
        """A subtask's part of a snapshot has come."""
        self._open.setdefault(ack.epoch, {})[ack.snapshot.subtask] = ack.counts
        while len(self._open) > _OPEN:
            del self._open[min(self._open)]

    def completed(self, record: CheckpointRecord, watermarks: Iterable[WatermarkReport], now: Now) -> None:
        """A snapshot is durable."""
        counts = self._open.pop(record.epoch, None)
        if counts is None or (self.entries and int(record.epoch) <= self.entries[-1]["batchId"]):
            return
        # What lies before barriers of snapshots that failed meanwhile belongs to this one, too.
        times = [counts, *(kept for epoch, kept in self._open.items() if epoch < record.epoch)]
        self._open = {epoch: kept for epoch, kept in self._open.items() if epoch > record.epoch}
        ended = record.ended_ms or now.wall
        last_ack = record.latest_ack_ms or ended
        parts = record.parts
        durations = {
            "triggerExecution": max(0, ended - record.triggered_ms),
            "walCommit": max(0, ended - last_ack),
            "startDelay": _most(parts, lambda part: part.start_delay_ms),
            "alignment": _most(parts, lambda part: part.alignment_ms),
            "sync": _most(parts, lambda part: part.sync_ms),
            "async": _most(parts, lambda part: part.async_ms),
        }
        sizes = {subtask: part.state_bytes for subtask, part in parts.items()}
        head = (int(record.epoch), record.triggered_ms, durations)
        self._enter(*head, counts, sizes, {**_between(times), **_event_time(watermarks)}, now)

    def _enter(
        self,
        batch: int,
        at: WallMs,
        durations: Mapping[str, int],
        counts: Counts,
        sizes: Mapping[Subtask, int],
        event_time: dict[str, str],
        now: Now,
    ) -> None:
        elapsed = max(0, now.mono - self._since) / 1000
        busy = self._busiest_s(counts)
        rows = self._rows(counts)
        entry: Entry = {
            "timestamp": iso(at),
            "batchId": batch,
            "batchDuration": durations.get("triggerExecution", 0),
            "numInputRows": rows,
            "inputRowsPerSecond": _rate(rows, elapsed),
            "processedRowsPerSecond": _rate(rows, busy or elapsed),
            "durationMs": dict(durations),
            "eventTime": event_time,
            "stateOperators": self._state(counts, sizes),
            "sources": self._sources(counts, elapsed, busy or elapsed),
            "sink": self._sink(counts),
        }
        self._since, self._counted = now.mono, counts
        self.entries.append(entry)
        self.entered += 1
        for wake in self.hearers:
            wake()

    def behind(self, told: int) -> list[Entry]:
        """Those kept of all but the first ``told``."""
        kept = list(self.entries)
        return kept[max(0, len(kept) - max(0, self.entered - told)) :]

    # --- counting ---------------------------------------------------------------------------

    def _grown(self, counts: Counts, vertex: Vertex, name: str) -> int:
        """By how much a number of a vertex has grown since the last entry, over all subtasks."""
        return int(sum(self._more(counts, subtask, name) for subtask in vertex.subtasks()))

    def _more(self, counts: Counts, subtask: Subtask, name: str) -> float:
        before = self._counted.get(subtask, {}).get(name, 0)
        return max(0.0, counts.get(subtask, {}).get(name, 0) - before)

    def _rows(self, counts: Counts) -> int:
        return sum(self._read(counts, *step) for step in counted_steps(self.plan) if step[1].source)

    def _read(self, counts: Counts, vertex: Vertex, node: Node, key: str) -> int:
        return self._grown(counts, vertex, f"{key}.{RECORDS_COUNTER}")

    def _busiest_s(self, counts: Counts) -> float:
        """How long the busiest subtask was at work: what the job cannot be faster than."""
        spent = (self._more(counts, subtask, BUSY_COUNTER) for subtask in self.plan.subtasks())
        return max(spent, default=0.0) / 1000

    # --- parts of an entry ------------------------------------------------------------------

    def _sources(self, counts: Counts, elapsed: float, busy: float) -> list[Entry]:
        made: list[Entry] = []
        for vertex, node, key in counted_steps(self.plan):
            if node.source is not None:
                rows = self._read(counts, vertex, node, key)
                made.append(
                    {
                        "description": node.name,
                        "startOffset": None,
                        "endOffset": None,
                        "latestOffset": None,
                        "numInputRows": rows,
                        "inputRowsPerSecond": _rate(rows, elapsed),
                        "processedRowsPerSecond": _rate(rows, busy),
                        "metrics": {},
                    }
                )
        return made

    def _sink(self, counts: Counts) -> Entry:
        sinks = [step for step in counted_steps(self.plan) if step[1].sink is not None]
        return {
            "description": ", ".join(node.name for _, node, _ in sinks),
            "numOutputRows": sum(self._read(counts, *step) for step in sinks),
            "metrics": {},
        }

    def _state(self, counts: Counts, sizes: Mapping[Subtask, int]) -> list[Entry]:
        """A vertex each: its steps are stored together."""
        made: list[Entry] = []
        steps = counted_steps(self.plan)
        for vertex in self.plan.vertices:
            keyed = {key: node for of, node, key in steps if of is vertex and node.keyed}
            if keyed:
                late = sum(self._grown(counts, vertex, f"{key}.{LATE_COUNTER}") for key in keyed)
                made.append(
                    {
                        "operatorName": ", ".join(node.name for node in keyed.values()),
                        "numRowsTotal": None,
                        "numRowsUpdated": None,
                        "numRowsRemoved": None,
                        "allUpdatesTimeMs": None,
                        "allRemovalsTimeMs": None,
                        "commitTimeMs": None,
                        "memoryUsedBytes": sum(sizes.get(subtask, 0) for subtask in vertex.subtasks()),
                        "numRowsDroppedByWatermark": late,
                        "numShufflePartitions": vertex.max_parallelism,
                        "numStateStoreInstances": vertex.parallelism,
                        "customMetrics": {},
                    }
                )
        return made


def counted_steps(plan: Plan) -> list[tuple[Vertex, Node, str]]:
    """All steps, each with what it is called in names of metrics."""
    return [
        (vertex, planned.node, key)
        for vertex in plan.vertices
        for planned, key in zip(
            vertex.operators, step_keys(planned.node.name for planned in vertex.operators), strict=True
        )
    ]


def iso(ms: int) -> str:
    """A time of the calendar as Spark writes it."""
    return dt.datetime.fromtimestamp(ms / 1000, dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


def watermark_of(reports: Iterable[WatermarkReport]) -> int | None:
    """Where event time is: at the slowest of those that the job waits for, or of all if it waits for none."""
    known = list(reports)
    waited = [one.watermark for one in known if one.counts] or [one.watermark for one in known]
    lowest = min(waited, default=MIN_TIME)
    return int(lowest) if MIN_TIME < lowest < MAX_TIME else None


def _event_time(reports: Iterable[WatermarkReport]) -> dict[str, str]:
    """As Spark has it, without what is not known."""
    return _calendar({"watermark": watermark_of(reports)})


def _between(counts: Iterable[Counts]) -> dict[str, str]:
    """Where the times of the records lay that steps made watermarks of."""

    def all_of(name: str) -> list[float]:
        return [value for each in counts_of for key, value in each.items() if key.rpartition(".")[2] == name]

    counts_of = [values for each in counts for values in each.values()]
    count = sum(all_of(EVENT_TIME_COUNT))
    if not count:
        return {}
    avg = sum(all_of(EVENT_TIME_SUM)) / count
    found = {"avg": avg, "max": max(all_of(EVENT_TIME_MAX)), "min": min(all_of(EVENT_TIME_MIN))}
    return _calendar(found)


def _calendar(times: Mapping[str, float | None]) -> dict[str, str]:
    """Times in the form of the calendar, without those that it has not."""
    made: dict[str, str] = {}
    for name, at in times.items():
        with contextlib.suppress(OverflowError, ValueError, OSError):
            made |= {} if at is None else {name: iso(int(at))}
    return made


def _most(parts: Mapping[Subtask, CheckpointPart], what: Callable[[CheckpointPart], float]) -> int:
    return int(max(map(what, parts.values()), default=0))


def _rate(rows: int, seconds: float) -> float:
    return rows / seconds if seconds > 0 else 0.0
