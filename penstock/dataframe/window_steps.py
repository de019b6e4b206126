"""The steps of a window aggregation on a stream of columns: folded before the exchange, merged behind it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from penstock.columns import Aggregate
from penstock.core.durations import to_millis
from penstock.core.errors import ConfigError
from penstock.dataframe.windows import Session, Size, Window, needs_event_time
from penstock.datastream import DataStream
from penstock.datastream._keyed import KeyedStream
from penstock.exchange.partition import Hash
from penstock.operators.columnar.clock_windows import ColumnarClockWindowOperator
from penstock.operators.columnar.fold import PreAggregateOperator
from penstock.operators.columnar.session_agg import ColumnarSessionOperator
from penstock.operators.columnar.window_agg import ColumnarInput, ColumnarWindowOperator
from penstock.operators.operator import Operator

_NAME = "Window Aggregate"


class WindowStep:
    """Windows, keys and aggregates, checked when it is made."""

    def __init__(
        self, keys: Sequence[str], window: Window, lateness: Size, folds: Sequence[Aggregate]
    ) -> None:
        self._keys, self._folds = tuple(keys), tuple(folds)
        self._in_event_time = needs_event_time(window)
        late = to_millis(lateness)
        if late and not self._in_event_time:
            raise ConfigError("nothing is late for windows of the clock; leave allowed_lateness out")
        self._folder: Callable[[], Operator] | None = None
        self._factory: Callable[[], Operator]
        more: dict[str, Any] = {"allowed_lateness": late, "null_is_key": True}
        if isinstance(window, Session):
            gap = window.millis()
            self._factory = partial(ColumnarSessionOperator, self._keys, gap, self._folds, **more)
        elif self._in_event_time:
            panes, more["accepts"] = window.panes(), ColumnarInput.PARTIALS
            self._folder = partial(PreAggregateOperator, self._keys, panes, self._folds, null_is_key=True)
            self._factory = partial(ColumnarWindowOperator, self._keys, panes, self._folds, **more)
        else:
            panes = window.panes()
            self._factory = partial(ColumnarClockWindowOperator, self._keys, panes, self._folds, **more)
        self._factory()

    def __call__(self, stream: DataStream[Any]) -> DataStream[Any]:
        """The stream of results."""
        if self._folder is not None:
            stream = stream._add("Pre-Aggregate", self._folder)
        links = KeyedStream(stream, Hash(columns=self._keys, nulls=True))._links
        return stream._add(_NAME, self._factory, links=links, keyed=True, stateful=True, in_columns=True)
