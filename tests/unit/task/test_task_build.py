"""A slot whose tasks cannot all be opened closes those that were."""

from __future__ import annotations

from functools import partial
from typing import Any

import cloudpickle
from task_rig import Collect, Count, Relay, Rig

from penstock.core.documents import dump
from penstock.core.ids import Generation
from penstock.core.messages import Deploy, TaskFailed
from penstock.operators.operator import Operator, OperatorContext
from penstock.task.slot import SlotPhase

STORY: list[str] = []


class Told(Operator):
    """Writes down when it is opened and closed; fails at either if told to."""

    def __init__(self, name: str, fail: str = "") -> None:
        self._name, self._fail = name, fail

    def open(self, ctx: OperatorContext) -> None:
        super().open(ctx)
        STORY.append(f"open {self._name}")
        if "open" in self._fail:
            raise RuntimeError(f"{self._name} cannot be opened")

    def close(self) -> None:
        STORY.append(f"close {self._name}")
        if "close" in self._fail:
            raise RuntimeError(f"{self._name} cannot be closed")


def deploy(factories: dict[type[Operator], Any]) -> Rig:
    """The rig's plan with operators of ours in place of some of its own, in three tasks."""
    STORY.clear()
    rig = Rig()
    for vertex in rig.plan.vertices:
        for planned in vertex.operators:
            mine = factories.get(planned.node.factory)
            if mine is not None:
                object.__setattr__(planned.node, "factory", mine)
    rig.slot.handle(Deploy(Generation(1), cloudpickle.dumps(rig.plan), dump({}), None, None, {}, 0))
    return rig


def cause(rig: Rig) -> str:
    (failed,) = rig.of(TaskFailed)
    return str(failed.error)


def test_an_operator_that_fails_to_open_takes_those_of_its_chain_with_it() -> None:
    rig = deploy({Count: partial(Told, "count", "open"), Relay: partial(Told, "relay")})
    assert STORY == ["open relay", "open count", "close count", "close relay"]
    assert "count cannot be opened" in cause(rig) and rig.slot.phase is SlotPhase.LEFT


def test_tasks_before_it_are_closed_too_and_errors_of_that_do_not_hide_the_cause() -> None:
    rig = deploy(
        {
            Count: partial(Told, "count", "close"),
            Relay: partial(Told, "relay"),
            Collect: partial(Told, "collect", "open close"),
        }
    )
    assert STORY[:3] == ["open relay", "open count", "open collect"]
    assert sorted(STORY[3:]) == ["close collect", "close count", "close relay"]
    assert "collect cannot be opened" in cause(rig)
