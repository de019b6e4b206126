"""Sources in time: alignment, idleness under backpressure, what is learned, what is reported."""

import pickle

from process_harness import opened
from test_source_op_reading import ListSource, drain, splits

from penstock.core.batch import Batch
from penstock.core.clock import ManualClock
from penstock.core.ids import MAX_TIME, MIN_TIME
from penstock.core.metrics import MetricGroup
from penstock.event_time.watermark_strategy import WatermarkStrategy
from penstock.operators.source_operator import SourceOperator
from penstock.operators.source_splits import claim
from penstock.operators.timestamps import LEARNED_STATE, AssignTimestampsOperator
from penstock.state.operator_state import OperatorStateStore

ALIGNED = WatermarkStrategy.for_monotonous_timestamps().with_watermark_alignment("g", 50, 100)
LEARNED = WatermarkStrategy.for_learned_lateness(0.01, 5000)
IDLE = WatermarkStrategy.for_monotonous_timestamps().with_idleness(1000)


def tick(op, clock, ms=200):
    clock.advance(ms)
    op.on_processing_time(clock.now_ms())


def aligned(**lists):
    clock, reports = ManualClock(0), []
    op, _, out = opened(
        SourceOperator(ListSource(endless=True), ALIGNED), clock=clock, report_watermark=reports.append
    )
    (begun,) = reports
    assert begun.watermark == MIN_TIME and begun.reading, "the group waits for all its members"
    reports.clear()
    op.add_splits(splits(**lists))
    return op, clock, out, reports


def test_splits_beyond_the_drift_wait_for_the_slowest():
    op, clock, out, reports = aligned(a=[100, 101, 102], b=[200, 201, 202])
    op.poll(1), op.poll(1)
    tick(op, clock)
    assert [(r.watermark, r.group, r.counts) for r in reports] == [(99, "g", True)]
    assert "split 'a'" in reports[0].holder
    assert op.poll(1) == 0, "until the first answer comes nobody runs ahead"
    op.align("other", MAX_TIME)
    assert op.poll(1) == 0
    op.align("g", 99)
    drain(op, 1)
    assert out.rows == [100, 200, 101, 102], "99 + 50 < 199: only a goes on"
    assert op.next_poll_ms() is None
    op.align("g", 150)
    drain(op, 1)
    assert out.rows[4:] == [201, 202]


def test_all_paused_means_sleeping_until_the_next_probe():
    op, clock, _, _ = aligned(a=[100, 101])
    op.poll(1)
    tick(op, clock)
    assert op.next_poll_ms() == op.next_processing_time() == 400


def test_the_end_is_reported_so_that_nobody_waits():
    op, clock, _, reports = aligned(a=[100])
    tick(op, clock)
    op.finish()
    last = reports[-1]
    assert last.watermark == MAX_TIME and not last.counts and not last.reading


def test_a_subtask_without_splits_says_so():
    op, clock, _, reports = aligned()
    tick(op, clock)
    assert reports[0].watermark == MIN_TIME and not reports[0].reading
    assert "no split" in reports[0].holder


def test_no_watermarks_no_reports():
    clock, reports = ManualClock(0), []
    source = SourceOperator(ListSource(endless=True), WatermarkStrategy.no_watermarks())
    op, _, _ = opened(source, clock=clock, report_watermark=reports.append)
    op.add_splits(splits(a=[1]))
    drain(op)
    tick(op, clock, 5000)
    assert reports == []


def test_a_paused_split_does_not_go_idle():
    clock, reports = ManualClock(0), []
    strategy = ALIGNED.with_idleness(1000)
    op, _, out = opened(
        SourceOperator(ListSource(endless=True), strategy), clock=clock, report_watermark=reports.append
    )
    op.add_splits(splits(a=[100, 101]))
    op.poll(1)
    for _ in range(20):
        tick(op, clock)
    assert ("IDLE", True) not in out.log
    op.align("g", MAX_TIME)
    drain(op)
    for _ in range(8):
        tick(op, clock)
    assert ("IDLE", True) in out.log


