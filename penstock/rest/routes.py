"""Which call is answered by which view: paths are those of ``contract.json``, arguments are text.  Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.rest import checkpoints, job, metric_views, overview, processes, vertices, why
from penstock.rest.look import Look, Refused
from penstock.rest.rates import rates
from penstock.rest.task_views import subtask_view

_MOST_EXCEPTIONS = 20
_MOST_ROWS = 10
_MOST_DIGITS = 18
"""Python refuses to read numbers of thousands."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What stood in the path and behind the question mark."""

    path: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)

    def number(self, name: str, default: int) -> int:
        """A whole number of the query; 400 if it is none."""
        text = self.query.get(name)
        if text is None:
            return default
        if not text.isdecimal() or len(text) > _MOST_DIGITS:
            raise Refused(400, f"{name}={text:.80} will not do: it is a whole number")
        return int(text)


View = Callable[[Look, Asked], Any]


def _exceptions(look: Look, asked: Asked) -> Any:
    return job.exceptions(look, asked.number("maxExceptions", _MOST_EXCEPTIONS))


def _checkpoint(look: Look, asked: Asked) -> Any:
    return checkpoints.record(look, checkpoints.found(look, asked.path["checkpointid"]))


def _checkpoint_subtasks(look: Look, asked: Asked) -> Any:
    found = checkpoints.found(look, asked.path["checkpointid"])
    return checkpoints.subtasks(look, found, look.vertex(asked.path["vertexid"]))


def _vertex_metrics(look: Look, asked: Asked) -> Any:
    values = metric_views.vertex_metrics(look, look.vertex(asked.path["vertexid"]))
    return metric_views.picked(values, asked.query.get("get"))


def _subtasks_metrics(look: Look, asked: Asked) -> Any:
    vertex = look.vertex(asked.path["vertexid"])
    chosen = metric_views.chosen_subtasks(vertex, asked.query.get("subtasks"))
    of_each = [metric_views.subtask_metrics(look, vertex, subtask) for subtask in chosen]
    made = metric_views.together(of_each, asked.query.get("get"), asked.query.get("agg"))
    return made or _not_yet(asked)


def _not_yet(asked: Asked) -> list[dict[str, Any]]:
    """Before the first numbers come, what a dashboard asks for is zero, not absent."""
    names = asked.query.get("get", "").split(",")
    known = {f"{name}PerSecond" for name in metric_views.COUNTED} | {"busyTimeMsPerSecond"}
    known |= {"backPressuredTimeMsPerSecond", "idleTimeMsPerSecond", *metric_views.COUNTED}
    zeros = dict.fromkeys(metric_views.AGGREGATES, 0.0)
    return [{"id": name, **zeros} for name in names if name in known]


def _subtask(look: Look, asked: Asked) -> Any:
    return subtask_view(look, look.subtask(asked.path["vertexid"], asked.path["subtaskindex"]))


def _subtask_metrics(look: Look, asked: Asked) -> Any:
    subtask = look.subtask(asked.path["vertexid"], asked.path["subtaskindex"])
    values = metric_views.subtask_metrics(look, look.vertex(asked.path["vertexid"]), subtask)
    return metric_views.picked(values, asked.query.get("get"))


def _flame_graph(look: Look, asked: Asked) -> Any:
    found = look.vertex(asked.path["vertexid"])
    kind = asked.query.get("type", "FULL").upper()
    if kind not in ("FULL", "ON_CPU", "OFF_CPU"):
        raise Refused(400, f"there is no flame graph of type {kind}; there are full, on_cpu and off_cpu")
    return vertices.flame_graph(look, found, kind, asked.query.get("subtaskindex"))


def _managers_metrics(look: Look, asked: Asked) -> Any:
    wanted = asked.query.get("taskmanagers")
    slots = [slot for slot in look.history.slots.values() if not slot.lost]
    if wanted:
        slots = [processes.found(look, name) for name in wanted.split(",")]
    of_each = [processes.manager_metrics(slot) for slot in slots]
    return metric_views.together(of_each, asked.query.get("get"), asked.query.get("agg"))


def _of_vertex(view: Callable[[Look, Any], Any]) -> View:
    return lambda look, asked: view(look, look.vertex(asked.path["vertexid"]))


def _of_manager(view: Callable[[Look, Any], Any]) -> View:
    return lambda look, asked: view(look, processes.found(look, asked.path["taskmanagerid"]))


def _plain(view: Callable[[Look], Any]) -> View:
    return lambda look, asked: view(look)


def _events(look: Look, asked: Asked) -> Any:
    return {
        "events": [
            {"timestamp": one.at_ms, "kind": one.kind, "text": one.text} for one in look.history.events
        ]
    }


