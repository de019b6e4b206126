"""What one request sees of the job: a moment, and the names by which its parts are asked for."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.coordinator.history_view import HistoryView
from penstock.coordinator.settings import JobSettings
from penstock.core.config import Configuration
from penstock.core.error_codes import Code
from penstock.core.errors import PenstockError
from penstock.core.ids import Subtask
from penstock.core.job import JobStatus
from penstock.graph.nodes import Node, NodeKind
from penstock.graph.plan import Plan, Vertex

_ID = re.compile(r"[0-9a-f]{32}")
_MOST_DIGITS = 9


class Refused(PenstockError):
    """A request that is not answered as asked: an HTTP status and a sentence."""

    code = Code.REST

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


@dataclass(frozen=True, slots=True)
class Process:
    """What a process says of itself."""

    pid: int = 0
    host: str = ""
    used_bytes: int = 0
    limit_bytes: int = 0
    cpu_s: float = 0.0
    cpu_load: float = 0.0
    gc_ms: float = 0.0
    gc_ms_per_s: float = 0.0
    threads: int = 0
    gc_longest_ms: float = 0.0
    gc_counts: tuple[int, int, int] = (0, 0, 0)
    """How often Python's collector ran, by generation."""

    @classmethod
    def of(cls, facts: Mapping[str, float], host: str, used: int, limit: int) -> Process:
        """From what :class:`~penstock.core.process_facts.ProcessFacts` gave; zeros if it gave nothing."""
        said = {"pid": 0.0, "threads": 0.0, "cpu_s": 0.0, "cpu_load": 0.0, "gc_ms": 0.0, "gc_ms_per_s": 0.0}
        said |= facts
        times = (said["cpu_s"], said["cpu_load"], said["gc_ms"], said["gc_ms_per_s"])
        first, second, third = (int(said.get(f"gc_count_{number}", 0)) for number in range(3))
        longest = said.get("gc_longest_ms", 0.0)
        known = (int(said["pid"]), host, used, limit, *times, int(said["threads"]))
        return cls(*known, gc_longest_ms=longest, gc_counts=(first, second, third))


@dataclass(frozen=True, slots=True)
class Look:
    """A job at one moment. All views are functions of it."""

    job_id: str
    plan: Plan
    settings: JobSettings
    configuration: Configuration
    history: HistoryView
    status: JobStatus
    now: int
    """Milliseconds since the epoch."""
    root: str | None = None
    """Where its checkpoints are."""
    read_only: bool = False
    driver: Process = field(default_factory=Process)
    numbers: Mapping[str, float] = field(default_factory=dict)
    """Counts that the coordinator keeps: ``restarts``, ``late_dropped``, ``outputs_dropped``."""

    @property
    def is_batch(self) -> bool:
        """Whether the job runs as Spark stages, without slots and snapshots."""
        return self.plan.settings.batch

    def check_job(self, job_id: str) -> None:
        """404 unless this is the job's id."""
        if job_id != self.job_id:
            raise Refused(404, f"there is no job {job_id} here; this driver runs {self.job_id}")

    def vertex(self, vertex_id: str) -> Vertex:
        """The vertex with this id, or 404."""
        for vertex in self.plan.vertices:
            if rest_id(vertex) == vertex_id:
                return vertex
        known = ", ".join(rest_id(vertex) for vertex in self.plan.vertices)
        raise Refused(404, f"the job has no vertex {vertex_id}; it has {known}")

    def subtask(self, vertex_id: str, index: str) -> Subtask:
        """One subtask of a vertex, or 404."""
        subtasks = self.vertex(vertex_id).subtasks()
        if not index.isdecimal() or len(index) > _MOST_DIGITS or int(index) >= len(subtasks):
            raise Refused(404, f"vertex {vertex_id} has no subtask {index:.80}; it has {len(subtasks)}")
        return subtasks[int(index)]

    def elapsed(self, start: int, end: int | None) -> int:
        """Milliseconds from ``start`` to an end, or until now."""
        return max(0, (self.now if end is None else end) - start)


def rest_id(vertex: Vertex) -> str:
    """A vertex's id as Flink's tools want it: 32 hexadecimal digits, the identity of its first operator."""
    whole = str(vertex.head.operator_id)
    return whole if _ID.fullmatch(whole) else hashlib.md5(whole.encode(), usedforsecurity=False).hexdigest()


def step_name(node: Node) -> str:
    """A step as Flink's tools know it: sources and sinks say what they are."""
    kind = {NodeKind.SOURCE: "Source: ", NodeKind.SINK: "Sink: "}.get(node.kind, "")
    return node.name if node.name.startswith(kind) else f"{kind}{node.name}"


def vertex_name(vertex: Vertex) -> str:
    """The steps of a vertex, chained."""
    return " -> ".join(step_name(planned.node) for planned in vertex.operators)


def metric_scope(node: Node) -> str:
    """A step's name inside the name of a metric."""
    return re.sub(r"[^A-Za-z0-9]", "_", step_name(node))
