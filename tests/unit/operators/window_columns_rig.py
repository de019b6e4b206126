"""A window operator that keeps columns, by hand: records, snapshots, and what is held as what."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
from operator_harness import Collected

from penstock.core.batch import Batch
from penstock.core.clock import ManualClock
from penstock.core.ids import EventTime, OperatorId
from penstock.core.metrics import MetricGroup
from penstock.operators.operator import OperatorContext, RuntimeInfo
from penstock.operators.window.assigners import TumblingEventTimeWindows
from penstock.operators.window.column_windows import WORTH_ROWS
from penstock.operators.window.functions import WindowFunction
from penstock.operators.window.operator import WindowOperator
from penstock.operators.window.record_columns import STORE_NAME
from penstock.operators.window.window_state import CONTENTS_TABLE, ListContents
from penstock.state.backend import EVENT_TIMERS
from penstock.state.chunks import FrozenChunks
from penstock.state.files import StateBlocks, write_blocks
from penstock.state.heap.backend import heap_state
from penstock.state.keyed import KeyedState
from penstock.state.operator_state import OperatorStateStore

TEN = TumblingEventTimeWindows[Any](10, 0)
GROUPS = 128
MANY = WORTH_ROWS


class Show(WindowFunction[Any, Any, Any, Any]):
    """Key, start of the window, and numbers in order of arrival."""

    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Any:
        yield key, window.start, [record.n for record in inputs]


class Rig:
    """A window operator by hand, over state that may be restored from a file."""

    def __init__(self, data: bytes = b"", keyed: KeyedState | None = None, **options: Any) -> None:
        self.out = Collected()
        self.keyed = keyed or heap_state()
        self.keyed.must_be_claimed = True
        self.keyed.restore(StateBlocks(data, 0, GROUPS - 1))
        contents, function = options.pop("how", None) or (ListContents(), Show())
        assigner = options.pop("assigner", TEN)
        self.operator = WindowOperator(assigner, contents, function, late_tag="late", **options)
        info = RuntimeInfo("job", "task", "op", 0, 1, GROUPS, 0)
        clock, store = ManualClock(), OperatorStateStore()
        self.ctx = OperatorContext(OperatorId("op"), info, self.out, clock, self.keyed, store, MetricGroup())
        self.operator.open(self.ctx)
        self.keyed.check_claimed()

    def send(self, batch: Batch) -> None:
        self.operator.process(batch)

    def watermark(self, time: int) -> list[Any]:
        """What comes out."""
        self.operator.on_watermark(EventTime(time))
        found, self.out.main = self.out.main, []
        return [value for value, _ in found]

    def snapshot(self) -> bytes:
        frozen = self.keyed.freeze()
        data = b"".join(block for block, _ in write_blocks(frozen, GROUPS))
        for part in frozen:
            part.release()
        return data

    def held(self) -> tuple[int, int, int]:
        """Records in columns, lists of rows, and timers."""
        found = {STORE_NAME: 0, CONTENTS_TABLE: 0, EVENT_TIMERS: 0}
        for part in self.keyed.freeze():
            if isinstance(part, FrozenChunks):
                found[part.name] = sum(batch.num_rows for batch in part.record_batches())
            elif part.name in found:
                found[part.name] = len(list(part.items()))
            part.release()
        return found[STORE_NAME], found[CONTENTS_TABLE], found[EVENT_TIMERS]


def columns(first: int, count: int = MANY, start: int = 0, **more: Any) -> Batch:
    """Records with numbers from ``first`` on, of two keys by turns, at the first time of a window."""
    numbers = np.arange(first, first + count)
    batch = pa.record_batch({"k": numbers % 2, "n": numbers, **more})
    return Batch.of_columns(batch, np.full(count, start, np.int64), ("k",))


def rows(batch: Batch) -> Batch:
    return Batch.of_rows(batch.to_rows(), batch.times, batch.key_list())


def shown(numbers: Iterable[int], start: int = 0) -> list[Any]:
    found = list(numbers)
    keys = dict.fromkeys(n % 2 for n in found)
    return [(key, start, [n for n in found if n % 2 == key]) for key in keys]
