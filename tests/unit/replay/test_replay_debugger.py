"""What the watcher of ``penstock debug`` tells of the passing of time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from penstock.cli.debug import _headline
from penstock.common import Types
from penstock.core.batch import Batch
from penstock.core.clock import ManualClock
from penstock.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from penstock.datastream.state import ValueStateDescriptor
from penstock.replay.debugger import Cause, Step, watched
from penstock.testing.operator_run import OperatorRun


class Reminder(KeyedProcessFunction):
    """Says what it last saw a second after each record, by the clock."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.last = runtime_context.get_state(ValueStateDescriptor("last", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> None:
        self.last.update(value[1])
        timers = ctx.timer_service()
        timers.register_processing_time_timer(timers.current_processing_time() + 1000)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[str]:
        yield f"{ctx.get_current_key()} {self.last.value()}"
        self.last.clear()


def steps_of(key: str) -> tuple[OperatorRun, list[Step]]:
    """A keyed step at the clock's time 5000, watched."""
    env = StreamExecutionEnvironment.get_execution_environment()
    env.from_collection([("a", 1)]).key_by(lambda v: v[0]).process(Reminder()).uid("reminder")
    (node,) = [node for node in env.graph.nodes if node.uid == "reminder"]
    steps: list[Step] = []
    watching = watched(node, key, steps.append, lambda state: None)
    return OperatorRun(watching.factory, clock=ManualClock(5000)), steps


def test_timers_of_processing_time_are_told_as_they_are_set_and_as_they_fire() -> None:
    trial, steps = steps_of("a")
    trial.process(Batch(rows=[("a", 1), ("b", 2)], keys=["a", "b"]))
    trial.clock_to(5500)
    assert [step.cause for step in steps] == [Cause.RECORD]
    assert steps[0].before == {} and steps[0].after == {"last": "1", "processing-time timer 6000": "set"}
    trial.clock_to(7000)
    record, fired = steps
    assert (fired.cause, fired.record, fired.time) == (Cause.CLOCK, None, 6001)
    assert fired.before == record.after and fired.after == {}
    assert fired.outputs == ((None, "a 1"),), "and nothing of the other key"
    assert _headline(2, fired) == "2. the clock reached 1970-01-01 00:00:06"


def test_a_record_that_is_none_is_a_record() -> None:
    step = Step(Cause.RECORD, None, None, 0, {}, {}, ())
    assert _headline(1, step) == "1. record: None"
    assert _headline(1, Step(Cause.EVENT_TIME, None, None, 0, {}, {}, ())) == "1. the input ended"
