"""Temporal join: each record meets the version of its key that was valid at its time.

The right stream is a table in the making: each of its records is a version of its key, valid from its
event time until the next one's; a row of kind DELETE ends the last version.  A left record waits until the
watermark has reached its time, for only then all versions up to it are known.  Versions that no record
that is not late can ask for any more are forgotten: of each key the one valid at the watermark stays, and
those after it.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import Any

from penstock.core.batch import Batch
from penstock.core.error_codes import Code
from penstock.core.errors import TimestampError
from penstock.core.ids import MIN_TIME, EventTime
from penstock.core.row import Row, RowKind
from penstock.operators.join.buffers import SideBuffer
from penstock.operators.join.functions import JoinKind, pair_call
from penstock.operators.operator import OperatorContext
from penstock.operators.outflow import LateRecords, Results
from penstock.operators.user_function import FunctionOperator


class _Due(IntEnum):
    """What a timer is for."""

    RECORD = 0
    VERSION = 1


class TemporalJoinOperator(FunctionOperator):
    """Joins a keyed stream with a keyed stream of versions.

    ``function``: a join function or a function of two records; with ``how`` LEFT it gets ``None`` for a
    record that no version is valid for.  Records at or before the watermark are late: to the side output
    ``late_tag``, or dropped and counted.
    """

    def __init__(self, function: Any, how: JoinKind = JoinKind.INNER, late_tag: str | None = None) -> None:
        super().__init__(function, keyed=True)
        self._pair = pair_call(function)
        self._keeps_left = how.keeps_left
        self._late_tag = late_tag

    def open(self, ctx: OperatorContext) -> None:
        self._timers = ctx.timers
        self._scope = ctx.keyed.scope
        self._records = SideBuffer(ctx.keyed.table("_join/records"), ctx.own)
        self._versions = SideBuffer(ctx.keyed.table("_join/versions"), ctx.own)
        self._late = LateRecords(ctx, (self._late_tag, None))
        self._gathered = Results(ctx)
        super().open(ctx)

    def process(self, batch: Batch, input_index: int = 0) -> None:
        take = self._on_version if input_index else self._on_record
        for key, value, time in zip(batch.key_list(), batch.to_rows(), batch.time_list(), strict=True):
            if time == MIN_TIME:
                self.blame(value)
                raise TimestampError(
                    "a temporal join needs a timestamp on every record of both streams, and one has none; "
                    "call assign_timestamps_and_watermarks before key_by",
                    code=Code.NO_TIMESTAMP,
                )
            take(key, value, time)
        self._late.flush()

    def _on_record(self, key: Any, value: Any, time: int) -> None:
        if time <= self._timers.watermark:
            self._late.add(0, value, time)
        elif self._records.add(key, (time, value)):
            self._timers.event.register(time, key, int(_Due.RECORD))

    def _on_version(self, key: Any, value: Any, time: int) -> None:
        if isinstance(value, Row):
            kind = value.get_row_kind()
            if kind is RowKind.UPDATE_BEFORE:
                return
            if kind is RowKind.DELETE:
                value = None
        self._versions.add(key, (time, value))
        if time <= self._timers.watermark:
            self._forget(key)
        else:
            self._timers.event.register(time, key, int(_Due.VERSION))

    def on_event_timer(self, time: EventTime, key: Any, namespace: Any) -> Iterator[None]:
        """Time has come for records of a key, or for a version that replaces another."""
        if namespace == _Due.RECORD:
            due, first = self._records.drop(key, self._timers.watermark)
            if first is not None:
                self._timers.event.register(first, key, namespace)
            self._scope.key = key
            for record_time, value in due:
                self._join(key, self._records.guard(value), record_time)
                if self._gathered.is_full:
                    self._gathered.flush()
                    yield
        self._forget(key)

    def _forget(self, key: Any) -> None:
        """Forget the versions that only late records could ask for.

        Records up to the watermark that have not been joined yet may still need some of them.
        """
        waiting = self._records.first_time(key)
        watermark = self._timers.watermark
        self._versions.keep_from(key, watermark if waiting is None else min(watermark, waiting))

    def _join(self, key: Any, value: Any, time: int) -> None:
        found = self._versions.last_until(key, time)
        version = None if found is None else self._versions.guard(found[1])
        if version is None and not self._keeps_left:
            return
        try:
            self._gathered.add_all(self._pair(value, version), time)
        except Exception:
            self.blame(value)
            raise

    def has_enough(self) -> bool:
        return self._gathered.is_full

    def flush_timers(self) -> None:
        self._gathered.flush()
