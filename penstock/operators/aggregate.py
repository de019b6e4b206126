"""Running reductions of a keyed stream: ``reduce``, ``sum``, ``min``, ``max``, ``min_by``, ``max_by``.

Each record is joined with what its key has gathered so far, and the new state is emitted at the
record's time.  The state has a fixed name, so the running result survives failures and upgrades.
In BATCH mode only the last result of each key is emitted, at the time of its last record.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from enum import Enum
from typing import Any

from penstock.core.batch import Batch
from penstock.core.copying import ATOMIC, itself
from penstock.core.errors import ConfigError
from penstock.core.ids import MIN_TIME, EventTime
from penstock.core.row import Row, no_field
from penstock.operators.functions import ReduceFunction
from penstock.operators.operator import OperatorContext
from penstock.operators.user_function import FunctionOperator, bind
from penstock.state.descriptors import ValueStateDescriptor
from penstock.state.handles import ValueState
from penstock.state.private import never_changes

STATE_NAME = "reduced"
"""Part of the snapshot format: renaming it forgets every running result."""

Join = Callable[[Any, Any], Any]


class AccumulateType(Enum):
    """The built-in reductions on one field."""

    MIN = 1
    MAX = 2
    MIN_BY = 3
    MAX_BY = 4
    SUM = 5


_COMBINE: dict[AccumulateType, Join] = {
    AccumulateType.SUM: operator.add,
    AccumulateType.MIN: min,
    AccumulateType.MAX: max,
}


class KeyedReduceOperator(FunctionOperator):
    """Runs a :class:`ReduceFunction` or a callable of two values per key."""

    def __init__(self, user: ReduceFunction | Join, type_info: Any = None) -> None:
        super().__init__(user, keyed=True)
        self._join = bind(user, ReduceFunction, "reduce")
        self._type_info = type_info
        self._is_fixed = never_changes(type_info)

    def open(self, ctx: OperatorContext) -> None:
        self._state: ValueState[Any] = ctx.keyed.handle(ValueStateDescriptor(STATE_NAME, self._type_info))
        super().open(ctx)
        self._at_end = ctx.runtime.batch
        self._final: dict[Any, tuple[Any, int]] = {}

    def process(self, batch: Batch, input_index: int = 0) -> None:
        if self._at_end:
            self._gather(batch)
            return
        scope, join = self.ctx.keyed.scope, self._join
        load, store = self._state.value, self._state.update
        own = itself if self._is_fixed else self.ctx.own
        rows, keys = batch.to_rows(), batch.key_list()
        self.ctx.keyed.expect(keys)
        out: list[Any] = []
        append = out.append
        try:
            for scope.key, value in zip(keys, rows, strict=True):
                gathered = load()
                if gathered is not None:
                    value = join(gathered, value)
                store(value)
                append(value if type(value) in ATOMIC else own(value))
        except Exception:
            self.blame(rows[len(out)])
            raise
        if out:
            self.ctx.out.emit(Batch(rows=out, times=batch.times))

    def _gather(self, batch: Batch) -> None:
        """BATCH mode has no snapshots, and forgets keys soon: what they gathered need not be state."""
        scope, join, final = self.ctx.keyed.scope, self._join, self._final
        value = None
        try:
            records = zip(batch.key_list(), batch.to_rows(), batch.time_list(), strict=True)
            for scope.key, value, time in records:
                found = final.get(scope.key)
                joined = value if found is None or found[0] is None else join(found[0], value)
                final[scope.key] = (joined, time)
        except Exception:
            self.blame(value)
            raise

    def on_watermark(self, time: EventTime) -> None:
        if self._final:
            rows, times = zip(*self._final.values(), strict=True)
            self._final = {}
            self.ctx.out.emit(Batch.of_rows(list(rows), None if max(times) == MIN_TIME else times))
        super().on_watermark(time)


def field_reducer(kind: AccumulateType, field: int | str) -> Join:
    """The joining function of a built-in reduction on the field at a position or of a name.

    ``SUM``, ``MIN`` and ``MAX`` keep the other fields of the first record; ``MIN_BY`` and ``MAX_BY``
    keep a whole record, the earlier one on ties.  A plain value is its own field 0.
    """
    if not isinstance(field, int | str) or isinstance(field, bool):
        raise ConfigError(f"a field is named by its position or its name, got {field!r}")
    if kind is AccumulateType.MIN_BY:
        return lambda a, b: b if _get(b, field) < _get(a, field) else a
    if kind is AccumulateType.MAX_BY:
        return lambda a, b: b if _get(b, field) > _get(a, field) else a
    combine = _COMBINE[kind]
    return lambda a, b: _with(a, field, combine(_get(a, field), _get(b, field)))


def _get(value: Any, field: int | str) -> Any:
    if isinstance(value, Row | tuple | list):
        try:
            return value[field] if isinstance(value, Row) else value[_position(value, field)]
        except (LookupError, TypeError):
            raise no_field(value, field) from None
    if field != 0:
        raise ConfigError(
            f"field {field!r} was asked for, but the record is a plain {type(value).__name__}, "
            "which has only position 0; use tuples or Rows, or reduce() with a function"
        )
    return value


def _with(value: Any, field: int | str, fresh: Any) -> Any:
    """A copy of ``value`` with one field replaced: records already emitted must not change."""
    if isinstance(value, Row):
        row = Row(*value)
        if (names := value.field_names()) is not None:
            row.set_field_names(names)
        row.set_row_kind(value.get_row_kind())
        row[field] = fresh
        return row
    if not isinstance(value, tuple | list):
        return fresh
    values = list(value)
    values[_position(value, field)] = fresh
    if isinstance(value, list):
        return values
    make: Callable[[list[Any]], Any] = getattr(value, "_make", tuple)
    return make(values)


def _position(value: tuple[Any, ...] | list[Any], field: int | str) -> int:
    if isinstance(field, int):
        return field
    names = getattr(value, "_fields", ())
    if field not in names:
        raise ConfigError(
            f"field {field!r} was asked for by name, but the record is a {type(value).__name__} without "
            "such a field; use its position, or Rows with field names"
        )
    found: int = names.index(field)
    return found
