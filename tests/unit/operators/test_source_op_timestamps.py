"""``assign_timestamps_and_watermarks``."""

import numpy as np
import pyarrow as pa
from process_harness import batch, opened

from penstock.core.batch import Batch
from penstock.core.clock import ManualClock
from penstock.core.ids import MAX_TIME
from penstock.event_time.watermark_generators import WatermarkGenerator
from penstock.event_time.watermark_strategy import WatermarkStrategy
from penstock.operators.timestamps import AssignTimestampsOperator


def bounded(ms):
    return WatermarkStrategy.for_bounded_out_of_orderness(ms).with_timestamp_assigner(lambda v, t: v * 10)


def test_periodic_watermark_follows_the_largest_time():
    clock = ManualClock(1000)
    op, _, out = opened(AssignTimestampsOperator(bounded(5)), clock=clock)
    assert op.next_processing_time() == 1200
    op.on_processing_time(1200)
    op.process(batch([3, 1], [0, 0]))
    op.on_processing_time(1300)
    op.on_processing_time(1400)
    op.process(batch([2]))
    op.on_processing_time(1600)
    assert out.log == [(3, 30), (1, 10), ("WM", 24), (2, 20)]


def test_upstream_watermarks_and_idleness_end_here_but_the_last():
    op, _, out = opened(AssignTimestampsOperator(bounded(0)))
    op.on_watermark(500)
    op.on_idle(True)
    op.process(batch([1]))
    assert out.log == [(1, 10)]
    op.on_watermark(MAX_TIME)
    assert out.log[-1] == ("WM", MAX_TIME)
    op.on_processing_time(10_000)
    assert op.next_processing_time() is None and len(out.log) == 2


def test_interval_is_a_setting():
    op, _, _ = opened(AssignTimestampsOperator(bounded(0)), auto_watermark_interval_ms=50)
    assert op.next_processing_time() == 50
    op, _, _ = opened(AssignTimestampsOperator(bounded(0)), auto_watermark_interval_ms=0)
    assert op.next_processing_time() is None


def test_a_column_gives_times_and_the_layout_stays():
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("ts")
    op, _, out = opened(AssignTimestampsOperator(strategy))
    columns = pa.RecordBatch.from_pydict({"ts": [7, 9]})
    op.process(Batch.of_columns(columns, np.array([0, 0]), key_columns=("ts",)))
    (result,) = out.batches
    assert result.is_columnar and result.times.tolist() == [7, 9] and result.key_columns == ("ts",)


def test_watermark_of_a_record_comes_right_behind_it():
    class EachOdd(WatermarkGenerator):
        def on_event(self, value, timestamp, output):
            if value % 2:
                output.emit_watermark(timestamp)

        def on_periodic_emit(self, output):
            pass

    op, _, out = opened(AssignTimestampsOperator(WatermarkStrategy.for_generator(EachOdd)))
    op.process(batch([1, 2, 3], [1, 2, 3]))
    assert out.log == [(1, 1), ("WM", 1), (2, 2), (3, 3), ("WM", 3)]


def test_silence_becomes_idleness_and_a_record_ends_it():
    clock = ManualClock(0)
    op, _, out = opened(AssignTimestampsOperator(bounded(0).with_idleness(100)), clock=clock)
    op.process(batch([1]))
    for now in (200, 400, 600):
        op.on_processing_time(now)
    assert out.log == [(1, 10), ("WM", 9), ("IDLE", True)]
    op.process(batch([2]))
    op.on_processing_time(800)
    assert out.log[3:] == [(2, 20), ("IDLE", False), ("WM", 19)]
