"""One job: its graph, its vertices, its settings, why it failed.  Pure."""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import Any

from penstock.coordinator.failure_history import Failure
from penstock.core import options
from penstock.core.discreet import HIDDEN, discreet, is_secret
from penstock.core.job import JobStatus
from penstock.core.restart import ExponentialDelay, FailureRate, FixedDelay
from penstock.exchange.partition import Partitioning
from penstock.graph.plan import Vertex
from penstock.rest.look import Look, Refused, rest_id, vertex_name
from penstock.rest.task_views import (
    STATES,
    io_metrics,
    manager_id,
    place_of,
    records_span,
    state_counts,
    vertex_state,
)


def job(look: Look) -> dict[str, Any]:
    """All of it that the graph's page needs."""
    history = look.history
    statuses = {status.name: 0 for status in JobStatus} | {"INITIALIZING": history.started_ms}
    statuses |= {status.name: int(at) for status, at in history.since.items()}
    vertices = [_vertex(look, vertex) for vertex in look.plan.vertices]
    return {
        "jid": look.job_id,
        "application-id": look.job_id,
        "name": look.plan.job_name,
        "isStoppable": False,
        "state": look.status.name,
        "job-type": "BATCH" if look.is_batch else "STREAMING",
        "schedulerType": "Default",
        "start-time": history.started_ms,
        "end-time": -1 if history.ended_ms is None else history.ended_ms,
        "duration": look.elapsed(history.started_ms, history.ended_ms),
        "maxParallelism": max(vertex.max_parallelism for vertex in look.plan.vertices),
        "now": look.now,
        "timestamps": statuses,
        "vertices": vertices,
        "status-counts": {state: sum(vertex["status"] == state for vertex in vertices) for state in STATES},
        "plan": plan(look),
        "pending-operators": 0,
    }


def _vertex(look: Look, vertex: Vertex) -> dict[str, Any]:
    subtasks = vertex.subtasks()
    records = [look.history.tasks[subtask] for subtask in subtasks]
    return {
        "id": rest_id(vertex),
        "slotSharingGroupId": look.job_id,
        "name": vertex_name(vertex),
        "maxParallelism": vertex.max_parallelism,
        "parallelism": vertex.parallelism,
        "status": vertex_state(look, vertex),
        **records_span(look, records),
        "tasks": state_counts(look, subtasks),
        "metrics": io_metrics(look, subtasks),
    }


def plan(look: Look) -> dict[str, Any]:
    """The graph; nodes in order, each behind those it reads from."""
    return {
        "jid": look.job_id,
        "name": look.plan.job_name,
        "type": "BATCH" if look.is_batch else "STREAMING",
        "nodes": [_node(look, vertex) for vertex in look.plan.vertices],
    }


def _node(look: Look, vertex: Vertex) -> dict[str, Any]:
    by_id = {other.id: other for other in look.plan.vertices}
    coming = [edge for edge in look.plan.edges if edge.target == vertex.id]
    return {
        "id": rest_id(vertex),
        "operator": "",
        "parallelism": vertex.parallelism,
        "operator_strategy": "",
        "description": html.escape(vertex_name(vertex)),
        "optimizer_properties": {},
        "inputs": [
            {
                "num": number,
                "id": rest_id(by_id[edge.source]),
                "ship_strategy": ship_strategy(edge.partitioning),
                "exchange": "blocking" if look.is_batch else "pipelined_bounded",
            }
            for number, edge in enumerate(coming)
        ],
    }


def ship_strategy(partitioning: Partitioning) -> str:
    """How an exchange deals its records, as a label."""
    return partitioning.strategy.upper()


def status(look: Look) -> dict[str, Any]:
    """The status alone."""
    return {"status": look.status.name}


def settings(look: Look) -> dict[str, Any]:
    """How the job was told to run."""
    policy = look.settings.restart
    match policy:
        case FixedDelay():
            words = f"Restart with fixed delay ({policy.delay_ms} ms). #{policy.attempts} restart attempts."
        case FailureRate():
            words = f"Failure rate restart with maximum of {policy.max_failures} failures within interval "
            words += f"{policy.interval_ms} ms and fixed delay {policy.delay_ms} ms."
        case ExponentialDelay():
            words = f"Restart with exponential delay, {policy.initial_ms} ms to {policy.max_ms} ms."
        case _:
            words = "Restart deactivated."
    parameters = dict(look.plan.settings.job_parameters)
    return {
        "jid": look.job_id,
        "name": look.plan.job_name,
        "execution-config": {
            "restart-strategy": words,
            "job-parallelism": look.plan.slots,
            "object-reuse-mode": bool(look.configuration.get(options.OBJECT_REUSE)),
            "user-config": {str(key): concealed(str(key), value) for key, value in parameters.items()},
        },
    }


