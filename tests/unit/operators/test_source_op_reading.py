"""The operator at the head of a chain: splits, turns, watermarks, restore and rescale."""

import pickle

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from process_harness import opened

from penstock.connectors.source import EndOfSplit, FixedSplits, Source, Split, SplitReader
from penstock.core.batch import Batch
from penstock.core.clock import ManualClock
from penstock.event_time.watermark_generators import WatermarkGenerator
from penstock.event_time.watermark_strategy import WatermarkStrategy
from penstock.operators.source_operator import SourceOperator
from penstock.operators.source_splits import claim
from penstock.state.operator_state import ListMode, ListSnapshot, OperatorStateStore

NONE = WatermarkStrategy.no_watermarks()


class ListReader(SplitReader):
    def __init__(self, source, split, position):
        self.rows, self.at, self.source, self.split = split.info, position or 0, source, split
        source.opened.append(split.id)

    def poll(self, max_rows):
        if self.at >= len(self.rows):
            if self.source.endless:
                return None
            raise EndOfSplit
        rows = self.rows[self.at : self.at + max_rows]
        self.at += len(rows)
        return Batch.of_rows(rows, np.array(rows))

    def position(self):
        return self.at

    def next_poll_ms(self):
        return self.source.next_ms.get(self.split.id)

    def on_checkpoint_complete(self, position):
        self.source.confirmed.append((self.split.id, position))

    def close(self):
        self.source.closed.append(self.split.id)


class ListSource(Source):
    def __init__(self, in_order=False, endless=False):
        self.read_in_order = in_order
        self.endless = endless
        self.opened, self.closed, self.confirmed, self.next_ms = [], [], [], {}

    def create_enumerator(self, parallelism):
        return FixedSplits([])

    def open_split(self, split, position, clock):
        return ListReader(self, split, position)


def splits(**lists):
    return [Split(name, rows) for name, rows in lists.items()]


def drain(op, max_rows=2):
    while op.poll(max_rows):
        pass


def test_splits_take_turns():
    source = ListSource()
    op, _, out = opened(SourceOperator(source, NONE))
    op.add_splits(splits(a=[1, 2, 3], b=[11, 12, 13]))
    drain(op)
    assert [b.rows for b in out.batches] == [[1, 2], [11, 12], [3], [13]]
    assert not op.finished and sorted(source.closed) == ["a", "b"]
    op.no_more_splits()
    assert op.finished


def test_in_order_reads_one_after_the_other_and_skips_empty_splits():
    source = ListSource(in_order=True)
    op, _, out = opened(SourceOperator(source, NONE))
    op.add_splits(splits(b=[11, 12, 13], x=[], y=[], a=[1]))
    assert source.opened == ["b"]
    op.no_more_splits()
    drain(op)
    assert out.rows == [11, 12, 13, 1] and op.finished
    assert source.opened == ["b", "x", "y", "a"]


def test_known_splits_are_not_read_twice():
    op, _, out = opened(SourceOperator(ListSource(), NONE))
    op.add_splits(splits(a=[1]))
    op.add_splits(splits(a=[1]))
    drain(op)
    assert out.rows == [1]


def test_readers_that_are_not_due_are_left_alone():
    source, clock = ListSource(), ManualClock(0)
    op, _, out = opened(SourceOperator(source, NONE), clock=clock)
    op.add_splits(splits(a=[1], b=[2]))
    source.next_ms = {"a": 50}
    assert op.next_poll_ms() is None
    source.next_ms = {"a": 50, "b": 70}
    assert op.next_poll_ms() == 50 and not op.poll(10)
    clock.advance(50)
    assert op.poll(10) and out.rows == [1]


def test_slowest_split_decides_the_watermark_until_it_ends():
    clock = ManualClock(0)
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    op, _, out = opened(SourceOperator(ListSource(), strategy), clock=clock)
    op.add_splits(splits(a=[5], b=[100, 101, 102]))
    assert op.next_processing_time() == 200
    op.poll(1), op.poll(1)
    op.on_processing_time(199)
    op.on_processing_time(200)
    assert out.log == [(5, 5), (100, 100), ("WM", 4)]
    assert op.next_processing_time() == 400
    drain(op, max_rows=1)
    assert out.log[3:] == [("WM", 99), (101, 101), (102, 102), ("WM", 101)]
    op.no_more_splits()
    assert op.next_processing_time() is None


def test_interval_zero_means_no_watermarks():
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    op, _, out = opened(SourceOperator(ListSource(), strategy), auto_watermark_interval_ms=0)
    op.add_splits(splits(a=[5, 6]))
    drain(op)
    assert op.next_processing_time() is None and out.log == [(5, 5), (6, 6)]


def test_timestamps_and_per_record_watermarks():
    class Punctuated(WatermarkGenerator):
        def on_event(self, value, timestamp, output):
            if value % 2 == 0:
                output.emit_watermark(timestamp)

        def on_periodic_emit(self, output):
            pass

    strategy = WatermarkStrategy.for_generator(Punctuated).with_timestamp_assigner(lambda v, t: t * 10)
    op, _, out = opened(SourceOperator(ListSource(), strategy))
    op.add_splits(splits(a=[1, 2, 3, 4, 5]))
    op.poll(10)
    assert out.log == [(1, 10), (2, 20), ("WM", 20), (3, 30), (4, 40), ("WM", 40), (5, 50)]


