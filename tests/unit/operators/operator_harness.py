"""Runs one operator by hand: a manual clock, an output that collects, snapshot and restore."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable
from typing import Any

from penstock.core.batch import Batch
from penstock.core.clock import ManualClock
from penstock.core.ids import EventTime, OperatorId
from penstock.core.metrics import MetricGroup
from penstock.operators.operator import Operator, OperatorContext, RuntimeInfo
from penstock.state.backend import EntryShape, FrozenTable
from penstock.state.heap.backend import heap_state
from penstock.state.operator_state import OperatorStateStore

Image = bytes
"""A snapshot: pickled (table name, shape, items)."""


class Collected:
    """An output that keeps (value, time) pairs, and notes how they were batched."""

    def __init__(self) -> None:
        self.main: list[tuple[Any, int]] = []
        self.sides: dict[str, list[tuple[Any, int]]] = {}
        self.watermarks: list[int] = []
        self.batches = 0

    def emit(self, batch: Batch) -> None:
        self.batches += 1
        self.main += zip(batch.to_rows(), batch.time_list(), strict=True)

    def side(self, tag: str, batch: Batch) -> None:
        self.sides.setdefault(tag, []).extend(zip(batch.to_rows(), batch.time_list(), strict=True))

    def watermark(self, time: EventTime) -> None:
        self.watermarks.append(time)

    def idle(self, is_idle: bool) -> None:
        pass


class OperatorHarness:
    """Feeds an operator and takes what it emits.

    ``key`` computes the key of a value (``None``: batches carry no keys).  ``restored`` is the
    result of another harness's ``snapshot``.
    """

    def __init__(
        self,
        operator: Operator,
        key: Callable[[Any], Any] | None = lambda value: value[0],
        restored: Image | None = None,
        start_ms: int = 0,
    ) -> None:
        self.operator = operator
        self.clock = ManualClock(start_ms)
        self.out = Collected()
        self.metrics = MetricGroup()
        self.keyed = heap_state()
        self._key = key
        for name, shape, items in pickle.loads(restored) if restored else ():
            table = self.keyed.table(name, EntryShape(shape))
            for entry, value in items:
                table.put(entry, value)
        info = RuntimeInfo("job", "task", "op", 0, 1, 128, 0)
        operator.open(
            OperatorContext(
                OperatorId("op"), info, self.out, self.clock, self.keyed, OperatorStateStore(), self.metrics
            )
        )

    def send(self, *records: tuple[Any, int]) -> None:
        """Process (value, time) pairs as one batch."""
        rows = [value for value, _ in records]
        keys = None if self._key is None else [self._key(value) for value in rows]
        self.operator.process(Batch.of_rows(rows, [time for _, time in records], keys))

    def watermark(self, time: int) -> None:
        """Advance event time."""
        self.operator.on_watermark(EventTime(time))

    def clock_to(self, now_ms: int) -> None:
        """Advance the clock, firing timers in the order in which the engine would."""
        while (due := self.operator.next_processing_time()) is not None and due <= now_ms:
            self.clock.advance(max(0, due - self.clock.now_ms()))
            self.operator.on_processing_time(self.clock.now_ms())
        self.clock.advance(now_ms - self.clock.now_ms())

    def take(self) -> list[tuple[Any, int]]:
        """What came out since the last call."""
        taken, self.out.main = self.out.main, []
        return taken

    def take_values(self) -> list[Any]:
        """The same without times."""
        return [value for value, _ in self.take()]

    def take_side(self, tag: str) -> list[tuple[Any, int]]:
        """What came out of a side output since the last call."""
        return self.out.sides.pop(tag, [])

    def snapshot(self) -> Image:
        """Freeze the tables of keyed state, write them, release them; there are no columns."""
        frozen = self.keyed.freeze()
        tables = [part for part in frozen if isinstance(part, FrozenTable)]
        image = pickle.dumps([(f.name, f.shape.value, list(f.items())) for f in tables])
        for each in frozen:
            each.release()
        return image

    def table_sizes(self) -> dict[str, int]:
        """Entries per table, without empty tables."""
        found = pickle.loads(self.snapshot())
        return {name: len(items) for name, _, items in found if items}


def records(values: Iterable[Any], times: Iterable[int]) -> list[tuple[Any, int]]:
    """Pairs for ``send``."""
    return list(zip(values, times, strict=True))