def _holders(look: Look, asked: Asked) -> Any:
    """Who makes watermarks, where each is, and what holds it there."""
    return {
        "stalled": look.history.stalled,
        "held": look.history.held,
        "sources": [
            {
                "step": report.step,
                "subtask": report.subtask,
                "watermark": str(report.watermark),
                "counts": report.counts,
                "holder": report.holder,
            }
            for report in look.history.watermarks.values()
        ],
    }


_JOB = "/jobs/{jobid}"
_VERTEX = f"{_JOB}/vertices/{{vertexid}}"
_MANAGER = "/taskmanagers/{taskmanagerid}"

VIEWS: dict[str, View] = {
    "/overview": _plain(overview.overview),
    "/applications/overview": _plain(overview.applications_overview),
    "/applications/{applicationid}": _plain(overview.application),
    "/applications/{applicationid}/exceptions": _plain(job.application_exceptions),
    "/jobs": _plain(overview.jobs),
    "/jobs/overview": _plain(overview.jobs_overview),
    "/jobs/metrics": lambda look, asked: metric_views.together(
        [metric_views.job_metrics(look)], asked.query.get("get"), asked.query.get("agg")
    ),
    _JOB: _plain(job.job),
    f"{_JOB}/status": _plain(job.status),
    f"{_JOB}/plan": lambda look, asked: {"plan": job.plan(look)},
    f"{_JOB}/config": _plain(job.settings),
    f"{_JOB}/exceptions": _exceptions,
    f"{_JOB}/accumulators": _plain(job.accumulators),
    f"{_JOB}/metrics": lambda look, asked: metric_views.picked(
        metric_views.job_metrics(look), asked.query.get("get")
    ),
    f"{_JOB}/resource-requirements": _plain(job.resource_requirements),
    f"{_JOB}/jobmanager/config": _plain(job.configuration),
    f"{_JOB}/jobmanager/environment": lambda look, asked: processes.environment(),
    f"{_JOB}/events": _events,
    f"{_JOB}/watermark-holders": _holders,
    f"{_JOB}/penstock/rates": _plain(rates),
    f"{_JOB}/penstock/why": lambda look, asked: why.why(look, asked.number("most", _MOST_ROWS)),
    f"{_JOB}/checkpoints": _plain(checkpoints.checkpoints),
    f"{_JOB}/checkpoints/config": _plain(checkpoints.config),
    f"{_JOB}/checkpoints/details/{{checkpointid}}": _checkpoint,
    f"{_JOB}/checkpoints/details/{{checkpointid}}/subtasks/{{vertexid}}": _checkpoint_subtasks,
    _VERTEX: _of_vertex(vertices.vertex),
    f"{_VERTEX}/subtasktimes": _of_vertex(vertices.subtask_times),
    f"{_VERTEX}/taskmanagers": _of_vertex(vertices.task_managers),
    f"{_VERTEX}/accumulators": _of_vertex(lambda look, vertex: vertices.accumulators(vertex)),
    f"{_VERTEX}/subtasks/accumulators": _of_vertex(vertices.subtask_accumulators),
    f"{_VERTEX}/backpressure": _of_vertex(vertices.backpressure),
    f"{_VERTEX}/watermarks": _of_vertex(vertices.watermarks),
    f"{_VERTEX}/flamegraph": _flame_graph,
    f"{_VERTEX}/metrics": _vertex_metrics,
    f"{_VERTEX}/jm-operator-metrics": _of_vertex(lambda look, vertex: []),
    f"{_VERTEX}/subtasks/metrics": _subtasks_metrics,
    f"{_VERTEX}/subtasks/{{subtaskindex}}": _subtask,
    f"{_VERTEX}/subtasks/{{subtaskindex}}/metrics": _subtask_metrics,
    "/jobmanager/config": _plain(job.configuration),
    "/jobmanager/environment": lambda look, asked: processes.environment(),
    "/jobmanager/metrics": lambda look, asked: metric_views.picked(
        metric_views.cluster_metrics(look), asked.query.get("get")
    ),
    "/taskmanagers": _plain(processes.task_managers),
    "/taskmanagers/metrics": _managers_metrics,
    _MANAGER: _of_manager(processes.task_manager),
    f"{_MANAGER}/metrics": lambda look, asked: metric_views.picked(
        processes.manager_metrics(processes.found(look, asked.path["taskmanagerid"])), asked.query.get("get")
    ),
    f"{_MANAGER}/thread-dump": _of_manager(processes.slot_threads),
}
"""All that only look, but for ``/config``, logs and the driver's threads, which ask the machine."""
SAMPLED = (f"{_VERTEX}/flamegraph", f"{_MANAGER}/thread-dump")
"""Views of what slots were seen at: whoever asks has them look."""


def answer(view: View, look: Look, asked: Asked) -> Any:
    """What a view says, once the ids in the path are known to be this job's."""
    for name in ("jobid", "applicationid"):
        if name in asked.path:
            look.check_job(asked.path[name])
    return view(look, asked)