def test_silent_split_is_left_out_and_silent_source_goes_idle():
    clock = ManualClock(0)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_idleness(300)
    op, _, out = opened(SourceOperator(ListSource(endless=True), strategy), clock=clock)
    op.add_splits(splits(a=list(range(10)), b=[]))
    for _ in range(4):
        op.poll(1)
        clock.advance(200)
        op.on_processing_time(clock.now_ms())
    assert ("WM", 2) in out.log and ("IDLE", True) not in out.log
    drain(op)
    for _ in range(5):
        clock.advance(200)
        op.on_processing_time(clock.now_ms())
    assert out.log[-2:] == [("WM", 8), ("IDLE", True)]
    op.add_splits(splits(c=[50]))
    assert out.log[-1] == ("IDLE", False)


def test_confirmed_positions_are_those_of_the_snapshot():
    source = ListSource()
    op, _, _ = opened(SourceOperator(source, NONE))
    op.add_splits(splits(a=[1, 2, 3, 4]))
    op.poll(1)
    op.prepare_barrier(1)
    op.poll(1)
    op.prepare_barrier(2)
    op.poll(1)
    op.on_snapshot_complete(2)
    op.on_snapshot_complete(1)
    assert source.confirmed == [("a", 2)]


def test_positions_of_snapshots_that_fail_for_days_do_not_pile_up():
    """As while storage is away, if the job tolerates that: nobody tells an operator of each failure."""
    source = ListSource(endless=True)
    op, _, _ = opened(SourceOperator(source, NONE))
    op.add_splits(splits(a=[1, 2, 3, 4]))
    op.poll(1)
    for epoch in range(1, 1001):
        op.prepare_barrier(epoch)
    assert len(op._positions) < 100
    op.on_snapshot_complete(1000)
    assert source.confirmed == [("a", 1)] and not op._positions
    op.close()
    assert source.closed == ["a"]


def run_to_barrier(names, parallelism, steps, store=None):
    """Subtasks that read a few records each; their records and the union of their states."""
    records, items = [], []
    for subtask in range(parallelism):
        op, ctx, out = opened(
            SourceOperator(ListSource(in_order=subtask % 2 == 1), NONE),
            subtask=subtask,
            parallelism=parallelism,
            store=None if store is None else OperatorStateStore({"splits": store}),
        )
        if store is None:
            op.add_splits(
                [Split(n, list(range(i * 10, i * 10 + i))) for i, n in enumerate(names)][subtask::parallelism]
            )
        for _ in range(steps):
            op.poll(2)
        op.prepare_barrier(1)
        snapshot = ctx.operator_state.snapshot().get("splits")
        records += out.rows
        items += snapshot.items if snapshot else ()
    return records, ListSnapshot(ListMode.UNION, pickle.loads(pickle.dumps(tuple(items))))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 7), st.lists(st.tuples(st.integers(1, 4), st.integers(0, 5)), min_size=1, max_size=4))
def test_every_record_once_across_any_rescales(count, attempts):
    names = [f"s{i}" for i in range(count)]
    seen, store = [], None
    for parallelism, steps in [*attempts, (2, 40)]:
        records, store = run_to_barrier(names, parallelism, steps, store)
        seen += records
    assert sorted(seen) == sorted(i * 10 + j for i in range(count) for j in range(i))
    assert store.items == (), "what was read is forgotten: its enumerator remembers that it was dealt"


def test_unchanged_parallelism_keeps_owners():
    stored = [(Split(n), 3, n == "c", i, 2) for i, n in [(0, "a"), (1, "b"), (1, "c"), (0, "d")]]
    assert [a.split.id for a in claim(stored, 0, 2)] == ["a", "d"]
    assert [(a.split.id, a.position, a.done) for a in claim(stored, 1, 2)] == [
        ("b", 3, False),
        ("c", 3, True),
    ]


def test_snapshot_before_the_first_barrier_holds_only_own_splits():
    stored = tuple((Split(n, [1, 2]), 1, False, i, 2) for i, n in enumerate("ab"))
    store = OperatorStateStore({"splits": ListSnapshot(ListMode.UNION, stored)})
    op, ctx, out = opened(SourceOperator(ListSource(), NONE), store=store, subtask=1, parallelism=2)
    assert [item[0].id for item in ctx.operator_state.snapshot()["splits"].items] == ["b"]
    drain(op)
    assert out.rows == [2]


def test_a_position_that_goes_on_changing_is_confirmed_as_it_was():
    class Live(ListReader):
        def __init__(self, *args):
            super().__init__(*args)
            self.live = {"at": 0}

        def position(self):
            self.live["at"] = self.at
            return self.live

    class LiveSource(ListSource):
        def open_split(self, split, position, clock):
            return Live(self, split, None)

    source = LiveSource()
    op, _, _ = opened(SourceOperator(source, NONE))
    op.add_splits(splits(a=[1, 2, 3, 4]))
    op.poll(1)
    op.prepare_barrier(1)
    op.poll(2)
    op.prepare_barrier(2)
    op.on_snapshot_complete(1)
    assert source.confirmed == [("a", {"at": 1})]
