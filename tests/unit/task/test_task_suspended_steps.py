"""Other steps that make much at once: windows of many keys, functions over batches, columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from bounds_rig import LIMIT, Line
from task_rig import FEED, OUT, FeedReader

from penstock.core.batch import Batch
from penstock.event_time.watermark_strategy import WatermarkStrategy
from penstock.operators.columnar.aggregates import Count
from penstock.operators.columnar.panes import Panes
from penstock.operators.columnar.window_agg import ColumnarWindowOperator
from penstock.operators.functions import ReduceFunction
from penstock.operators.map_batches import MapBatchesOperator
from penstock.operators.operator import Operator
from penstock.operators.window.assigners import TumblingEventTimeWindows
from penstock.operators.window.operator import WindowOperator
from penstock.operators.window.triggers import EventTimeTrigger
from penstock.operators.window.window_state import ReduceContents

KEYS = 6000


class First(ReduceFunction):
    def reduce(self, value1: Any, value2: Any) -> Any:
        return value1


def windows(**options: Any) -> WindowOperator:
    return WindowOperator(TumblingEventTimeWindows(10, 0), ReduceContents(First()), **options)


def queued_rows(rig: Line) -> int:
    gate: Any = rig.tasks[-1]._gate
    return sum(len(e) for channel in gate._channels for e in channel if isinstance(e, Batch))


@pytest.mark.parametrize("lateness", [0, 5], ids=["fast", "general"])
def test_a_watermark_that_ends_windows_of_many_keys(lateness: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FeedReader, "poll", poll)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda row, _: row[1])
    make = lambda: windows(trigger=EventTimeTrigger(), allowed_lateness_ms=lateness)  # noqa: E731
    rig = Line(make, key=lambda row: row[0], strategy=strategy)
    rig.give(*[(f"{n:0100}", 1) for n in range(KEYS)])
    rig.run()
    assert not OUT
    rig.give(("last", 1_000))
    rig.work()
    assert 0 < queued_rows(rig) < KEYS // 4 and rig.slot.held_bytes() < 4 * LIMIT
    rig.run()
    assert sorted(OUT) == [(f"{n:0100}", 1) for n in range(KEYS)]


def poll(self: FeedReader, max_rows: int) -> Batch | None:
    rows = FEED[self.name][self.at : self.at + min(max_rows, 500)]
    self.at += len(rows)
    return Batch.of_rows(rows) if rows else None


def parts(rows: list[Any]) -> Iterator[list[Any]]:
    for n in range(KEYS // 100):
        yield [f"{rows[0]}{n:0100}"] * 100


def as_columns(batch: pa.RecordBatch) -> pa.Table:
    return pa.table({"text": [f"{n:0100}" for n in range(KEYS)]})


@pytest.mark.parametrize(
    "make",
    [lambda: MapBatchesOperator(parts, "rows"), lambda: MapBatchesOperator(as_columns, "arrow")],
    ids=["parts", "one table"],
)
def test_a_function_over_batches_that_returns_much(make: Callable[[], Operator]) -> None:
    rig = Line(make)
    rig.give("a", "b")
    rig.work()
    assert 0 < queued_rows(rig) < KEYS // 2
    rig.run()
    assert len(OUT) == 2 * KEYS


def test_columnar_windows_of_many_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    def columns(self: FeedReader, max_rows: int) -> Batch | None:
        first = self.at
        if first >= len(FEED[self.name]):
            return None
        self.at += 1
        keys, time = FEED[self.name][first]
        table = pa.record_batch({"k": keys, "t": pa.array([time] * len(keys), pa.int64())})
        return Batch.of_columns(table)

    monkeypatch.setattr(FeedReader, "poll", columns)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("t")
    rig = Line(lambda: ColumnarWindowOperator(["k"], Panes.tumbling(10), [Count("c")]), strategy=strategy)
    rig.give(([f"{n:0100}" for n in range(KEYS)], 1))
    rig.run()
    rig.give((["last"], 1_000))
    rig.work()
    assert 0 < queued_rows(rig) < KEYS // 2
    rig.run()
    assert sorted(row[0] for row in OUT) == [f"{n:0100}" for n in range(KEYS)]
