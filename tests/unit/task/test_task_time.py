"""What a task does about event time: how long it was blocked, and who may read on."""

from __future__ import annotations

from typing import Any

from task_rig import Rig

from penstock.core.batch import Batch
from penstock.core.ids import EventTime
from penstock.core.messages import AlignWatermarks, WatermarkReport
from penstock.exchange.channel import ALL
from penstock.exchange.events import Data, TimeAdvanced
from penstock.task.pacing import GROWTH, Pace


def test_operators_know_how_long_their_task_was_backpressured() -> None:
    rig = Rig().deploy()
    source = rig.slot.tasks[0]
    source.writable = lambda: False  # type: ignore[method-assign]
    for _ in range(5):
        source.step()
        rig.clock.advance(100)
    assert source._head.operator.ctx.blocked_ms() == 400
    del source.writable  # type: ignore[method-assign]
    source.step()
    rig.clock.advance(1000)
    source.step()
    assert source._head.operator.ctx.blocked_ms() == 500, "waiting for input is no backpressure"


def test_slots_take_the_watermark_of_a_group_that_is_not_theirs() -> None:
    rig = Rig().deploy()
    rig.slot.handle(AlignWatermarks("nobody's", EventTime(5)))
    rig.feed("a")
    rig.settle()
    assert rig.counts() == {"a": 1}
    assert not rig.of(WatermarkReport), "its source makes no watermarks"


class Gate:
    """Events that are there already."""

    def __init__(self, *events: Any) -> None:
        self._events = list(events)

    def poll(self, max_rows: int) -> Any:
        return self._events.pop(0) if self._events else None


def test_what_a_watermark_costs_does_not_count_as_the_cost_of_rows() -> None:
    rig = Rig().deploy()
    task: Any = rig.slot.tasks[1]
    task._pace = Pace(ALL)  # whatever the bytes
    task._head.operator.on_watermark = lambda time: rig.clock.advance(10_000)
    records = Data(Batch.of_rows(["a"] * 100, None, ["a"] * 100), 0)
    task._read_gate(Gate(TimeAdvanced(EventTime(5), None), records))
    assert task._pace.rows == GROWTH * 100, "the records themselves took no time"
