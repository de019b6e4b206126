"""Process functions with and without keys: results, times, timers, side outputs, recovery."""

import pickle

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from process_harness import batch, copy_of, opened

from penstock.core.batch import Batch
from penstock.core.clock import ManualClock
from penstock.core.errors import ConfigError, GraphError, KeyError_
from penstock.core.ids import MIN_TIME
from penstock.operators.functions import KeyedProcessFunction, ProcessFunction
from penstock.operators.output_tag import OutputTag
from penstock.operators.process import KeyedProcessOperator, ProcessOperator
from penstock.operators.timer_service import TimeDomain
from penstock.state.descriptors import ListStateDescriptor, ValueStateDescriptor

LATE = OutputTag("late")


class Count(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))

    def process_element(self, value, ctx):
        n = (self.count.value() or 0) + 1
        self.count.update(n)
        yield ctx.get_current_key(), n


class Splitter(ProcessFunction):
    """Even numbers thrice, odd ones to the side, zero nowhere."""

    def process_element(self, value, ctx):
        if value == 0:
            return None
        if value % 2:
            return [(LATE, value)]
        return (value for _ in range(3))


def test_counts_per_key_and_keeps_times():
    op, _, out = opened(KeyedProcessOperator(Count()))
    op.process(batch(["x"] * 4, [5, 6, 7, 8], keys=["a", "b", "a", "a"]))
    assert out.log == [(("a", 1), 5), (("b", 1), 6), (("a", 2), 7), (("a", 3), 8)]
    assert len(out.batches) == 1


def test_columns_are_read_as_rows():
    op, _, out = opened(KeyedProcessOperator(Count()))
    columns = pa.RecordBatch.from_pydict({"k": ["a", "a"], "v": [1, 2]})
    op.process(Batch.of_columns(columns, np.array([1, 2]), key_columns=("k",)))
    assert out.rows == [("a", 1), ("a", 2)]


def test_results_carry_the_time_of_their_record():
    op, _, out = opened(ProcessOperator(Splitter()))
    op.process(batch([2, 1, 0, 4], [10, 20, 30, 40]))
    assert out.log == [(2, 10)] * 3 + [(4, 40)] * 3
    assert out.sides == {"late": [(1, 20)]}


def test_without_timestamps_the_context_shows_min_time():
    seen = []

    class Look(ProcessFunction):
        def process_element(self, value, ctx):
            seen.append((ctx.timestamp(), ctx.timer_service().current_watermark()))
            yield (LATE,)
            yield LATE, value, 3
            yield ()

    op, _, out = opened(ProcessOperator(Look()))
    op.process(batch([1]))
    assert seen == [(MIN_TIME, MIN_TIME)]
    assert out.batches[0].times is None
    assert out.rows == [(LATE,), (LATE, 1, 3), ()] and out.sides == {}


def test_only_side_outputs_emit_no_empty_batch():
    op, _, out = opened(ProcessOperator(Splitter()))
    op.process(batch([1, 3], [1, 2]))
    assert out.batches == [] and out.sides["late"] == [(1, 1), (3, 2)]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 50)), max_size=30))
def test_any_mix_of_result_counts_keeps_times(elements):
    class Repeat(ProcessFunction):
        def process_element(self, value, ctx):
            for i in range(value):
                yield (LATE, value) if i == 1 else value

    op, _, out = opened(ProcessOperator(Repeat()))
    op.process(batch([v for v, _ in elements], [t for _, t in elements]))
    assert out.log == [(v, t) for v, t in elements for i in range(v) if i != 1]
    assert out.sides.get("late", []) == [(v, t) for v, t in elements if v >= 2]


class Alarm(KeyedProcessFunction):
    """Registers a timer at the element's time plus ten, twice; some on the wall clock."""

    def open(self, runtime_context):
        self.seen = runtime_context.get_list_state(ListStateDescriptor("seen"))

    def process_element(self, value, ctx):
        self.seen.add(value)
        service = ctx.timer_service()
        if value == "wall":
            service.register_processing_time_timer(service.current_processing_time() + 10)
        elif value == "stop":
            service.delete_event_time_timer(10)
        else:
            service.register_event_time_timer(ctx.timestamp() + 10)
            service.register_event_time_timer(ctx.timestamp() + 10)

    def on_timer(self, timestamp, ctx):
        service = ctx.timer_service()
        if ctx.time_domain() is TimeDomain.EVENT_TIME and timestamp == 10:
            service.register_event_time_timer(12)
        yield ctx.get_current_key(), ctx.time_domain().name, list(self.seen), service.current_watermark()


def test_event_timers_fire_once_in_order_before_the_watermark():
    op, _, out = opened(KeyedProcessOperator(Alarm()))
    op.process(batch(["x", "y"], [0, 5], keys=["a", "b"]))
    op.on_watermark(9)
    assert out.log == [("WM", 9)]
    op.on_watermark(20)
    assert out.log[1:] == [
        (("a", "EVENT_TIME", ["x"], 20), 10),
        (("a", "EVENT_TIME", ["x"], 20), 12),
        (("b", "EVENT_TIME", ["y"], 20), 15),
        ("WM", 20),
    ]
    assert len(out.batches) == 1


def test_deleted_timer_does_not_fire():
    op, _, out = opened(KeyedProcessOperator(Alarm()))
    op.process(batch(["x", "stop"], [0, 0], keys=["a", "a"]))
    op.on_watermark(100)
    assert out.log == [("WM", 100)]


