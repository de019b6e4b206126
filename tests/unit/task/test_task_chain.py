"""The one builder of chains: what operators are handed, and what is released if it fails."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from test_task_build import STORY, Told

from penstock.core.clock import ManualClock
from penstock.core.errors import UserCodeError
from penstock.core.ids import OperatorId, SubtaskIndex, VertexId
from penstock.core.metrics import MetricGroup
from penstock.graph.nodes import Node, NodeId, NodeKind
from penstock.graph.plan import PlannedOperator, PlanSettings, Vertex
from penstock.state.heap.backend import HeapBackend
from penstock.state.keyed import KeyedState
from penstock.state.operator_state import OperatorStateStore
from penstock.task.chain import ChainSetup, build_chain, runtime_of
from penstock.testing.operator_run import OperatorRun


class Closed(KeyedState):
    """Writes down that it was closed."""

    def __init__(self, name: str) -> None:
        super().__init__(HeapBackend())
        self.name = name

    def close(self) -> None:
        STORY.append(f"close the state of {self.name}")
        super().close()


def chain_of(*operators: Told, **changes: Any) -> ChainSetup:
    """One after the other, in one task."""
    STORY.clear()
    planned = []
    for number, operator in enumerate(operators):
        node = Node(NodeId(number), NodeKind.OPERATOR, operator._name, lambda operator=operator: operator)  # type: ignore[misc]
        behind = ((None, NodeId(number + 1)),) if number + 1 < len(operators) else ()
        planned.append(PlannedOperator(node, OperatorId(operator._name), behind, ()))
    settings = PlanSettings(job_parameters={"a": "b"})
    setup = ChainSetup(
        job_name="job",
        vertex=Vertex(VertexId("v"), "all of them", tuple(planned), 4, 128, 0),
        index=SubtaskIndex(2),
        settings=settings,
        clock=ManualClock(),
        metrics=MetricGroup(),
        runtime=lambda planned: runtime_of(settings),
        state=lambda planned: (Closed(planned.node.name), OperatorStateStore()),
    )
    return replace(setup, **changes)


def test_each_operator_is_told_where_it_runs() -> None:
    setup = chain_of(Told("first"), Told("second"), attempt=3, opening=lambda step: STORY.append(step))
    chain = build_chain(setup, {})
    assert STORY == ["second", "first", "second", "open second", "first", "open first"]
    contexts = [entry.operator.ctx for _, entry in chain]
    assert [context.operator_id for context in contexts] == ["first", "second"]
    info = contexts[0].info
    assert (info.operator_name, info.task_name, info.subtask, info.parallelism) == (
        "first",
        "all of them",
        2,
        4,
    )
    assert info.attempt == 3 and info.job_parameters == {"a": "b"}


def test_what_the_settings_say_reaches_the_runtime() -> None:
    plain = runtime_of(PlanSettings())
    assert not (plain.checkpointing or plain.batch or plain.object_reuse)
    said = PlanSettings(checkpointing=True, auto_watermark_interval_ms=7, batch=True, object_reuse=True)
    found = runtime_of(said)
    assert found.checkpointing and found.batch and found.object_reuse
    assert found.auto_watermark_interval_ms == 7


def test_a_failure_to_open_closes_operators_and_all_state() -> None:
    setup = chain_of(Told("first"), Told("second", "open"), Told("third"))
    with pytest.raises(UserCodeError, match="second cannot be opened"):
        build_chain(setup, {})
    assert STORY == [
        "open third",
        "open second",
        "close second",
        "close third",
        *(f"close the state of {name}" for name in ("third", "second", "first")),
    ]


def test_state_that_cannot_be_restored_closes_what_was() -> None:
    def state(planned: PlannedOperator) -> tuple[KeyedState, OperatorStateStore]:
        if planned.node.name == "first":
            raise OSError("the disk is gone")
        return Closed(planned.node.name), OperatorStateStore()

    with pytest.raises(OSError, match="the disk is gone"):
        build_chain(chain_of(Told("first"), Told("second"), state=state), {})
    assert STORY == ["close the state of second"]


def test_an_operator_that_is_run_by_hand_fails_as_its_author_wrote() -> None:
    class Broken(Told):
        def open(self, ctx: Any) -> None:
            raise LookupError("not here") from ValueError("the cause")

    with pytest.raises(LookupError, match="not here") as caught:
        OperatorRun(lambda: Broken("broken"))
    assert isinstance(caught.value.__cause__, ValueError)
