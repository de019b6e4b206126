"""Window joins and co-groups: both streams in the windows of one operator.

Records are tagged with their side and go through the ordinary window operator, so windows, triggers,
lateness and sessions mean what they always mean.  Results have the last time of their window.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from penstock.core.batch import Batch
from penstock.core.copying import Copier, copied
from penstock.core.errors import ConfigError
from penstock.core.ids import EventTime
from penstock.operators.functions import Function
from penstock.operators.join.functions import CoGroupFunction, JoinKind, Pair, pair_call
from penstock.operators.operator import OperatorContext, Output
from penstock.operators.outflow import LateRecords, LateTags, as_results
from penstock.operators.runtime_context import RuntimeContext
from penstock.operators.window.functions import WindowFunction
from penstock.operators.window.operator import WindowOperator
from penstock.operators.window.window_state import ListContents
from penstock.operators.window.windows import Window

_LATE = "_join/late"

Group = Callable[[list[Any], list[Any]], Iterable[Any] | None]


class _Untag:
    """The operator's output; late records, which are tagged, go to the side output of their side."""

    def __init__(self, out: Output, late: LateRecords) -> None:
        self._out = out
        self._late = late
        self.emit = out.emit

    def side(self, tag: str, batch: Batch) -> None:
        if tag != _LATE:
            self._out.side(tag, batch)
            return
        for (side, value), time in zip(batch.to_rows(), batch.time_list(), strict=True):
            self._late.add(side, value, time)
        self._late.flush()

    def watermark(self, time: EventTime) -> None:
        self._out.watermark(time)

    def idle(self, is_idle: bool) -> None:
        self._out.idle(is_idle)


class _Split(WindowFunction[Any, Any, Any, Any]):
    """Gives the two sides of a window to the user's function."""

    def __init__(self, user: Any, group: Group) -> None:
        self._user = user
        self._group = group

    def open(self, runtime_context: RuntimeContext) -> None:
        if isinstance(self._user, Function):
            self._user.open(runtime_context)

    def close(self) -> None:
        if isinstance(self._user, Function):
            self._user.close()

    def apply(self, key: Any, window: Window, inputs: Iterable[Any]) -> Any:
        sides: tuple[list[Any], list[Any]] = ([], [])
        for side, value in inputs:
            sides[side].append(value)
        return self._group(*sides)


class CoGroupOperator(WindowOperator):
    """Windows over two keyed streams. ``group`` makes results of the records of both sides."""

    def __init__(
        self, assigner: Any, user: Any, group: Group, *, late_tags: LateTags = (None, None), **options: Any
    ) -> None:
        super().__init__(assigner, ListContents(), _Split(user, group), late_tag=_LATE, **options)
        self._late_tags = late_tags
        self._group = group

    def open(self, ctx: OperatorContext) -> None:
        late = LateRecords(ctx, self._late_tags)
        if isinstance(self._group, _Product):
            self._group.own = ctx.own
        super().open(replace(ctx, out=_Untag(ctx.out, late)))

    def process(self, batch: Batch, input_index: int = 0) -> None:
        tagged = [(input_index, value) for value in batch.to_rows()]
        super().process(Batch.of_rows(tagged, batch.times, batch.key_list()))

    def current_record(self) -> Any:
        return super().current_record()[1]


def co_group(assigner: Any, function: Any, **options: Any) -> CoGroupOperator:
    """An operator that runs a ``CoGroupFunction``, or a function of two lists that gives an iterable."""
    call = function.co_group if isinstance(function, CoGroupFunction) else function
    if isinstance(function, type) or not callable(call):
        raise ConfigError(
            f"a co-group takes a CoGroupFunction or a function of two lists of records, not {function!r}"
        )
    return CoGroupOperator(assigner, function, call, **options)


def window_join(assigner: Any, function: Any, how: JoinKind, **options: Any) -> CoGroupOperator:
    """An operator that runs a join function on each pair of a window."""
    return CoGroupOperator(assigner, function, _Product(pair_call(function), how), **options)


class _Product:
    """All pairs of a window, and what is alone on its side as the kind of join says."""

    def __init__(self, pair: Pair, how: JoinKind) -> None:
        self._pair = pair
        self._how = how
        self.own: Copier = copied
        """Makes a record that meets several others one of each pair."""

    def __call__(self, lefts: list[Any], rights: list[Any]) -> list[Any]:
        results: list[Any] = []
        if not rights and self._how.keeps_left:
            rights = [None]
        elif not lefts and self._how.keeps_right:
            lefts = [None]
        shared = len(lefts) > 1 or len(rights) > 1
        for left in lefts:
            for right in rights:
                made = self._pair(self.own(left), self.own(right)) if shared else self._pair(left, right)
                if made is not None:
                    results.extend(as_results(made))
        return results
