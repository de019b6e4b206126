"""The sketch of lateness, the watermarks that learn from it, and the guard against the future."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.common import Duration, WatermarkStrategy
from penstock.core.batch import Batch
from penstock.core.errors import ConfigError
from penstock.core.ids import MIN_TIME
from penstock.core.metrics import Counter
from penstock.event_time.future_timestamps import BELIEVED_AFTER, AheadGuard
from penstock.event_time.watermark_generators import (
    LatenessSketch,
    LearnedLateness,
    WatermarkGenerator,
    WatermarkOutput,
)
from penstock.event_time.watermark_tracker import WatermarkTracker

FOREVER = 1e12


def sketch_of(values, half_life=FOREVER):
    sketch = LatenessSketch(half_life)
    sketch.add(np.array(values, np.int64))
    return sketch


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(0, 10**9), min_size=1, max_size=300),
    st.sampled_from([0.5, 0.1, 0.01, 0.001]),
)
def test_a_quantile_is_off_by_a_sixteenth_at_most(values, share):
    found = sketch_of(values).exceeded_by(share)
    ordered = sorted(values)
    allowed = int(share * len(values) + 1e-9)
    exact = ordered[len(values) - 1 - min(allowed, len(values) - 1)]
    assert found >= exact * (1 - 1 / 16) - 1
    assert found <= exact * (1 + 1 / 16) + 1


def test_what_is_a_half_life_old_counts_half():
    sketch = sketch_of([1000] * 100, half_life=100)
    sketch.add(np.zeros(100, np.int64))
    assert sketch.weight == pytest.approx(150)
    for _ in range(20):
        sketch.add(np.zeros(100, np.int64))
    assert sketch.exceeded_by(0.001) == 0


def test_merging_and_pickling_keep_the_distribution_and_stay_small():
    rng = np.random.default_rng(3)
    left, right = (rng.exponential(500, 20_000).astype(np.int64) for _ in range(2))
    merged, other = sketch_of(left), sketch_of(right)
    merged.merge(other)
    both = sketch_of(np.concatenate((left, right)))
    assert merged.exceeded_by(0.001) == both.exceeded_by(0.001)
    copy = pickle.loads(pickle.dumps(merged))
    assert copy.exceeded_by(0.01) == merged.exceeded_by(0.01)
    assert len(pickle.dumps(merged)) < 4096


def run(generator, times, arrivals, every_ms=200):
    """Late share, and the watermark at the end."""
    out = WatermarkOutput()
    late = 0
    for start in range(0, int(arrivals[-1]), every_ms):
        first, last = np.searchsorted(arrivals, (start, start + every_ms))
        batch = times[first:last]
        if len(batch):
            late += int((batch <= out.watermark).sum())
            generator.on_batch(batch)
        generator.on_periodic_emit(out)
    return late / len(times), out.watermark


def stream(seconds, mean_ms, rng):
    times = np.sort(rng.uniform(0, seconds * 1000, seconds * 1000))
    arrivals = times + rng.exponential(1, len(times)) * mean_ms(times)
    order = np.argsort(arrivals)
    return times[order].astype(np.int64), arrivals[order]


@pytest.mark.parametrize("target", [0.001, 0.01])
@pytest.mark.parametrize("drift", [0.0, 4.0])
def test_the_late_share_is_near_the_target(target, drift):
    times, arrivals = stream(120, lambda t: 100 * (1 + drift * t / 120_000), np.random.default_rng(5))
    late, _ = run(LearnedLateness(target, 10_000), times, arrivals)
    assert target / 2 <= late <= target * 2


def test_the_initial_bound_holds_until_enough_was_seen():
    generator = LearnedLateness(0.01, 5000)
    generator.on_batch(np.arange(50, dtype=np.int64))
    assert 4700 <= generator.bound_ms() <= 5400
    generator.on_batch(np.arange(50, 2000, dtype=np.int64))
    assert generator.bound_ms() == 0


def test_no_record_no_watermark():
    out = WatermarkOutput()
    LearnedLateness(0.01, 5000).on_periodic_emit(out)
    assert out.watermark == MIN_TIME


def test_what_was_learned_survives():
    times, arrivals = stream(60, lambda t: 100, np.random.default_rng(5))
    first = LearnedLateness(0.001, 60_000)
    run(first, times, arrivals)
    second = LearnedLateness(0.001, 60_000)
    second.restore(pickle.loads(pickle.dumps(first.snapshot())))
    assert 300 < second.bound_ms() <= 2 * first.bound_ms() < 2000
    assert LearnedLateness(0.001, 60_000).bound_ms() > 50_000


@pytest.mark.parametrize("ratio", [0, 0.5, 1, -0.1])
def test_a_senseless_ratio_is_refused(ratio):
    with pytest.raises(ConfigError, match="late ratio"):
        WatermarkStrategy.for_learned_lateness(ratio)


# --- timestamps from the future ---


def rows(*times):
    return Batch.of_rows([f"r{t}" for t in times], list(times))


HOUR = 3_600_000
GUARDED = WatermarkStrategy.for_monotonous_timestamps().with_max_ahead(Duration.of_minutes(10))


def test_a_far_future_record_is_counted_and_leaves_the_watermark_alone():
    ahead = Counter()
    tracker = WatermarkTracker(GUARDED, ahead)
    tracker.on_batch(rows(1000, 2000, 10**15, 3000), now_ms=5000)
    assert tracker.probe(5000).watermark == 2999
    assert ahead.count == 1


def test_also_the_first_record_and_broken_clocks_that_go_on():
    ahead = Counter()
    tracker = WatermarkTracker(GUARDED, ahead)
    for n in range(100):
        tracker.on_batch(rows(10**15 + n * 1000, n * 1000), now_ms=n * 1000)
    assert tracker.probe(0).watermark == 98_999
    assert ahead.count == 100


def test_a_silent_night_is_no_jump():
    guard = AheadGuard(600_000)
    assert guard.believed(np.array([0]), 0) is None
    assert guard.believed(np.array([8 * HOUR]), 8 * HOUR) is None


def test_a_gap_in_stored_data_is_believed_after_some_records():
    guard = AheadGuard(600_000)
    assert guard.believed(np.array([0]), 50 * HOUR) is None
    late = 5 * HOUR + np.arange(BELIEVED_AFTER + 3)
    believed = guard.believed(late, 50 * HOUR)
    assert believed.tolist() == [False] * (BELIEVED_AFTER - 1) + [True] * 4
    assert guard.believed(np.array([5 * HOUR + 1000]), 50 * HOUR) is None


def test_event_time_goes_on_from_the_earliest_behind_a_gap():
    guard = AheadGuard(600_000)
    guard.believed(np.array([0]), 50 * HOUR)
    wild = np.append(np.full(BELIEVED_AFTER - 1, 5 * HOUR), 40 * HOUR)
    assert not guard.believed(wild, 50 * HOUR).any(), "the last one is ahead of the others"
    assert guard.believed(np.array([5 * HOUR + 1]), 50 * HOUR) is None
    assert guard.believed(np.array([20 * HOUR]), 50 * HOUR).tolist() == [False]


def test_punctuated_generators_do_not_see_what_is_ahead():
    class Each(WatermarkGenerator):
        def on_event(self, value, timestamp, output):
            output.emit_watermark(timestamp)

        def on_periodic_emit(self, output):
            pass

    tracker = WatermarkTracker(WatermarkStrategy.for_generator(Each).with_max_ahead(1000))
    cuts = tracker.on_batch(rows(10, 10**12, 20), now_ms=0)
    assert [(cut.row, cut.result.watermark) for cut in cuts] == [(1, 10), (3, 20)]


@pytest.mark.parametrize("wrong", [0, -5])
def test_a_senseless_guard_is_refused(wrong):
    with pytest.raises(ConfigError, match="greater than zero"):
        GUARDED.with_max_ahead(wrong)
