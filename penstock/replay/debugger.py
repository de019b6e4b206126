"""One key's way through one operator, record by record: what ``penstock debug`` shows.

The job runs for real, in this process: upstream steps, watermarks and restored state are what they are.
Only the operator that is watched is given the records of one key, one at a time, and knows the state of
no other key.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from typing import Any

import numpy as np

from penstock.core.batch import Batch
from penstock.core.ids import MAX_TIME, MIN_TIME, EventTime
from penstock.graph.nodes import Node
from penstock.operators.operator import Operator, OperatorContext, Output
from penstock.state.backend import EVENT_TIMERS, PROCESSING_TIMERS, EntryShape
from penstock.state.keyed import KeyedState

StateView = dict[str, str]
"""Name of a state (with its window, if it has one) to its value as text."""
EVENT_TIMER, CLOCK_TIMER = "event-time timer", "processing-time timer"


class Cause(Enum):
    """Why something happened to the key."""

    RECORD = "a record came"
    EVENT_TIME = "event time advanced"
    CLOCK = "a timer of processing time was due"


@dataclass(frozen=True, slots=True)
class Step:
    """What one record, or the passing of time, did."""

    cause: Cause
    record: Any
    """``None`` if time passed."""
    time: int | None
    """Event time of the record, the watermark, or the clock."""
    input_index: int
    before: StateView
    after: StateView
    outputs: tuple[tuple[str | None, Any], ...]
    """Side output (``None`` for the main one) and record."""


Report = Callable[[Step], None]
Restored = Callable[[StateView], None]
_reports: dict[str, tuple[Report, Restored]] = {}
"""By operator: plans are pickled on their way to the slots, and what shows the steps stays here."""


def watched(node: Node, key: str, report: Report, restored: Restored) -> Node:
    """The node with its operator watched. Jobs with it must run in this process.

    ``restored`` is told what the snapshot has of the key, once per subtask, before any step.
    """
    name = node.uid or node.name
    _reports[name] = report, restored
    return replace(node, factory=partial(_watch, node.factory, key, name))


def _watch(factory: Callable[[], Operator], key: str, name: str) -> Operator:
    operator = factory()
    _Watcher(operator, key, *_reports[name]).attach()
    return operator


class _Watcher:
    """Puts itself between the engine and the methods of an operator through which things come in."""

    def __init__(self, operator: Operator, key: str, report: Report, restored: Restored) -> None:
        self._operator = operator
        self._key = key
        self._report = report
        self._restored = restored

    def attach(self) -> None:
        operator: Any = self._operator
        self._open, self._process = operator.open, operator.process
        self._on_watermark, self._on_clock = operator.on_watermark, operator.on_processing_time
        operator.open, operator.process = self.open, self.process
        operator.on_watermark, operator.on_processing_time = self.on_watermark, self.on_processing_time

    def open(self, ctx: OperatorContext) -> None:
        """Forget what belongs to other keys, and listen to what comes out."""
        for table in ctx.keyed.tables():
            for entry in list(table.entries()):
                if not self._is_ours(table.shape.key_of(entry)):
                    table.remove(entry)
        self._keyed = ctx.keyed
        self._out = _Listening(ctx.out)
        self._open(replace(ctx, out=self._out))
        self._restored(view(self._keyed))

    def process(self, batch: Batch, input_index: int = 0) -> None:
        """Each record of the key by itself; those of a broadcast side, which have none, are told if they
        had an effect."""
        has_keys = batch.keys is not None or bool(batch.key_columns)
        for index, key in enumerate(batch.key_list() if has_keys else [None] * len(batch)):
            if not has_keys or self._is_ours(key):
                one = batch.take(np.array([index]))
                time = None if one.times is None else int(one.times[0])
                step = partial(self._process, one, input_index)
                moment = None if time == MIN_TIME else time
                self._take(step, Cause.RECORD, moment, one.to_rows()[0], input_index, always=has_keys)

    def on_watermark(self, time: EventTime) -> None:
        """Time passes; told only if that had an effect."""
        moment = None if time == MAX_TIME else time
        self._take(partial(self._on_watermark, time), Cause.EVENT_TIME, moment)

    def on_processing_time(self, now_ms: int) -> None:
        """The clock reached a timer; told only if that had an effect."""
        self._take(partial(self._on_clock, now_ms), Cause.CLOCK, now_ms)

    def _take(
        self,
        act: Callable[[], None],
        cause: Cause,
        time: int | None,
        record: Any = None,
        input_index: int = 0,
        always: bool = False,
    ) -> None:
        self._out.heard = []
        before = view(self._keyed)
        act()
        while self._operator.suspended is not None:  # a step is shown whole, whoever else waits
            self._operator.resume()
        after = view(self._keyed)
        if always or before != after or self._out.heard:
            heard = tuple(self._out.heard)
            self._report(Step(cause, record, time, input_index, before, after, heard))

    def _is_ours(self, key: Any) -> bool:
        return str(key) == self._key or repr(key) == self._key


class _Listening:
    """Passes everything on and remembers the records."""

    def __init__(self, out: Output) -> None:
        self._out = out
        self.heard: list[tuple[str | None, Any]] = []

    def emit(self, batch: Batch) -> None:
        """Records of the main output."""
        self.heard += [(None, record) for record in batch.to_rows()]
        self._out.emit(batch)

    def side(self, tag: str, batch: Batch) -> None:
        """Records of a side output."""
        self.heard += [(tag, record) for record in batch.to_rows()]
        self._out.side(tag, batch)

    def watermark(self, time: EventTime) -> None:
        """Passed on."""
        self._out.watermark(time)

    def idle(self, is_idle: bool) -> None:
        """Passed on."""
        self._out.idle(is_idle)


def view(keyed: KeyedState) -> StateView:
    """All that is stored, as text: values change in place."""
    shown: StateView = {}
    for table in keyed.tables():
        for entry in table.entries():
            if table.shape is EntryShape.TIMER:
                domain = {EVENT_TIMERS: EVENT_TIMER, PROCESSING_TIMERS: CLOCK_TIMER}[table.name]
                shown[f"{domain} {entry[0]}"] = "set"
            elif table.shape is EntryShape.NAMESPACED:
                shown[f"{table.name} of {entry[1]}"] = repr(table.peek(entry))
            else:
                shown[table.name] = repr(table.peek(entry))
    return dict(sorted(shown.items()))
