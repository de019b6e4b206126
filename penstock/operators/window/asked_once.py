"""Windows whose trigger is asked once for each key: of fixed size in event time, and the global one.

A trigger that fires by timers only says nothing new to an element of a window whose first element it has
seen: its timers wait, or have been set anew when they fired.  So a batch goes into the contents as a whole,
with an evictor, too, and the trigger is asked once for each key and window; which ones it was asked for is
remembered until the window ends.  Timers fire as on the general path, which can go on from what these leave,
and the other way round.  Where lateness is allowed, an element of a window that has ended makes it fire once
more: such elements go the general path one by one, behind the others of their batch, which fire nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from penstock.core.batch import Batch, Times
from penstock.core.ids import MAX_TIME, MIN_TIME
from penstock.operators.operator import OperatorContext
from penstock.operators.outflow import Gathered
from penstock.operators.window.assigners import GlobalWindows, WindowAssigner
from penstock.operators.window.contexts import TriggerContext
from penstock.operators.window.continuous import ContinuousEventTimeTrigger
from penstock.operators.window.evictors import EvictingContents
from penstock.operators.window.fixed_windows import FastPath, FixedWindows
from penstock.operators.window.function_adapters import WindowBody
from penstock.operators.window.triggers import (
    EndOfStreamTrigger,
    EventTimeTrigger,
    PurgingTrigger,
    Trigger,
    TriggerResult,
)
from penstock.operators.window.window_state import WindowContents
from penstock.operators.window.windows import GlobalWindow, Window

_MOST_REMEMBERED = 1 << 16
"""Keys and windows that are remembered; beyond it the trigger is asked again."""


def is_asked_once(trigger: Trigger[Any, Any]) -> bool:
    """Whether all but the first element of a fixed window that has not ended mean nothing to the trigger."""
    kind = _innermost(trigger)
    return kind is EventTimeTrigger or kind is ContinuousEventTimeTrigger


def waits_for_the_end(assigner: WindowAssigner[Any, Any], trigger: Trigger[Any, Any]) -> bool:
    """Whether this is the global window that fires when the input has ended."""
    return type(assigner) is GlobalWindows and _innermost(trigger) is EndOfStreamTrigger


def _innermost(trigger: Trigger[Any, Any]) -> type:
    return type(trigger.nested_trigger if type(trigger) is PurgingTrigger else trigger)


class Asking:
    """Adds elements to windows that have not ended, and asks the trigger where it was not asked before."""

    def __init__(
        self,
        ctx: OperatorContext,
        contents: WindowContents,
        trigger: Trigger[Any, Any],
        context: TriggerContext,
        lateness: int,
    ) -> None:
        self._timers = ctx.timers
        self._lateness = lateness
        self._scope = ctx.keyed.scope
        self._contents = contents
        self._trigger = trigger
        self._context = context
        self._stamped = isinstance(contents, EvictingContents)
        self._asked: dict[Window, set[Any]] = {}
        """The keys of each window that the trigger was asked for."""

    def add(self, window: Window, rows: list[Any], keys: list[Any], times: list[int]) -> None:
        """Add records to one window."""
        stored = list(zip(rows, times, strict=True)) if self._stamped else rows
        self._contents.add_many(stored, keys, window, _nothing_to_do)
        asked = self._asked.get(window)
        if asked is None:
            asked = self._asked[window] = set()
        fresh = set(keys) - asked
        if not fresh:
            return
        # Of those with one key the last one set is the first that came.
        firsts = dict(zip(reversed(keys), zip(reversed(rows), reversed(times), strict=True), strict=True))
        for key in dict.fromkeys(keys):
            if key in fresh:
                self._ask(key, window, *firsts[key])
        asked |= fresh

    def _ask(self, key: Any, window: Window, value: Any, time: int) -> None:
        """Have the trigger set its timers; one is at its end, if it has one, where cleanup may be."""
        self._scope.key = key
        self._context.enter(window)
        result = self._trigger.on_element(value, time, window, self._context)
        assert result is TriggerResult.CONTINUE
        cleanup = window.max_timestamp() + self._lateness
        if self._lateness and cleanup < MAX_TIME:
            self._timers.event.register(cleanup, key, window)

    def tidy(self) -> None:
        """Forget windows that have ended, and all of them if they are many."""
        watermark = self._timers.watermark
        for window in [window for window in self._asked if window.max_timestamp() <= watermark]:
            del self._asked[window]
        if sum(map(len, self._asked.values())) > _MOST_REMEMBERED:
            self._asked.clear()

    def forget(self) -> None:
        """All keys are complete and forgotten."""
        self._asked.clear()


OneByOne = Callable[[Batch, Iterable[Any]], None]
"""The general path for windows that have ended: takes records and their keys."""


class AskedOnce(FastPath):
    """Adds batches to windows of fixed size; made by the operator in ``open``, which fires them."""

    def __init__(
        self,
        ctx: OperatorContext,
        assigner: FixedWindows,
        contents: WindowContents,
        body: WindowBody,
        gathered: Gathered,
        asking: Asking,
        one_by_one: OneByOne | None,
    ) -> None:
        """``one_by_one`` takes elements of windows that have ended, if any lateness is allowed."""
        super().__init__(ctx, assigner, contents, body, gathered)
        self._asking = asking
        self._one_by_one = one_by_one

    def process(self, batch: Batch, keys: Iterable[Any]) -> None:
        ends = None if self._one_by_one is None else self._first_ends(batch)
        watermark = self._timers.watermark
        if ends is None or int(ends.min()) > watermark:
            super().process(batch, keys)
            self._asking.tidy()
            return
        assert self._one_by_one is not None
        every = [key for key, _ in zip(keys, ends, strict=False)]
        ended = np.flatnonzero(ends <= watermark)
        # Those of a window that has not ended keep their order in it, whatever else they are in.
        going_on = np.flatnonzero(ends + (self._size - self._slide) > watermark)
        if len(going_on):
            super().process(batch.take(going_on), [every[place] for place in going_on.tolist()])
        self._asking.tidy()
        self._one_by_one(batch.take(ended), [every[place] for place in ended.tolist()])

    def _first_ends(self, batch: Batch) -> Times | None:
        """The last timestamp of the first window of each record; ``None`` if some record has no time."""
        times = batch.times
        if times is None or int(times.min()) == MIN_TIME:
            return None
        ends: Times = times - (times - self._offset) % self._slide + (self._slide - 1)
        return ends

    def _add(
        self, rows: list[Any], keys: Iterable[Any], windows: Window | list[Window], times: list[int]
    ) -> None:
        if not isinstance(windows, list):
            self._asking.add(windows, rows, _as_many(keys, rows), times)
            return
        parts: defaultdict[Window, tuple[list[Any], ...]] = defaultdict(lambda: ([], [], []))
        for value, key, window, time in zip(rows, keys, windows, times, strict=False):
            part = parts[window]
            part[0].append(value)
            part[1].append(key)
            part[2].append(time)
        for window, part in parts.items():
            self._asking.add(window, *part)

    def takes(self, time: int, key: Any, window: Any) -> bool:
        """No timer: all are for the trigger to judge."""
        return False

    def forget(self) -> None:
        """All keys are complete and forgotten."""
        self._asking.forget()


class AskedAtTheEnd:
    """The same for the global window, whose trigger waits for the end of the input."""

    def __init__(self, asking: Asking) -> None:
        self._asking = asking

    def accepts(self, batch: Batch) -> bool:
        """Any batch."""
        return True

    def process(self, batch: Batch, keys: Iterable[Any]) -> None:
        """Add the records; ``keys`` gives at least one key per record."""
        rows = batch.to_rows()
        self._asking.add(GlobalWindow.get(), rows, _as_many(keys, rows), batch.time_list())
        self._asking.tidy()

    def takes(self, time: int, key: Any, window: Any) -> bool:
        """No timer: all are for the trigger to judge."""
        return False

    def fire(self, time: int, key: Any, window: Any) -> None:
        """Never called."""
        raise NotImplementedError

    def forget(self) -> None:
        """All keys are complete and forgotten."""
        self._asking.forget()


def _as_many(keys: Iterable[Any], rows: list[Any]) -> list[Any]:
    return [key for key, _ in zip(keys, rows, strict=False)]


def _nothing_to_do(key: Any, window: Any) -> None:
    """A new entry; the trigger is asked for it in any case."""