def test_processing_timers_fire_one_millisecond_after():
    clock = ManualClock(100)
    op, _, out = opened(KeyedProcessOperator(Alarm()), clock=clock)
    op.process(batch(["wall"], [0], keys=["a"]))
    assert op.next_processing_time() == 111
    op.on_processing_time(110)
    assert out.log == []
    op.on_processing_time(111)
    assert out.log == [(("a", "PROCESSING_TIME", ["wall"], MIN_TIME), 110)]
    assert op.next_processing_time() is None


def test_state_and_timers_survive_restore():
    op, ctx, _ = opened(KeyedProcessOperator(Alarm()))
    op.process(batch(["x", "wall"], [0, 0], keys=["a", "b"]))
    op.on_watermark(5)
    again, _, out = opened(KeyedProcessOperator(Alarm()), keyed=copy_of(ctx.keyed), clock=ManualClock(500))
    assert again.next_processing_time() == 11
    again.on_processing_time(500)
    again.process(batch(["z"], [1], keys=["a"]))
    again.on_watermark(10)
    assert out.log == [
        (("b", "PROCESSING_TIME", ["wall"], MIN_TIME), 10),
        (("a", "EVENT_TIME", ["x", "z"], 10), 10),
        ("WM", 10),
    ]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.sampled_from("abc"), max_size=25), st.integers(0, 25))
def test_restore_anywhere_gives_the_same_results(keys, cut):
    through, _, expected = opened(KeyedProcessOperator(Count()))
    through.process(batch(keys, keys=keys))
    first, ctx, out1 = opened(KeyedProcessOperator(Count()))
    first.process(batch(keys[:cut], keys=keys[:cut]))
    second, _, out2 = opened(KeyedProcessOperator(Count()), keyed=copy_of(ctx.keyed))
    second.process(batch(keys[cut:], keys=keys[cut:]))
    assert out1.rows + out2.rows == expected.rows


def test_on_timer_may_return_none_and_timers_may_go_to_the_side():
    class Quiet(KeyedProcessFunction):
        def process_element(self, value, ctx):
            ctx.timer_service().register_event_time_timer(value)

        def on_timer(self, timestamp, ctx):
            return None if timestamp == 1 else [(LATE, timestamp)]

    op, _, out = opened(KeyedProcessOperator(Quiet()))
    op.process(batch([1, 2, 3], [0, 0, 0], keys=["a"] * 3))
    op.on_watermark(2)
    assert out.sides == {"late": [(2, 2)]} and out.log == [("WM", 2)]


def test_failing_record_is_named():
    class Divide(ProcessFunction):
        def process_element(self, value, ctx):
            yield 1 // value

    op, _, out = opened(ProcessOperator(Divide()))
    with pytest.raises(LookupError):
        op.current_record()
    with pytest.raises(ZeroDivisionError):
        op.process(batch([1, 0, 2]))
    assert op.current_record() == 0 and out.batches == []


def test_unkeyed_steps_refuse_timers_and_keyed_state():
    class WantsTimer(ProcessFunction):
        def process_element(self, value, ctx):
            ctx.timer_service().register_event_time_timer(1)

    op, _, _ = opened(ProcessOperator(WantsTimer()))
    with pytest.raises(GraphError, match="key_by"):
        op.process(batch([1]))

    class WantsState(ProcessFunction):
        def open(self, runtime_context):
            runtime_context.get_state(ValueStateDescriptor("mine"))

        def process_element(self, value, ctx):
            return None

    with pytest.raises(GraphError, match="'mine'.*not keyed"):
        opened(ProcessOperator(WantsState()))


def test_keyed_state_needs_a_current_key():
    class TooEarly(Count):
        def open(self, runtime_context):
            super().open(runtime_context)
            self.count.value()

    with pytest.raises(KeyError_, match="no key is current"):
        opened(KeyedProcessOperator(TooEarly()))


def test_wrong_functions_are_refused_when_the_step_is_built():
    with pytest.raises(ConfigError, match="add brackets"):
        KeyedProcessOperator(Count)
    with pytest.raises(ConfigError, match="ProcessFunction"):
        ProcessOperator(lambda value: value)


def test_runtime_context_and_lifecycle():
    seen = {}

    class Curious(ProcessFunction):
        def open(self, runtime_context):
            self.items = runtime_context.get_operator_list_state("mine", mode="union")
            seen["name"] = runtime_context.get_task_name_with_subtasks()
            seen["parameter"] = runtime_context.get_job_parameter("a", "?")
            seen["missing"] = runtime_context.get_job_parameter("z", "?")
            self.counter = runtime_context.get_metrics_group().counter("seen")
            with pytest.raises(ConfigError, match="split"):
                runtime_context.get_operator_list_state("mine", mode="broadcast")

        def process_element(self, value, ctx):
            self.items.add(value)
            self.counter.inc()

        def close(self):
            seen["closed"] = seen.get("closed", 0) + 1

    op, ctx, _ = opened(ProcessOperator(Curious()), subtask=1, parallelism=4)
    op.process(batch([7, 8]))
    op.close()
    op.close()
    assert seen == {"name": "task (2/4)", "parameter": "b", "missing": "?", "closed": 1}
    assert ctx.operator_state.snapshot()["mine"].items == (7, 8)
    assert ctx.metrics.snapshot() == {"seen": 2}


def test_operators_and_tags_can_be_shipped():
    op = pickle.loads(pickle.dumps(KeyedProcessOperator(Count())))
    op, _, out = opened(op)
    op.process(batch([1], keys=["k"]))
    assert out.rows == [("k", 1)]
    assert pickle.loads(pickle.dumps(LATE)) == LATE
