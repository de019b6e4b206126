"""Planted bugs are caught, each with a message that names the run, the place and the difference."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.common import Types
from penstock.core.batch import Batch
from penstock.datastream.functions import (
    FlatMapFunction,
    KeyedProcessFunction,
    MapFunction,
    ProcessWindowFunction,
)
from penstock.datastream.state import ValueStateDescriptor
from penstock.datastream.window import TumblingEventTimeWindows
from penstock.operators.operator import Operator
from penstock.operators.window.operator import WindowOperator
from penstock.operators.window.window_state import ListContents
from penstock.testing.verify import EndOfInput, Record, VerificationFailed, WatermarkTo, verify

PAIRS = [("a", 1), ("b", 10), ("a", 2), ("b", 20)]


def first(value: Any) -> Any:
    return value[0]


def failure(verifier: Any, expected: list[Any] | None = None) -> str:
    with pytest.raises(VerificationFailed) as caught:
        verifier.matches_itself() if expected is None else verifier.expect(expected)
    return str(caught.value)


class TotalInAnAttribute(KeyedProcessFunction):
    def __init__(self) -> None:
        self.totals: dict[str, int] = {}

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        key = ctx.get_current_key()
        self.totals[key] = self.totals.get(key, 0) + value[1]
        yield key, self.totals[key]


class CountInAnAttribute(MapFunction):
    """Without keys: operator list state would be the place."""

    def __init__(self) -> None:
        self.count = 0

    def map(self, value: Any) -> Any:
        self.count += 1
        return self.count


class TimerInAnAttribute(KeyedProcessFunction):
    """Remembers the one timer that counts in an attribute."""

    def __init__(self) -> None:
        self.due: dict[str, int] = {}

    def process_element(self, value: Any, ctx: Any) -> None:
        self.due[value[0]] = ctx.timestamp() + 10
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 10)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        if self.due.get(ctx.get_current_key()) == timestamp:
            yield ctx.get_current_key(), timestamp


class BatchCounter(Operator):
    """Tells how large its batches were."""

    def process(self, batch: Batch, input_index: int = 0) -> None:
        self.ctx.out.emit(Batch.of_rows([len(batch)] * len(batch), batch.times))


class SharedDefault(KeyedProcessFunction):
    """Every key without a value starts with the same list."""

    def open(self, runtime_context: Any) -> None:
        self.items = runtime_context.get_state(ValueStateDescriptor("items", Types.PICKLED_BYTE_ARRAY()))
        self.empty: list[int] = []

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        items = self.items.value() or self.empty
        items.append(value[1])
        self.items.update(items)
        yield value[0], list(items)


class RemembersWindows(ProcessWindowFunction[Any, Any, Any, Any]):
    """Adds to each window what the one before had."""

    def __init__(self) -> None:
        self.before = 0

    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterator[Any]:
        self.before += sum(value for _, value in elements)
        yield key, context.window().start, self.before


class Unordered(KeyedProcessFunction):
    """Gives a key's results in an order that depends on the history of this instance."""

    def __init__(self) -> None:
        self.calls = 0

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        self.calls += 1
        pair = [(value, "x"), (value, "y")]
        yield from pair if self.calls < 3 else reversed(pair)


class Breaks(FlatMapFunction):
    def __init__(self) -> None:
        self.first: Any = None

    def flat_map(self, value: Any) -> Iterator[Any]:
        self.first = value if value == 1 else self.first
        yield value - self.first


def test_state_in_an_attribute() -> None:
    told = failure(
        verify(TotalInAnAttribute(), keyed_by=first).input(PAIRS), [("a", 1), ("b", 10), ("a", 3), ("b", 30)]
    )
    assert told.splitlines() == [
        "restored after item 0: missing results: 1, unexpected: 1, first at item 2, ('a', 2)",
        "  - expected: ('a', 3)",
        "  + got:      ('a', 2)   from item 2, ('a', 2)",
    ]


def test_state_in_an_attribute_without_keys() -> None:
    told = failure(verify(CountInAnAttribute()).input("abc"), [1, 2, 3])
    assert "restored after item 0" in told and "- expected: 3" in told


def test_a_timer_in_an_attribute() -> None:
    items = [Record(("a", 1), 100), Record(("b", 1), 101), WatermarkTo(120)]
    told = failure(verify(TimerInAnAttribute(), keyed_by=first).input(items), [("a", 110), ("b", 111)])
    assert told.startswith("restored after item 0: missing results: 1, unexpected: 0")
    assert "- expected: ('a', 110)" in told


def test_output_that_depends_on_the_batch() -> None:
    told = failure(verify(BatchCounter()).input([7, 8, 9]))
    assert told.startswith("row by row: missing results: 3, unexpected: 3, first at item 0, 7")


def test_a_mutable_default_shared_between_keys() -> None:
    told = failure(verify(SharedDefault(), keyed_by=first).input(PAIRS))
    assert told.startswith("each key alone") and "+ got:      ('b', [10])" in told
    told = failure(
        verify(SharedDefault(), keyed_by=first).input(PAIRS),
        [("a", [1]), ("b", [10]), ("a", [1, 2]), ("b", [10, 20])],
    )
    assert told.startswith("the plain run")


def test_a_window_function_that_remembers_across_windows() -> None:
    def windows() -> Operator:
        return WindowOperator(TumblingEventTimeWindows.of(100), ListContents(), RemembersWindows())

    items = [Record(("a", 1), 10), WatermarkTo(150), Record(("a", 2), 210), EndOfInput()]
    told = failure(verify(windows, keyed_by=first).input(items))
    assert told.startswith("restored after item 1") and "- expected: ('a', 200, 3)" in told
    assert "+ got:      ('a', 200, 2)" in told and "EndOfInput()" in told


def test_a_keys_results_out_of_order() -> None:
    told = failure(verify(Unordered(), keyed_by=first).input(PAIRS))
    assert "order" in told and "(('a', 2), 'x')" in told


def test_results_out_of_order_without_keys() -> None:
    told = failure(verify(CountInAnAttribute()).input("abc"), [1, 3, 2])
    assert told.splitlines() == [
        "the plain run: the order differs at result 1",
        "  - expected: 3",
        "  + got:      2   from item 2, 'c'",
    ]


def test_a_run_that_raises_says_where() -> None:
    told = failure(verify(Breaks()).input([1, 2, 3]), [0, 1, 2])
    assert told.startswith("restored after item 0: TypeError(") and told.endswith("at item 1, 2")


def test_results_at_the_wrong_time_and_place() -> None:
    told = failure(verify(CountInAnAttribute()).input([Record("a", 5)]), [Record(1, 6)])
    assert "- expected: 1 at 6" in told and "+ got:      1 at 5" in told
    with pytest.raises(VerificationFailed, match="to side output 'late'"):
        verify(CountInAnAttribute()).input(["a"]).expect([], side={"late": [1]})


def test_the_examples_bug() -> None:
    path = Path(__file__).resolve().parents[3] / "examples" / "testing" / "session_bug.py"
    spec = importlib.util.spec_from_file_location("session_bug", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    told = failure(module.sessions(module.NumberSessionsWrong()), module.EXPECTED)
    assert "- expected: ('ann', 2, 1)" in told and "+ got:      ('ann', 1, 1)" in told
    assert module.sessions(module.NumberSessions()).matches_itself()
