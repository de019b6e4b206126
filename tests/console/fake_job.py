"""A job that exists only as answers: plausible numbers that move with every look at it.

Shapes are those of Flink's REST; what it says of time is the machine's clock, all else comes from ``looks``,
which grows by one with every call of ``job()``.  Tests change the fields between calls.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from typing import Any

Json = Any

JOB = "5b1e0c9a7d3f4e2b8a6c1d0e9f8a7b6c"
NO_WATERMARK = "-9223372036854775808"
STATES = ("CREATED", "SCHEDULED", "DEPLOYING", "INITIALIZING", "RUNNING", "FINISHED", "CANCELED", "FAILED")
TRACEBACK = """Traceback (most recent call last):
  File "/opt/venv/lib/python3.11/site-packages/penstock/task/task.py", line 212, in step
    self._chain.process(batch)
  File "/opt/venv/lib/python3.11/site-packages/penstock/operators/process.py", line 88, in process
    self._function.process_element(value, self._context)
  File "/home/ana/jobs/clicks.py", line 41, in process_element
    amount = int(value["amount"])
ValueError: invalid literal for int() with base 10: '12,50'"""


def now_ms() -> int:
    """The machine's clock."""
    return int(time.time() * 1000)


@dataclass
class Vertex:
    """One step, with how it is doing."""

    id: str
    name: str
    parallelism: int
    inputs: tuple[tuple[str, str], ...] = ()
    rate: float = 0.0
    busy: float = 0.3
    backpressured: float = 0.0
    lag_ms: int = 1500
    operators: dict[str, float] = field(default_factory=dict)


def usual_vertices() -> list[Vertex]:
    """Two sources, a join, a window that is the bottleneck, two sinks."""
    clicks, users, joined, window, totals, alerts = (digit * 32 for digit in "abcdef")
    source = {
        "Source__clicks.currentEmitEventTimeLag": 2400,
        "Source__clicks.pendingRecords": 18_400,
        "Source__clicks.sourceIdleTime": 0,
    }
    return [
        Vertex(clicks, "Source: clicks -> parse", 4, (), 52_000, 0.22, 0.71, 1200, source),
        Vertex(users, "Source: users", 1, (), 40, 0.01, 0.0, 900, {"Source__users.pendingRecords": 0}),
        Vertex(
            joined, "enrich with users", 4, ((clicks, "HASH"), (users, "BROADCAST")), 51_900, 0.41, 0.52, 1900
        ),
        Vertex(
            window,
            "totals per minute and country",
            4,
            ((joined, "HASH"),),
            51_800,
            0.97,
            0.0,
            6400,
            {"totals.numLateRecordsDropped": 37},
        ),
        Vertex(
            totals,
            "Sink: totals",
            2,
            ((window, "REBALANCE"),),
            310,
            0.08,
            0.0,
            6500,
            {"Sink__totals.commit_lag_ms": 4100},
        ),
        Vertex(alerts, "Sink: alerts", 1, ((window, "FORWARD"),), 4, 0.02, 0.0, 6500),
    ]


