"""Connected streams and broadcast state."""

import pickle

import pytest
from process_harness import batch, copy_of, opened

from penstock.core.errors import ConfigError, KeyError_
from penstock.operators.broadcast import BroadcastProcessOperator, KeyedBroadcastProcessOperator
from penstock.operators.functions import (
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
)
from penstock.operators.output_tag import OutputTag
from penstock.operators.process import (
    CoFlatMapOperator,
    CoMapOperator,
    CoProcessOperator,
    KeyedCoProcessOperator,
)
from penstock.state.descriptors import MapStateDescriptor, ValueStateDescriptor
from penstock.state.operator_state import OperatorStateStore

RULES = MapStateDescriptor("rules")
SIDE = OutputTag("side")


class Mapper(CoMapFunction):
    def map1(self, value):
        return None if value < 0 else value

    def map2(self, value):
        return str(value)


class KeyedMapper(CoMapFunction):
    """Both sides count into one state per key."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("n"))

    def map1(self, value):
        self.count.update((self.count.value() or 0) + value)
        return self.count.value()

    map2 = map1


class FlatMapper(CoFlatMapFunction):
    def flat_map1(self, value):
        return range(value)

    def flat_map2(self, value):
        if value:
            yield value


class Joiner(KeyedCoProcessFunction):
    """Remembers the first stream's value per key; the second stream's records meet it."""

    def open(self, runtime_context):
        self.left = runtime_context.get_state(ValueStateDescriptor("left"))

    def process_element1(self, value, ctx):
        self.left.update(value)
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 100)

    def process_element2(self, value, ctx):
        yield ctx.get_current_key(), self.left.value(), value

    def on_timer(self, timestamp, ctx):
        self.left.clear()
        yield "expired", ctx.get_current_key()


def test_co_map_drops_none_and_keeps_times():
    op, _, out = opened(CoMapOperator(Mapper()))
    op.process(batch([1, -1, 2], [10, 20, 30]), 0)
    op.process(batch([7], [40]), 1)
    assert out.log == [(1, 10), (2, 30), ("7", 40)]


def test_co_map_shares_keyed_state_and_can_be_shipped():
    op, ctx, out = opened(pickle.loads(pickle.dumps(CoMapOperator(KeyedMapper(), keyed=True))))
    op.process(batch([1, 5], keys=["a", "b"]), 0)
    op.process(batch([2], keys=["a"]), 1)
    assert out.rows == [1, 5, 3]
    again, _, out = opened(CoMapOperator(KeyedMapper(), keyed=True), keyed=copy_of(ctx.keyed))
    again.process(batch([1], keys=["b"]), 1)
    assert out.rows == [6]


def test_co_flat_map_drops_false_results():
    op, _, out = opened(CoFlatMapOperator(FlatMapper()))
    op.process(batch([2, 0], [1, 2]), 0)
    op.process(batch([0, 9], [3, 4]), 1)
    assert out.log == [(0, 1), (1, 1), (9, 4)]


def test_co_process_tells_its_inputs_apart():
    class Sides(CoProcessFunction):
        def process_element1(self, value, ctx):
            yield "one", value, ctx.timestamp()

        def process_element2(self, value, ctx):
            yield SIDE, value

    op, _, out = opened(CoProcessOperator(Sides()))
    op.process(batch(["x"], [3]), 0)
    op.process(batch(["y"], [4]), 1)
    assert out.log == [(("one", "x", 3), 3)] and out.sides == {"side": [("y", 4)]}


def test_keyed_co_process_joins_and_times_out_after_restore():
    op, ctx, out = opened(KeyedCoProcessOperator(Joiner()))
    op.process(batch(["L"], [0], keys=["a"]), 0)
    op.process(batch(["r", "r"], [1, 2], keys=["a", "b"]), 1)
    assert out.rows == [("a", "L", "r"), ("b", None, "r")]
    again, _, out = opened(KeyedCoProcessOperator(Joiner()), keyed=copy_of(ctx.keyed))
    again.process(batch(["s"], [3], keys=["a"]), 1)
    again.on_watermark(100)
    again.process(batch(["t"], [4], keys=["a"]), 1)
    assert out.log == [
        (("a", "L", "s"), 3),
        (("expired", "a"), 100),
        ("WM", 100),
        (("a", None, "t"), 4),
    ]


class Rules(BroadcastProcessFunction):
    def process_element(self, value, ctx):
        state = ctx.get_broadcast_state(RULES)
        assert not hasattr(state, "put")
        yield value, state.get(value), ctx.timestamp(), ctx.current_watermark()

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(RULES).put(*value)


class KeyedRules(KeyedBroadcastProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("n"))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 5)
        yield ctx.get_current_key(), self.count.value(), ctx.get_broadcast_state(RULES).get("limit")

    def process_broadcast_element(self, value, ctx):
        if value == "touch":
            self.count.value()
        ctx.get_broadcast_state(RULES).put("limit", value)

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), ctx.time_domain().name, ctx.get_broadcast_state(RULES).get("limit")


def test_broadcast_state_is_written_on_one_side_and_restored():
    op, ctx, out = opened(BroadcastProcessOperator(Rules(), [RULES]))
    op.process(batch(["x"], [1]), 0)
    op.process(batch([("x", 1)], [2]), 1)
    op.on_watermark(2)
    op.process(batch(["x"], [3]), 0)
    assert [row[:2] + row[3:] for row in out.rows] == [("x", None, -(2**63)), ("x", 1, 2)]
    snapshot = ctx.operator_state.snapshot()
    again, _, out = opened(BroadcastProcessOperator(Rules(), [RULES]), store=OperatorStateStore(snapshot))
    again.process(batch(["x"], [9]), 0)
    assert out.rows[0][:3] == ("x", 1, 9)


def test_undeclared_broadcast_state_is_explained():
    op, _, _ = opened(BroadcastProcessOperator(Rules(), [MapStateDescriptor("other")]))
    with pytest.raises(ConfigError, match="'rules' was not declared.*'other'"):
        op.process(batch(["x"]), 0)


def test_keyed_broadcast_has_timers_and_keyed_state_on_one_side_only():
    op, _, out = opened(KeyedBroadcastProcessOperator(KeyedRules(), [RULES]))
    op.process(batch(["x", "x"], [1, 2], keys=["a", "a"]), 0)
    op.process(batch([3], [2]), 1)
    op.process(batch(["x"], [4], keys=["b"]), 0)
    op.on_watermark(6)
    assert out.rows == [
        ("a", 1, None),
        ("a", 2, None),
        ("b", 1, 3),
        ("a", "EVENT_TIME", 3),
    ]
    with pytest.raises(KeyError_, match="broadcast side"):
        op.process(batch(["touch"], [7]), 1)
    assert op.current_record() == "touch"