def test_idle_time_stands_still_under_backpressure():
    for blocked, idle in ((False, True), (True, False)):
        clock = ManualClock(0)
        op, ctx, out = opened(SourceOperator(ListSource(endless=True), IDLE), clock=clock)
        ctx.blocked_ms = clock.now_ms if blocked else lambda: 0
        op.add_splits(splits(a=[5]))
        drain(op)
        for _ in range(20):
            tick(op, clock)
        assert (("IDLE", True) in out.log) is idle


def test_also_behind_an_assigner():
    clock = ManualClock(0)
    op, ctx, out = opened(AssignTimestampsOperator(IDLE), clock=clock)
    ctx.blocked_ms = clock.now_ms
    op.process(Batch.of_rows([5], [5]))
    for _ in range(20):
        tick(op, clock)
    assert out.log == [(5, 5), ("WM", 4)]


def test_backpressure_is_named_as_the_holder():
    clock, reports = ManualClock(0), []
    op, ctx, _ = opened(
        SourceOperator(ListSource(endless=True), IDLE), clock=clock, report_watermark=reports.append
    )
    ctx.blocked_ms = clock.now_ms
    op.add_splits(splits(a=[5]))
    drain(op)
    tick(op, clock, 1000), tick(op, clock, 1000)
    assert "backpressured" in reports[-1].holder


def test_what_a_split_has_learned_moves_with_it():
    late = [n * 10 - (700 if n % 20 == 0 else 0) for n in range(100, 3000)]
    op, ctx, _ = opened(SourceOperator(ListSource(endless=True), LEARNED), clock=ManualClock(0))
    op.add_splits(splits(a=late, b=[1]))
    drain(op, 100)
    values = ctx.metrics.snapshot()
    assert 600 < values["split.a.watermarkBoundMs"] < 800 < values["split.b.watermarkBoundMs"]
    op.prepare_barrier(1)
    stored = pickle.loads(pickle.dumps(op._state.get()))
    moved = [split for subtask in range(3) for split in claim(stored, subtask, 3)]
    assert sorted(split.split.id for split in moved) == ["a", "b"]
    again, ctx, _ = opened(SourceOperator(ListSource(endless=True), LEARNED), store=_store_of(op))
    assert 600 < ctx.metrics.snapshot()["split.a.watermarkBoundMs"] < 800
    assert again._watermarks.watermark == MIN_TIME, "event time starts anew"


def test_of_a_split_that_was_read_nothing_stays():
    op, ctx, _ = opened(SourceOperator(ListSource(), LEARNED), clock=ManualClock(0))
    op.add_splits(splits(a=[1, 2, 3]))
    op.prepare_barrier(1)
    drain(op)
    op.prepare_barrier(2)
    assert op._state.get() == []
    assert not any(name.startswith("split.") for name in ctx.metrics.snapshot())


def _store_of(op):
    store = OperatorStateStore()
    store.list_state("splits", op._state.mode).update(pickle.loads(pickle.dumps(op._state.get())))
    return store


def test_splits_without_anything_learned_are_stored_as_before():
    op, _, _ = opened(SourceOperator(ListSource(endless=True), IDLE))
    op.add_splits(splits(a=[1]))
    op.prepare_barrier(1)
    assert [len(stored) for stored in op._state.get()] == [5]


def test_an_assigner_in_the_middle_keeps_what_it_learned():
    times = [n * 10 - (700 if n % 20 == 0 else 0) for n in range(3000)]
    store = OperatorStateStore()
    op, ctx, _ = opened(AssignTimestampsOperator(LEARNED), store=store)
    op.process(Batch.of_rows(times, times))
    op.prepare_barrier(1)
    kept = store.list_state(LEARNED_STATE, op._state.mode).get()
    for subtask, parallelism in ((0, 1), (2, 3)):
        fresh = OperatorStateStore()
        fresh.list_state(LEARNED_STATE, op._state.mode).update(pickle.loads(pickle.dumps(kept)))
        _, ctx, _ = opened(
            AssignTimestampsOperator(LEARNED), store=fresh, subtask=subtask, parallelism=parallelism
        )
        assert 600 < ctx.metrics.snapshot()["watermarkBoundMs"] < 800


