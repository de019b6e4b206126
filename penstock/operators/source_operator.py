"""The head of a chain: reads splits, stamps records, makes watermarks.

The task's loop calls :meth:`SourceOperator.poll` when nothing else is to do.  Splits come
from the coordinator through :meth:`~SourceOperator.add_splits`; after a restore those of the
snapshot are already there.  Each split has watermarks of its own, and the slowest split decides.

Under watermark alignment the subtask reports its watermark and hears that of the group's slowest;
splits that are too far ahead of it are not polled until it has come closer.

State: the union list ``splits``, see :mod:`penstock.operators.source_splits`.  Watermarks are not
stored: after a restore event time starts anew.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

from penstock.connectors.source import EndOfSplit, Source, Split, SplitReader, SplitsFinished
from penstock.core.batch import Batch
from penstock.core.copying import copied
from penstock.core.ids import MAX_TIME, MIN_TIME, Epoch, EventTime
from penstock.core.metrics import RECORDS_COUNTER, SPLITS_COUNTER, SPLITS_DONE_COUNTER
from penstock.core.packed import Names
from penstock.event_time.watermark_strategy import WatermarkStrategy
from penstock.event_time.watermark_tracker import CombinedWatermarks
from penstock.operators.operator import Operator, OperatorContext
from penstock.operators.source_measures import SourceMeasures
from penstock.operators.source_splits import AssignedSplit, WaitingSplits, claim, stored_names
from penstock.operators.timestamps import (
    AHEAD_COUNTER,
    BOUND_GAUGE,
    TimeReporter,
    WatermarkEmitter,
    describe_holder,
    stamp,
)
from penstock.state.operator_state import ListMode

SPLIT_STATE = "splits"
"""Part of the snapshot format: renaming it makes every source start over."""
SPLIT_GROUP = "split"
ERRORS_COUNTER = "numRecordsInErrors"
_EPOCHS = 64
"""Snapshots under way whose positions are remembered, to confirm them; one beyond is not confirmed."""


class SourceOperator(Operator):
    """Reads the splits of one subtask, all together or one after the other as the source says.

    ``finished`` tells when nothing will ever come again; the final watermark is the engine's to send.
    """

    def __init__(self, source: Source, strategy: WatermarkStrategy) -> None:
        self._source = source
        self._strategy = strategy
        self._splits: dict[str, AssignedSplit] = {}
        """Those that are not done."""
        self._done = Names()
        """Those whose end the enumerator waits for, and those that older snapshots say are done."""
        self._opened = 0
        self._waiting = WaitingSplits()
        self._reading: deque[AssignedSplit] = deque()
        self._no_more = False
        self._had_others = False
        """Whether there were records since the last probe, for which splits may have had to wait."""
        self._positions: dict[Epoch, list[tuple[AssignedSplit, Any]]] = {}
        self.polled_bytes = 0
        """What the last poll that gave something has read."""

    def open(self, ctx: OperatorContext) -> None:
        super().open(ctx)
        self._watermarks = CombinedWatermarks(self._strategy, ctx.metrics.counter(AHEAD_COUNTER))
        self._watermarks.expects_splits = True
        self._emitter = WatermarkEmitter(ctx, self._strategy)
        self._records = ctx.metrics.counter(RECORDS_COUNTER)
        self._given = ctx.metrics.counter(SPLITS_COUNTER)
        self._ended = ctx.metrics.counter(SPLITS_DONE_COUNTER)
        self._bad = ctx.metrics.counter(ERRORS_COUNTER)
        self._measures = SourceMeasures(ctx, self._reading, self._waiting.__len__)
        self._reporter = TimeReporter(ctx, self._strategy)
        self._limit: EventTime = MAX_TIME
        if self._strategy.alignment is not None and self._reporter.is_heard:
            # The group must know all its members before one of them may run ahead.
            self._limit = MIN_TIME
            self._reporter.report(MIN_TIME, counts=True, reading=True, holder="it has only just begun")
        self._state = ctx.operator_state.list_state(SPLIT_STATE, ListMode.UNION)
        for assigned in claim(self._state.get(), ctx.info.subtask, ctx.info.parallelism):
            if assigned.done:
                self._done.add(assigned.split.id)
            else:
                self._take(assigned)
        self._store()
        self._report_finished(self._done)
        self._start_reading()

    def add_splits(self, splits: Iterable[Split]) -> None:
        """Splits were assigned to this subtask; those it knows already are ignored."""
        source, waited_for = self._source, True
        for split in splits:
            if split.id not in self._splits and split.id not in self._done:
                self._take(AssignedSplit(split))
                waited_for = waited_for and source.awaits_end(split)
        if source.reports_finished and not waited_for:
            self._done = Names()  # the enumerator has waited for all before it dealt this one
        self._start_reading()

    def no_more_splits(self) -> None:
        """No split will be added any more; the operator finishes with those it has."""
        self._no_more = True
        self.splits_settled()

    def splits_settled(self) -> None:
        """It has its share of what is known to come: if that is nothing, it may be idle."""
        self._watermarks.expects_splits = False

    @property
    def reading(self) -> bool:
        """Whether a split that it has is not read to its end."""
        return bool(self._reading or self._waiting)

    @property
    def finished(self) -> bool:
        """Whether all splits are read and none can come."""
        return self._no_more and not self.reading

    def poll(self, max_rows: int) -> int:
        """Emit the next records of one split, taking turns; how many there were."""
        now = self.ctx.clock.now_ms()
        tries = len(self._reading)
        while tries > 0 and self._reading:
            tries -= 1
            assigned = self._reading[0]
            self._reading.rotate(-1)
            reader = assigned.reader
            assert reader is not None
            if assigned.paused:
                continue
            assigned.asked = True
            due = reader.next_poll_ms()
            if due is not None and due > now:
                continue
            try:
                batch = reader.poll(max_rows)
            except EndOfSplit:
                self._divert(reader)
                self._end(assigned)
                tries = len(self._reading)
                continue
            bad = self._divert(reader)
            if batch is not None and len(batch):
                self.polled_bytes = batch.about_bytes()
                self._emit(assigned, batch, now)
                return bad + len(batch)
            if bad:
                return bad
        return 0

    def _divert(self, reader: SplitReader) -> int:
        """Count records that could not be decoded, and emit them if somebody may want them; how many."""
        bad = reader.take_diverted()
        if bad:
            self._bad.inc(len(bad))
            if self._source.diverts_to is not None:
                times = [MIN_TIME if record.timestamp is None else record.timestamp for record in bad]
                self.ctx.out.side(self._source.diverts_to, Batch.of_rows(list(bad), times))
        return len(bad)

    def next_poll_ms(self) -> int | None:
        """Processing time before which polling is useless; ``None`` if some reader cannot tell."""
        ready = [assigned for assigned in self._reading if not assigned.paused]
        if self._reading and not ready:
            return self._emitter.next_ms
        times = [assigned.reader.next_poll_ms() for assigned in ready if assigned.reader]
        known = [time for time in times if time is not None]
        return min(known) if known and len(known) == len(times) else None

    def next_processing_time(self) -> int | None:
        return None if self.finished else self._emitter.next_ms

    def on_processing_time(self, now_ms: int) -> None:
        if not self.finished and self._emitter.due(now_ms):
            watermarks = self._watermarks
            for assigned in self._reading:
                watermarks.ask_split(assigned.split.id, assigned.asked or not self._had_others)
                assigned.asked = False
            self._had_others = False
            self._emitter.send(watermarks.probe(self._emitter.quiet_ms))
            self._pause()
            if self._reporter.due(now_ms):
                slowest = watermarks.slowest()
                split, given = (None, None) if slowest is None else (slowest[0], slowest[1].since_growth)
                counts, reading = not watermarks.is_idle, bool(self._reading)
                self._reporter.report(
                    watermarks.watermark, counts, reading, describe_holder(slowest), split, given
                )

    def align(self, group: str, slowest: EventTime) -> None:
        """The slowest source of ``group`` is at ``slowest``: splits beyond the drift wait, others go on."""
        alignment = self._strategy.alignment
        if alignment is not None and alignment.group == group:
            self._limit = EventTime(min(slowest + alignment.max_drift_ms, MAX_TIME))
            self._pause()

    def _pause(self) -> None:
        """Hold back the splits whose watermarks are beyond the limit; their idle time stands still."""
        if self._strategy.alignment is None:
            return
        for assigned in self._reading:
            paused = self._watermarks.split_watermark(assigned.split.id) > self._limit
            if paused is not assigned.paused:
                assigned.paused = paused
                self._watermarks.pause_split(assigned.split.id, paused)

    def finish(self) -> None:
        self._reporter.report(MAX_TIME, counts=False, reading=False, holder="")

    def prepare_barrier(self, epoch: Epoch) -> None:
        self._emitter.barrier()
        self._positions[epoch] = [(assigned, copied(assigned.position)) for assigned in self._reading]
        for old in list(self._positions)[:-_EPOCHS]:  # nobody tells which have failed, perhaps for days
            del self._positions[old]
        self._store()

    def on_snapshot_complete(self, epoch: Epoch) -> None:
        for assigned, position in self._positions.get(epoch, ()):
            if assigned.reader is not None:
                assigned.reader.on_checkpoint_complete(position)
        self._positions = {later: kept for later, kept in self._positions.items() if later > epoch}

    def close(self) -> None:
        for assigned in self._splits.values():
            assigned.release()

    def _take(self, assigned: AssignedSplit) -> None:
        self._given.inc()
        self._splits[assigned.split.id] = assigned
        self._waiting.append(assigned)

    def _start_reading(self) -> None:
        """Open waiting splits: all, or only the next one if the source is read in order."""
        waiting = self._waiting
        while waiting and not (self._reading and self._source.reads_in_order(waiting.first().split)):
            assigned = waiting.popleft()
            assigned.number = self._opened = self._opened + 1
            assigned.reader = self._source.open_split(assigned.split, assigned.start, self.ctx.clock)
            self._reading.append(assigned)
            self._emitter.send(self._watermarks.add_split(assigned.split.id, assigned.learned))
            if self._source.holds_time(assigned.split):
                # Never idle: event time of the others would pass what is still to be read.
                self._watermarks.pause_split(assigned.split.id, True)
            self._show_bound(assigned.split.id)
            self._measures.opened(assigned.split.id, assigned.reader)

    def _show_bound(self, split_id: str) -> None:
        tracker = self._watermarks.tracker(split_id)
        if tracker.bound_ms is not None:
            group = self.ctx.metrics.add_group(SPLIT_GROUP, split_id)
            group.gauge(BOUND_GAUGE, lambda: float(tracker.bound_ms or 0))

    def _emit(self, assigned: AssignedSplit, batch: Batch, now_ms: int) -> None:
        self._had_others = True
        self._records.count += len(batch)
        stamped = stamp(batch, self._strategy)
        self._measures.emitted(stamped, now_ms)
        held = self._source.holds_time(assigned.split)
        cuts = () if held else self._watermarks.on_batch(assigned.split.id, stamped, now_ms)
        self._emitter.emit(stamped, cuts)

    def _end(self, assigned: AssignedSplit) -> None:
        """Count the split's last watermark, then go on without it."""
        if self._emitter.next_ms is not None:
            self._emitter.send(self._watermarks.probe(self._emitter.quiet_ms))
        self._reading.remove(assigned)
        assigned.release()
        del self._splits[assigned.split.id]
        self._ended.inc()
        self._emitter.send(self._watermarks.remove_split(assigned.split.id))
        if self._source.reports_finished and self._source.awaits_end(assigned.split):
            self._done.add(assigned.split.id)
            self._report_finished([assigned.split.id])
        self.ctx.metrics.remove_group(SPLIT_GROUP, assigned.split.id)
        self._measures.ended(assigned.split.id)
        self._start_reading()

    def _report_finished(self, done: Iterable[str]) -> None:
        ids = tuple(done) if self._source.reports_finished else ()
        if ids:
            runtime = self.ctx.runtime
            runtime.to_driver(SplitsFinished(runtime.generation, ids))

    def _store(self) -> None:
        me = (self.ctx.info.subtask, self.ctx.info.parallelism)
        reading = sorted(self._reading, key=lambda assigned: assigned.number)
        for assigned in reading:
            assigned.learned = self._watermarks.tracker(assigned.split.id).snapshot()
        stored = [assigned.stored(*me) for assigned in reading]
        done = stored_names(self._done, *me) if self._source.reports_finished else ()
        self._state.update([*stored, *self._waiting.stored(*me), *done])
