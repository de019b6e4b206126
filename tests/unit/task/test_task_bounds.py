"""What a slot holds in flight when its consumer is slow: large rows, timers, one record that makes many."""

from __future__ import annotations

from typing import Any

import pytest
from bounds_rig import LIMIT, Line
from task_rig import FEED, OUT, FeedReader

from penstock.core.batch import Batch
from penstock.operators.operator import Operator, OperatorContext
from penstock.operators.stateless import MapOperator

ROW = 50_000


def test_large_rows_fill_a_channel_of_the_same_slot() -> None:
    rig = Line()
    rig.give(*[f"{n:0{ROW}}" for n in range(300)])
    rig.work()
    assert rig.queued_text() < LIMIT + 2 * ROW
    rig.run()
    assert [row for row in OUT if row != "finish"] == FEED["s"]


def test_rows_made_large_on_the_way_fill_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A source that gives as many rows as it is asked for, and a step that makes much of them."""

    def poll(self: FeedReader, max_rows: int) -> Batch | None:
        rows = FEED[self.name][self.at : self.at + max_rows]
        self.at += len(rows)
        return Batch.of_rows(rows) if rows else None

    monkeypatch.setattr(FeedReader, "poll", poll)
    rig = Line(lambda: MapOperator(lambda n: f"{n:0{ROW}}"))
    rig.give(*range(20_000))
    rig.work()
    assert rig.queued_text() < 20 * ROW, "some, until the cost of a row is known"


def test_a_source_is_asked_for_fewer_rows_if_they_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def poll(self: FeedReader, max_rows: int) -> Batch | None:
        asked.append(max_rows)
        self.at += max_rows
        return Batch.of_rows(["x" * ROW] * max_rows)

    monkeypatch.setattr(FeedReader, "poll", poll)
    rig = Line(lambda: MapOperator(len))
    for _ in range(100):
        rig.slot.step()
    assert max(asked) <= 16, "what is tried while nothing is known"
    assert asked[-1] * ROW <= LIMIT


class Ticker(Operator):
    """Emits a row at each millisecond of processing time, for each key it has seen."""

    def process(self, batch: Batch, input_index: int = 0) -> None:
        for key in batch.key_list():
            self.ctx.timers.processing.register(0, key, None)

    def on_processing_timer(self, time: Any, key: Any, namespace: Any) -> None:
        self.ctx.timers.processing.register(time + 1, key, None)
        self.ctx.out.emit(Batch.of_rows(["t" * 1000]))

    def open(self, ctx: OperatorContext) -> None:
        super().open(ctx)
        ctx.timers  # noqa: B018 - asking for them makes the engine look at them


def test_processing_timers_wait_while_the_outputs_are_full() -> None:
    rig = Line(Ticker, key=lambda row: row)
    rig.give("a")
    rig.work(rounds=500, advance_ms=1)
    assert 0 < rig.queued_text() < LIMIT + 20_000
    middle = rig.tasks[1]
    assert not middle.writable() and middle.next_deadline_ms() is None, "nothing to wake up for"
    before = rig.queued_text()
    rig.tasks[-1].step()
    rig.work(rounds=50, advance_ms=1)
    assert 0 < rig.queued_text() <= before + 20_000, "they fire again when there is room"
