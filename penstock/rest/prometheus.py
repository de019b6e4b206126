"""``/metrics``: Flink's names and labels in Prometheus' text format.

Everything is a gauge, as Flink's own reporter has it.  The names are ``flink_<scope>_<metric>``; what only
Penstock has begins with ``penstock_``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from penstock.core.ids import MIN_TIME
from penstock.core.metric_names import labelled
from penstock.graph.plan import Plan
from penstock.rest import metric_views, processes
from penstock.rest.look import Look, Process, rest_id, step_name, vertex_name
from penstock.rest.task_views import manager_id

CONTENT_TYPE = CONTENT_TYPE_LATEST
_JOB = ("job_id", "job_name")
_MANAGER = ("host", "tm_id")
_TASK = (
    *_MANAGER,
    *_JOB,
    "task_id",
    "task_name",
    "task_attempt_id",
    "task_attempt_num",
    "subtask_index",
)
_STEP = (*_TASK, "operator_id", "operator_name")

_NAMES = 10_000
"""Names that are remembered in Prometheus' spelling: users may make them up as they go."""

Sample = tuple[str, tuple[str, ...], tuple[str, ...], float]
"""Name, names of its labels, their values, and the number."""


def exposed(look: Look) -> bytes:
    """The text for a scrape."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_OneLook(look))
    return generate_latest(registry)


class _OneLook(Collector):
    def __init__(self, look: Look) -> None:
        self._look = look

    def collect(self) -> Iterable[GaugeMetricFamily]:
        families: dict[str, GaugeMetricFamily] = {}
        seen: set[Any] = set()
        for name, labels, values, number in samples(self._look):
            family = families.get(name)
            if family is None:
                family = families[name] = GaugeMetricFamily(name, name)
            if (name, labels, values) not in seen:  # two names of a user may be one to Prometheus
                seen.add((name, labels, values))
                family.add_sample(name, dict(zip(labels, map(_valid, values), strict=True)), number)
        return families.values()

    def describe(self) -> Iterable[GaugeMetricFamily]:
        return ()


def samples(look: Look) -> Iterator[Sample]:
    """All numbers of the job and its processes."""
    host, job = (look.driver.host,), (look.job_id, look.plan.job_name)
    for name, value in metric_views.cluster_metrics(look).items():
        yield _named("jobmanager", name), ("host",), host, value
    for name, value in metric_views.job_metrics(look).items():
        yield _named("jobmanager_job", name), ("host", *_JOB), (*host, *job), value
    for name, value in look.numbers.items():
        yield f"penstock_job_{name}", ("host", *_JOB), (*host, *job), value
    for slot in look.history.slots.values():
        if not slot.lost:
            place = (slot.host or "localhost", manager_id(int(slot.slot)))
            for name, value in processes.manager_metrics(slot).items():
                yield _named("taskmanager", name), _MANAGER, place, value
            yield from _of_process(processes.process_of(slot), place)
    yield from _of_process(look.driver, (look.driver.host, "driver"))
    yield from _of_tasks(look)
    yield from _of_watermarks(look)


def _of_tasks(look: Look) -> Iterator[Sample]:
    job = (look.job_id, look.plan.job_name)
    attempt = str(max(0, look.history.attempt))
    for vertex in look.plan.vertices:
        vertex_id, name = rest_id(vertex), vertex_name(vertex)
        for subtask in vertex.subtasks():
            slot = look.history.slots.get(Plan.slot_of(subtask))
            host = slot.host if slot is not None and slot.host else "localhost"
            index = str(int(subtask.index))
            attempt_id = f"{vertex_id}_{index}_{attempt}"
            place = (host, manager_id(int(subtask.index)), *job)
            labels = (*place, vertex_id, name, attempt_id, attempt, index)
            for metric, value in metric_views.task_metrics(look, subtask).items():
                yield _named("taskmanager_job_task", metric), _TASK, labels, value
            for number, values in metric_views.raw_step_metrics(look, vertex, subtask).items():
                planned = vertex.operators[number]
                step = (*labels, str(planned.operator_id), step_name(planned.node))
                for metric, value in values.items():
                    yield _of_step(metric, step, value)


def _of_step(metric: str, step: tuple[str, ...], value: float) -> Sample:
    """Keys and values of groups are labels; a key that is a label of ours has ``user_`` before it."""
    name, pairs = labelled(metric)
    labels = {_label(key): text for key, text in pairs}
    return _named("taskmanager_job_task_operator", name), (*_STEP, *labels), (*step, *labels.values()), value


@lru_cache(_NAMES)
def _label(key: str) -> str:
    made = re.sub(r"[^A-Za-z0-9_]", "_", key)
    taken = made in _STEP or made.startswith("__") or not made or made[0].isdigit()
    return f"user_{made}" if taken else made


def _of_process(process: Process, place: tuple[str, ...]) -> Iterator[Sample]:
    """What Python knows and no JVM has a name for."""
    yield "penstock_process_resident_bytes", _MANAGER, place, process.used_bytes
    yield "penstock_process_gc_longest_pause_ms", _MANAGER, place, process.gc_longest_ms
    for generation, count in enumerate(process.gc_counts):
        labels = (*_MANAGER, "generation")
        yield "penstock_process_gc_collections", labels, (*place, str(generation)), count


def _of_watermarks(look: Look) -> Iterator[Sample]:
    """Which makers of watermarks the job waits for: the one with the lowest holds event time back."""
    counting = [one for one in look.history.watermarks.values() if one.counts]
    if counting:
        holder = min(counting, key=lambda one: one.watermark)
        labels = (*_JOB, "step", "subtask", "stalled")
        stalled = "yes" if look.history.stalled else "no"
        values = (look.job_id, look.plan.job_name, holder.step, str(holder.subtask), stalled)
        mark = holder.watermark if holder.watermark > MIN_TIME else 0
        yield "penstock_watermark_held_by", labels, values, mark


def _valid(text: str) -> str:
    """A label's value that can be sent: one name that is no valid Unicode must not end all scrapes."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


@lru_cache(_NAMES)
def _named(scope: str, metric: str) -> str:
    return re.sub(r"[^A-Za-z0-9:_]", "_", f"flink_{scope}_{metric}")