def test_records_ahead_are_passed_on_and_counted():
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_max_ahead(1000)
    op, ctx, out = opened(SourceOperator(ListSource(), strategy), clock=ManualClock(0))
    op.add_splits(splits(a=[5, 10**15, 6]))
    drain(op, 10)
    assert out.rows == [5, 10**15, 6]
    assert ctx.metrics.snapshot()["numRecordsAhead"] == 1
    assert isinstance(ctx.metrics, MetricGroup) and ("WM", 5) in out.log


def test_a_split_that_holds_time_is_never_idle():
    """It is read in no order of time; were it idle, the others' time would pass what it still holds."""

    class History(ListSource):
        def holds_time(self, split):
            return split.id == "old"

    clock = ManualClock(0)
    op, _, out = opened(SourceOperator(History(endless=True), IDLE), clock=clock)
    op.add_splits(splits(old=[5, 6], live=[900]))
    drain(op, 1)
    for _ in range(20):
        tick(op, clock)
    assert sorted(out.rows) == [5, 6, 900]
    assert not [each for each in out.log if each[0] in ("WM", "IDLE")]


IMPATIENT = WatermarkStrategy.for_monotonous_timestamps().with_idleness(1)


def test_without_splits_it_is_idle_only_when_none_is_under_way():
    clock = ManualClock(0)
    op, _, out = opened(SourceOperator(ListSource(endless=True), IMPATIENT), clock=clock)
    for _ in range(5):
        tick(op, clock)
    assert ("IDLE", True) not in out.log
    op.splits_settled()
    for _ in range(5):
        tick(op, clock)
    assert ("IDLE", True) in out.log


def test_between_its_last_split_and_the_next_it_wakes_up():
    """The last split had gone idle before it ended; the next source's splits are under way."""
    clock = ManualClock(0)
    source = ListSource(endless=True)
    op, _, out = opened(SourceOperator(source, IMPATIENT), clock=clock)
    op.add_splits(splits(a=[5]))
    drain(op)
    for _ in range(4):
        tick(op, clock)
    assert out.log[-1] == ("IDLE", True)
    source.endless = False
    drain(op)
    assert not op.reading and out.log[-1] == ("IDLE", False)


def test_a_split_that_waits_for_its_turn_is_not_idle():
    clock = ManualClock(0)
    op, _, out = opened(SourceOperator(ListSource(endless=True), IMPATIENT), clock=clock)
    op.add_splits(splits(a=list(range(100, 200)), b=[5]))
    for _ in range(5):
        assert op.poll(1) == 1  # each record takes as long as there is time between two probes
        op._reading.rotate(-1)
        tick(op, clock)
    assert out.rows == [100, 101, 102, 103, 104] and not [each for each in out.log if each[0] == "WM"]
    drain(op)
    tick(op, clock)
    assert out.log[-1] == ("WM", 4)


def test_time_in_which_nobody_looked_is_not_idle_time():
    for operator in (SourceOperator(ListSource(endless=True), IDLE), AssignTimestampsOperator(IDLE)):
        clock = ManualClock(0)
        op, _, out = opened(operator, clock=clock)
        if isinstance(operator, SourceOperator):
            op.add_splits(splits(a=[5]))
            drain(op)
        for ms in (200, 200, 60_000):
            tick(op, clock, ms)
        assert ("IDLE", True) not in out.log
        for _ in range(7):
            tick(op, clock)
        assert ("IDLE", True) in out.log