@dataclass
class FakeJob:
    """What the server says of one job."""

    jid: str = JOB
    name: str = "clicks by country"
    state: str = "RUNNING"
    kind: str = "STREAMING"
    vertices: list[Vertex] = field(default_factory=usual_vertices)
    started: int = field(default_factory=lambda: now_ms() - 11 * 60_000)
    looks: int = 0
    checkpoint_failed: bool = False
    savepoints: int = 0
    failures: list[dict[str, Json]] = field(default_factory=list)
    stuck_since: int | None = None

    def job(self) -> Json:
        """``/jobs/:id``."""
        self.looks += 1
        now = now_ms()
        return {
            "jid": self.jid,
            "name": self.name,
            "isStoppable": False,
            "state": self.state,
            "job-type": self.kind,
            "start-time": self.started,
            "end-time": -1 if self.running else now,
            "duration": now - self.started,
            "maxParallelism": 128,
            "now": now,
            "timestamps": self._timestamps(now),
            "vertices": [self._vertex(vertex, now) for vertex in self.vertices],
            "status-counts": {"RUNNING": len(self.vertices)},
            "plan": {
                "jid": self.jid,
                "name": self.name,
                "type": self.kind,
                "nodes": [_node(vertex) for vertex in self.vertices],
            },
        }

    @property
    def running(self) -> bool:
        return self.state not in ("FINISHED", "CANCELED", "FAILED")

    def overview(self) -> Json:
        """An entry of ``/jobs/overview``."""
        total = sum(vertex.parallelism for vertex in self.vertices)
        return {
            "jid": self.jid,
            "name": self.name,
            "jobType": self.kind,
            "start-time": self.started,
            "end-time": -1,
            "duration": now_ms() - self.started,
            "state": self.state,
            "last-modification": self.started,
            "tasks": {"total": total, "running": total if self.running else 0},
        }

    def found(self, vertex_id: str) -> Vertex | None:
        return next((vertex for vertex in self.vertices if vertex.id == vertex_id), None)

    def metrics(self, vertex: Vertex) -> dict[str, list[float]]:
        """Each metric's value in each subtask."""
        wave = 1 + 0.12 * math.sin(self.looks / 3)
        busy = min(1000.0, vertex.busy * 1000 * (1 + 0.02 * math.sin(self.looks)))
        n = vertex.parallelism
        # The last subtask has more to do than the others, as with a hot key.
        shares = [1.0 / n] * n if n == 1 else [0.8 / n] * (n - 1) + [1 - 0.8 * (n - 1) / n]
        rate = vertex.rate * wave if self.running else 0.0
        per_subtask = [rate * share for share in shares]
        counted = {name: [value / n] * n for name, value in vertex.operators.items()}
        return {
            "busyTimeMsPerSecond": [busy * (0.7 + 0.3 * (at == n - 1)) for at in range(n)],
            "backPressuredTimeMsPerSecond": [vertex.backpressured * 1000 * wave / 1.12] * n,
            "idleTimeMsPerSecond": [max(0.0, 1000 - busy - vertex.backpressured * 1000)] * n,
            "numRecordsInPerSecond": [0.0] * n if not vertex.inputs else per_subtask,
            "numRecordsOutPerSecond": per_subtask,
            "numRecordsIn": [(self.looks + 600) * vertex.rate * share for share in shares],
            "numRecordsOut": [(self.looks + 600) * vertex.rate * share for share in shares],
            **counted,
        }

    def watermarks(self, vertex: Vertex) -> Json:
        now = now_ms() if self.stuck_since is None else self.stuck_since
        values = [now - vertex.lag_ms - 300 * (at == 0) for at in range(vertex.parallelism)]
        return [{"id": f"{at}.currentInputWatermark", "value": str(value)} for at, value in enumerate(values)]

    def load(self, vertex: Vertex) -> Json:
        """``.../backpressure``."""
        found = self.metrics(vertex)
        rows = []
        for at in range(vertex.parallelism):
            busy, waits = (
                found["busyTimeMsPerSecond"][at] / 1000,
                found["backPressuredTimeMsPerSecond"][at] / 1000,
            )
            level = "high" if waits > 0.5 else "low" if waits > 0.1 else "ok"
            rows.append(
                {
                    "subtask": at,
                    "attempt-number": 0,
                    "backpressureLevel": level,
                    "backpressure-level": level,
                    "ratio": waits,
                    "busyRatio": busy,
                    "idleRatio": max(0.0, 1 - busy - waits),
                }
            )
        return {"status": "ok", "backpressure-level": "ok", "end-timestamp": now_ms(), "subtasks": rows}

    def subtasks(self, vertex: Vertex) -> Json:
        """``.../vertices/:v``."""
        found = self.metrics(vertex)
        rows = [
            {
                "subtask": at,
                "status": "RUNNING" if self.running else self.state,
                "attempt": len(self.failures),
                "endpoint": f"host-{at % 2}:0",
                "taskmanager-id": f"executor-{at % 2}",
                "start-time": self.started + 900,
                "start_time": self.started + 900,
                "end-time": -1,
                "duration": now_ms() - self.started,
                "metrics": _totals(found["numRecordsIn"][at], found["numRecordsOut"][at], self.looks),
                "status-duration": {"RUNNING": now_ms() - self.started},
            }
            for at in range(vertex.parallelism)
        ]
        return {
            "id": vertex.id,
            "name": vertex.name,
            "parallelism": vertex.parallelism,
            "now": now_ms(),
            "subtasks": rows,
        }

    def subtask_times(self, vertex: Vertex) -> Json:
        began = self.started
        stamps = {
            "CREATED": began,
            "SCHEDULED": began + 40,
            "DEPLOYING": began + 300,
            "RUNNING": began + 4000,
        }
        rows = [
            {
                "subtask": at,
                "host": f"host-{at % 2}",
                "endpoint": f"host-{at % 2}:0",
                "duration": 1,
                "timestamps": stamps,
            }
            for at in range(vertex.parallelism)
        ]
        return {"id": vertex.id, "name": vertex.name, "now": now_ms(), "subtasks": rows}

    def exceptions(self) -> Json:
        return {"exceptionHistory": {"entries": self.failures, "truncated": False}}

    def fail(self, name: str = "ValueError", stack: str = TRACEBACK) -> None:
        """A failure that the job came back from."""
        entry = {
            "exceptionName": name,
            "stacktrace": stack,
            "timestamp": now_ms(),
            "failureLabels": {"record": "{'user': 7, 'amount': '12,50'}"},
            "taskName": "enrich with users (3/4)",
            "endpoint": "host-1:0",
            "taskManagerId": "executor-1",
            "concurrentExceptions": [],
        }
        self.failures.insert(0, entry)

    def _timestamps(self, now: int) -> dict[str, int]:
        stamps = {"CREATED": self.started, "RUNNING": self.started + 4200}
        return stamps if self.state == "RUNNING" else {**stamps, self.state: now}

    def _vertex(self, vertex: Vertex, now: int) -> Json:
        found = self.metrics(vertex)
        return {
            "id": vertex.id,
            "name": vertex.name,
            "maxParallelism": 128,
            "parallelism": vertex.parallelism,
            "status": "RUNNING" if self.state == "RUNNING" else self.state,
            "start-time": self.started + 900,
            "end-time": -1,
            "duration": now - self.started - 900,
            "tasks": {"RUNNING": vertex.parallelism},
            "metrics": _totals(sum(found["numRecordsIn"]), sum(found["numRecordsOut"]), self.looks),
        }


def _totals(received: float, sent: float, looks: int) -> Json:
    return {
        "read-records": int(received),
        "read-bytes": int(received * 64),
        "write-records": int(sent),
        "write-bytes": int(sent * 48),
        "accumulated-busy-time": 1000.0 * looks,
        "accumulated-backpressured-time": 300 * looks,
        "accumulated-idle-time": 100 * looks,
    }


def _node(vertex: Vertex) -> Json:
    inputs = [
        {"num": at, "id": source, "ship_strategy": strategy, "exchange": "pipelined_bounded"}
        for at, (source, strategy) in enumerate(vertex.inputs)
    ]
    return {
        "id": vertex.id,
        "operator": "",
        "parallelism": vertex.parallelism,
        "description": vertex.name,
        "inputs": inputs,
    }