def configuration(look: Look) -> list[dict[str, str]]:
    """Every setting that was made, without secrets."""
    made = look.configuration.to_dict()
    return [{"key": key, "value": concealed(key, made[key])} for key in sorted(made)]


def concealed(key: str, value: object) -> str:
    """A setting's value as it may be shown."""
    return HIDDEN if is_secret(key) else discreet(str(value))


def exceptions(look: Look, most: int) -> dict[str, Any]:
    """What ended each attempt, newest first."""
    newest = list(reversed(look.history.failures))
    entries = [
        {
            **_failure(look, record.root),
            "concurrentExceptions": [_failure(look, one) for one in record.others],
        }
        for record in newest[:most]
    ]
    return {"exceptionHistory": {"entries": entries, "truncated": look.history.failure_count > len(entries)}}


def application_exceptions(look: Look) -> dict[str, Any]:
    """The same of the application."""
    entries = [
        {
            "exceptionName": record.root.name,
            "stacktrace": record.root.stack,
            "timestamp": record.root.at_ms,
            "jobId": look.job_id,
        }
        for record in reversed(look.history.failures)
    ]
    return {"exceptionHistory": {"entries": entries}}


def _failure(look: Look, failure: Failure) -> dict[str, Any]:
    subtask = failure.subtask
    named = None
    if subtask is not None:
        vertex = look.plan.vertex(subtask.vertex)
        named = f"{vertex_name(vertex)} ({subtask.index + 1}/{vertex.parallelism})"
    slot = None if failure.slot is None else manager_id(int(failure.slot))
    endpoint = failure.host or (place_of(look, subtask)[0] if subtask is not None else None)
    return {
        "exceptionName": failure.name,
        "stacktrace": failure.stack,
        "timestamp": failure.at_ms,
        "failureLabels": _labels(failure),
        "taskName": named,
        "endpoint": endpoint,
        "taskManagerId": slot,
    }


def _labels(failure: Failure) -> dict[str, str]:
    """The step of the user's function that raised, and the record that made it."""
    told = {"step": failure.step, "record": failure.record}
    return {name: text for name, text in told.items() if text is not None}


def accumulators(look: Look) -> dict[str, Any]:
    """There are none."""
    empty: list[Any] = []
    return {
        "job-accumulators": empty,
        "user-task-accumulators": empty,
        "serialized-user-task-accumulators": {},
    }


def resource_requirements(look: Look) -> dict[str, Any]:
    """Each vertex has the parallelism that it has, no less and no more."""
    return {
        rest_id(vertex): {"parallelism": {"lowerBound": vertex.parallelism, "upperBound": vertex.parallelism}}
        for vertex in look.plan.vertices
    }


def wanted_parallelism(look: Look, body: Mapping[str, Any]) -> int:
    """The parallelism that new requirements ask for: one for the job, see ``penstock rescale``."""
    vertices = {rest_id(vertex): vertex for vertex in look.plan.vertices}
    if body.keys() != vertices.keys():
        raise Refused(400, f"the body must name each vertex of the job, and no other: {', '.join(vertices)}")
    wanted: set[int] = set()
    for name, vertex in vertices.items():
        upper = _upper_bound(name, body[name])
        own = vertex.head.node.parallelism
        if own is None:
            wanted.add(upper)
        elif upper != own:
            raise Refused(400, f"{vertex.name!r} has parallelism {own} from the program and keeps it")
    if len(wanted) > 1:
        raise Refused(
            400,
            f"one parallelism is for the whole job, not {', '.join(map(str, sorted(wanted)))}: give the "
            "vertices without a parallelism of their own the same upperBound",
        )
    return wanted.pop() if wanted else look.plan.parallelism


def _upper_bound(name: str, asked: Any) -> int:
    bounds = asked.get("parallelism") if isinstance(asked, dict) else None
    lower, upper = (
        (bounds.get("lowerBound"), bounds.get("upperBound")) if isinstance(bounds, dict) else (0, 0)
    )
    if type(lower) is not int or type(upper) is not int or not 1 <= lower <= upper:
        raise Refused(400, f"vertex {name} needs parallelism.lowerBound from 1, and no lower upperBound")
    return upper
