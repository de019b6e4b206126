"""The plan on its way to the slots."""

from __future__ import annotations

from dataclasses import replace

import cloudpickle

from penstock.core.errors import GraphError
from penstock.core.pickling import culprit, ship
from penstock.graph.plan import Plan


def pickled_plan(plan: Plan) -> bytes:
    """The plan as slots get it; refuses what cannot be sent, by its step."""
    for _, planned in plan.operators():
        _check_shipping(planned.node.factory, f"step {planned.node.name!r}")
    for edge in plan.edges:
        target = plan.vertex(edge.target).name
        _check_shipping(edge.partitioning, f"the key selector or partitioner before {target!r}")
    return ship(shipped_plan(plan))


def shipped_plan(plan: Plan) -> Plan:
    """The plan for the slots: sources and sinks travel inside their operators only."""
    vertices = tuple(
        replace(
            vertex,
            operators=tuple(
                replace(planned, node=replace(planned.node, source=None, sink=None))
                for planned in vertex.operators
            ),
        )
        for vertex in plan.vertices
    )
    return replace(plan, vertices=vertices)


def _check_shipping(part: object, what: str) -> None:
    try:
        cloudpickle.dumps(part)
    except Exception as error:
        raise GraphError(
            f"{what} cannot be sent to the slots: {culprit(part)}, which cannot be pickled ({error}). Open "
            "files, locks, connections and Spark objects belong to one process: make them in the function's "
            "open() instead"
        ) from error
