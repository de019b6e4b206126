"""Count windows that do not overlap, with their own trigger: a batch at a time, one look at a key's state.

How many elements a key has had, and how many its window counts, moves on by the elements of the batch; what
fills a window is evaluated behind that, in order of the elements that filled them.  State and results are
those of the general path, which can go on from what this leaves, and the other way round.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from penstock.core.batch import Batch
from penstock.operators.operator import OperatorContext
from penstock.operators.outflow import Gathered
from penstock.operators.window.assigners import WindowAssigner
from penstock.operators.window.contexts import TRIGGER_PREFIX, AssignerContext, TriggerContext
from penstock.operators.window.counting import CountTumblingWindowAssigner
from penstock.operators.window.function_adapters import WindowBody
from penstock.operators.window.running import NOTHING
from penstock.operators.window.triggers import CountTrigger, PurgingTrigger, Trigger
from penstock.operators.window.window_state import ListContents, WindowContents
from penstock.operators.window.windows import CountWindow
from penstock.state.backend import EntryShape

_WINDOWS_A_STEP = 16


class _Full(NamedTuple):
    """A window that has become full."""

    place: int
    """Of the element that filled it, in its batch."""
    key: Any
    window: CountWindow
    values: list[Any]
    is_over: bool
    """Whether no element can join it any more."""


class CountedWindows:
    """Adds batches to count windows and evaluates them; made by the operator in ``open``."""

    def __init__(
        self,
        ctx: OperatorContext,
        assigner: CountTumblingWindowAssigner[Any],
        trigger: CountTrigger[Any, Any],
        contents: WindowContents,
        body: WindowBody,
        gathered: Gathered,
        contexts: tuple[AssignerContext, TriggerContext],
    ) -> None:
        self._size = assigner.size
        self._limit = trigger.window_size
        self._scope = ctx.keyed.scope
        self._contents = contents
        self._keeps_lists = type(contents) is ListContents
        self._body = body
        self._gathered = gathered
        # Asked for, both states are what the snapshot had, brought to what is declared.
        of_keys, of_windows = contexts
        of_keys.get_runtime_context().get_state(assigner.seen)
        of_windows.get_partitioned_state(trigger.count)
        self._seen = ctx.keyed.table(assigner.seen.get_name(), EntryShape.KEY)
        self._counts = ctx.keyed.table(TRIGGER_PREFIX + trigger.count.get_name(), EntryShape.NAMESPACED)

    def process(self, batch: Batch, keys: Iterable[Any]) -> Iterator[None]:
        """Add the records, and evaluate what is full, step by step; there may be more keys than records."""
        rows = batch.to_rows()
        places: defaultdict[Any, list[int]] = defaultdict(list)
        for place, (key, _) in enumerate(zip(keys, rows, strict=False)):
            places[key].append(place)
        full: list[_Full] = []
        for key, some in places.items():
            self._add(key, some, [rows[place] for place in some], full)
        full.sort(key=_place)
        scope, gathered = self._scope, self._gathered
        for fired, (place, key, window, values, is_over) in enumerate(full, 1):
            scope.key = key
            scope.namespace = window
            try:
                self._body.emit(gathered, key, window, values)
                if is_over:
                    self._body.clear()
            except BaseException:
                self._contents.failed = rows[place]
                raise
            if gathered.is_full:
                gathered.flush()
                yield
            elif not fired % _WINDOWS_A_STEP:
                yield
        gathered.flush()

    def _add(self, key: Any, places: list[int], values: list[Any], full: list[_Full]) -> None:
        """Add the elements of one key, and take what is full out."""
        size, limit, counts = self._size, self._limit, self._counts
        seen, at = self._seen.get(key) or 0, 0
        while at < len(values):
            window = CountWindow(seen // size)
            entry = (key, window)
            behind = (window.id + 1) * size
            counted = counts.get(entry) or 0
            # Never none: a trigger that is due fires with the next element.
            until = at + max(1, min(behind - seen, limit - counted))
            some = values[at:until]
            at, seen, counted = at + len(some), seen + len(some), counted + len(some)
            if counted < limit:
                self._keep(entry, some)
                counts.put(entry, counted)
            else:
                counts.remove(entry)
                full.append(_Full(places[at - 1], key, window, self._taken(entry, some), seen >= behind))
        self._seen.put(key, seen)

    def _keep(self, entry: tuple[Any, CountWindow], some: list[Any]) -> None:
        scope = self._scope
        scope.key, scope.namespace = entry
        self._contents.add_all(entry, some)

    def _taken(self, entry: tuple[Any, CountWindow], some: list[Any]) -> list[Any]:
        """What is stored of a window with its last elements, which is then forgotten."""
        if self._keeps_lists and self._contents.stored(entry) is NOTHING:
            return some
        self._keep(entry, some)
        values = self._contents.take(entry, overlapping=False)
        assert values is not None
        return values


def _place(full: _Full) -> int:
    return full.place


def counted_assigner(
    assigner: WindowAssigner[Any, Any], trigger: Trigger[Any, Any]
) -> tuple[CountTumblingWindowAssigner[Any], CountTrigger[Any, Any]] | None:
    """Assigner and counting trigger, if this path may serve them; subclasses may differ and are left out."""
    if type(assigner) is not CountTumblingWindowAssigner or type(trigger) is not PurgingTrigger:
        return None
    nested = trigger.nested_trigger
    return (assigner, nested) if type(nested) is CountTrigger else None
