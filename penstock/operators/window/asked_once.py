"""Fixed event-time windows with a trigger that fires by timers only, or with an evictor.

Such a trigger says nothing new to an element of a window whose first element it has seen: its timers wait,
or have been set anew when they fired.  So a batch goes into the contents as a whole, and the trigger is asked
once for each key and window; which ones it was asked for is remembered until the window ends.  Timers fire as
on the general path, which can go on from what this one left, and the other way round.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from penstock.core.batch import Batch
from penstock.operators.operator import OperatorContext
from penstock.operators.outflow import Gathered
from penstock.operators.window.contexts import TriggerContext
from penstock.operators.window.continuous import ContinuousEventTimeTrigger
from penstock.operators.window.evictors import EvictingContents
from penstock.operators.window.fixed_windows import FastPath, FixedWindows
from penstock.operators.window.function_adapters import WindowBody
from penstock.operators.window.triggers import EventTimeTrigger, PurgingTrigger, Trigger, TriggerResult
from penstock.operators.window.window_state import WindowContents
from penstock.operators.window.windows import TimeWindow, Window

_MOST_REMEMBERED = 1 << 16
"""Keys and windows that are remembered; beyond it the trigger is asked again."""


def is_asked_once(trigger: Trigger[Any, Any]) -> bool:
    """Whether all but the first element of a window that has not ended mean nothing to the trigger."""
    if type(trigger) is PurgingTrigger:
        trigger = trigger.nested_trigger
    return type(trigger) is EventTimeTrigger or type(trigger) is ContinuousEventTimeTrigger


class AskedOnce(FastPath):
    """Adds batches to windows; made by the operator in ``open``, which fires them."""

    def __init__(
        self,
        ctx: OperatorContext,
        assigner: FixedWindows,
        contents: WindowContents,
        body: WindowBody,
        gathered: Gathered,
        trigger: Trigger[Any, Any],
        trigger_context: TriggerContext,
    ) -> None:
        super().__init__(ctx, assigner, contents, body, gathered)
        self._trigger = trigger
        self._trigger_context = trigger_context
        self._stamped = isinstance(contents, EvictingContents)
        self._asked: dict[TimeWindow, set[Any]] = {}
        """The keys of each window that the trigger was asked for."""

    def process(self, batch: Batch, keys: Iterable[Any]) -> None:
        super().process(batch, keys)
        watermark = self._timers.watermark
        for window in [window for window in self._asked if window.max_timestamp() <= watermark]:
            del self._asked[window]
        if sum(map(len, self._asked.values())) > _MOST_REMEMBERED:
            self._asked.clear()

    def _add(
        self, rows: list[Any], keys: Iterable[Any], windows: Window | list[Window], times: list[int]
    ) -> None:
        if not isinstance(windows, list):
            self._add_to(windows, rows, [key for key, _ in zip(keys, rows, strict=False)], times)
            return
        parts: defaultdict[Window, tuple[list[Any], ...]] = defaultdict(lambda: ([], [], []))
        for value, key, window, time in zip(rows, keys, windows, times, strict=False):
            part = parts[window]
            part[0].append(value)
            part[1].append(key)
            part[2].append(time)
        for window, part in parts.items():
            self._add_to(window, *part)

    def _add_to(self, window: Any, rows: list[Any], keys: list[Any], times: list[int]) -> None:
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

    def _ask(self, key: Any, window: Any, value: Any, time: int) -> None:
        """Have the trigger set its timers; it also sets the one at the window's end, which cleans up."""
        self._scope.key = key
        self._trigger_context.enter(window)
        result = self._trigger.on_element(value, time, window, self._trigger_context)
        assert result is TriggerResult.CONTINUE

    def takes(self, time: int, key: Any, window: TimeWindow) -> bool:
        """No timer: all are for the trigger to judge."""
        return False

    def forget(self) -> None:
        """All keys are complete and forgotten."""
        self._asked.clear()


def _nothing_to_do(key: Any, window: Any) -> None:
    """A new entry; the trigger is asked for it in any case."""
