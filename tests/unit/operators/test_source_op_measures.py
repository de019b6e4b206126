"""What a source shows of itself: what is pending, its lag in event time, how long it has been idle."""

from process_harness import opened
from test_source_op_reading import NONE, ListReader, ListSource, drain, splits

from penstock.core.clock import ManualClock
from penstock.operators.source_operator import SourceOperator


class KnowingReader(ListReader):
    def pending(self):
        return len(self.rows) - self.at

    def show(self, group):
        group.add_group("part", self.split.id).gauge("at", lambda: self.at)


class KnowingSource(ListSource):
    def open_split(self, split, position, clock):
        return (ListReader if split.id == "unknown" else KnowingReader)(self, split, position)


def of(source, clock):
    op, ctx, _ = opened(SourceOperator(source, NONE), clock=clock)
    return op, ctx.metrics.snapshot


def test_pending_is_summed_over_the_splits_that_know():
    op, read = of(KnowingSource(endless=True), ManualClock(0))
    assert "pendingRecords" not in read()
    op.add_splits(splits(a=[1, 2, 3], b=[4, 5], unknown=[6]))
    assert read()["pendingRecords"] == 5 and read()["part.a.at"] == 0
    op.poll(2)
    assert read()["pendingRecords"] == 3 and read()["part.a.at"] == 2


def test_a_source_that_does_not_know_says_nothing():
    op, read = of(ListSource(endless=True), ManualClock(0))
    op.add_splits(splits(a=[1]))
    assert "pendingRecords" not in read() and "currentEmitEventTimeLag" not in read()


def test_nothing_is_shown_of_a_split_that_was_read():
    op, read = of(KnowingSource(), ManualClock(0))
    op.add_splits(splits(a=[1, 2]))
    drain(op)
    assert not any(name.startswith("part.") for name in read())


def test_splits_that_wait_are_counted():
    op, read = of(ListSource(in_order=True), ManualClock(0))
    op.add_splits(splits(a=[1], b=[2], c=[3]))
    assert read()["pendingSplits"] == 2


def test_lag_is_that_of_the_last_record_and_idleness_that_since_it():
    clock = ManualClock(1000)
    op, read = of(ListSource(endless=True), clock)
    clock.advance(500)
    assert read()["sourceIdleTime"] == 500
    op.add_splits(splits(a=[700, 900]))
    op.poll(10)
    clock.advance(250)
    values = read()
    assert values["currentEmitEventTimeLag"] == values["currentFetchEventTimeLag"] == 600
    assert values["sourceIdleTime"] == 250 and values["numRecordsIn"] == 2
