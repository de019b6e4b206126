"""What is right passes: every kind of function, every kind of state, timers, windows, side outputs."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.common import Types
from penstock.core.batch import Batch
from penstock.core.errors import ConfigError
from penstock.datastream import OutputTag
from penstock.datastream.functions import (
    FilterFunction,
    FlatMapFunction,
    KeyedProcessFunction,
    MapFunction,
    ProcessFunction,
    ReduceFunction,
)
from penstock.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from penstock.datastream.window import TumblingEventTimeWindows
from penstock.operators.operator import Operator
from penstock.operators.stateless import ProjectOperator
from penstock.operators.window.operator import WindowOperator
from penstock.operators.window.window_state import ReduceContents
from penstock.testing.verify import EndOfInput, ProcessingTimeTo, Record, WatermarkTo, verify

ROOT = Path(__file__).resolve().parents[3]
PAIRS = [("a", 1), ("b", 10), ("a", 2), ("c", 7), ("b", 20), ("a", 3)]


def first(value: Any) -> Any:
    return value[0]


def example() -> Any:
    path = ROOT / "examples" / "testing" / "session_bug.py"
    spec = importlib.util.spec_from_file_location("session_bug", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Running(KeyedProcessFunction):
    """Value state."""

    def open(self, runtime_context: Any) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        total = (self.total.value() or 0) + value[1]
        self.total.update(total)
        yield value[0], total


class LastTwo(KeyedProcessFunction):
    """List state."""

    def open(self, runtime_context: Any) -> None:
        self.items = runtime_context.get_list_state(ListStateDescriptor("items", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        self.items.update([*list(self.items.get() or [])[-1:], value[1]])
        yield value[0], list(self.items.get())


class Distinct(FlatMapFunction):
    """Map state, in a flat map."""

    def open(self, runtime_context: Any) -> None:
        self.seen = runtime_context.get_map_state(MapStateDescriptor("seen", Types.LONG(), Types.BOOLEAN()))

    def flat_map(self, value: Any) -> Iterator[Any]:
        if not self.seen.contains(value[1]):
            self.seen.put(value[1], True)
            yield value


class Reminder(KeyedProcessFunction):
    """A timer on each clock, and a side output."""

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 10)
        ctx.timer_service().register_processing_time_timer(ctx.timer_service().current_processing_time() + 5)
        yield OutputTag("seen"), value

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield ctx.get_current_key(), ctx.time_domain().name, timestamp


class Add(ReduceFunction):
    def reduce(self, value1: Any, value2: Any) -> Any:
        return value1[0], value1[1] + value2[1]


class Double(MapFunction):
    def map(self, value: int) -> int:
        return 2 * value


class Odd(FilterFunction):
    def filter(self, value: int) -> bool:
        return value % 2 == 1


class Timed(ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield value
        yield ctx.timestamp()


def test_value_state() -> None:
    names = (
        verify(Running(), keyed_by=first)
        .input(PAIRS)
        .expect([("a", 1), ("b", 10), ("a", 3), ("c", 7), ("b", 30), ("a", 6)])
    )
    assert names[:3] == ["the plain run", "each key alone", "row by row"]
    assert "restored after every item" in names and any("subtasks" in name for name in names)


def test_list_and_map_state() -> None:
    verify(LastTwo(), keyed_by=first).input(PAIRS).expect(
        [("a", [1]), ("b", [10]), ("a", [1, 2]), ("c", [7]), ("b", [10, 20]), ("a", [2, 3])]
    )
    repeated = [("a", 1), ("b", 1), ("a", 1), ("a", 2), ("b", 1)]
    verify(Distinct(), keyed_by=first).input(repeated).expect([("a", 1), ("b", 1), ("a", 2)])


def test_timers_side_outputs_and_virtual_time() -> None:
    items = [
        Record(("a", 1), 100),
        ProcessingTimeTo(50),
        Record(("b", 1), 105),
        WatermarkTo(112),
        ProcessingTimeTo(60),
        EndOfInput(),
    ]
    verify(Reminder(), keyed_by=first).input(items).expect(
        [
            Record(("a", "PROCESSING_TIME", 5), 5),
            Record(("a", "EVENT_TIME", 110), 110),
            ("b", "PROCESSING_TIME", 55),
            ("b", "EVENT_TIME", 115),
        ],
        side={"seen": [Record(("a", 1), 100), ("b", 1)]},
    )


def test_reduce_map_filter_and_process() -> None:
    verify(Add(), keyed_by=first).input(PAIRS).matches_itself()
    verify(Double()).input([1, 2, 3]).expect([2, 4, 6])
    verify(Double).input([1, 2, 3]).expect([2, 4, 6])
    verify(Odd()).input([1, 2, 3]).expect([1, 3])
    verify(Timed()).input([Record("x", 5), Record("y", 7)]).expect(["x", Record(5, 5), "y", 7])


def test_tumbling_windows() -> None:
    def windows() -> Operator:
        return WindowOperator(TumblingEventTimeWindows.of(100), ReduceContents(Add()))

    items = [Record(pair, 30 * n) for n, pair in enumerate(PAIRS)]
    items[4:4] = [WatermarkTo(99)]  # type: ignore[list-item]
    verify(windows, keyed_by=first).input([*items, EndOfInput()]).expect(
        [Record(("a", 3), 99), ("b", 10), ("c", 7), ("b", 20), ("a", 3)]
    )


def test_the_example_tells_right_from_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    module = example()
    module.try_verify()
    told = capsys.readouterr().out
    assert "NumberSessions is right" in told and "NumberSessionsWrong is wrong" in told
    page = (ROOT / "docs" / "guides" / "verify.md").read_text(encoding="utf-8")
    assert told.strip() in page, "the page shows what the example really says"


def test_operators_and_columns() -> None:
    columns = pa.record_batch({"k": ["x", "y", "x"], "n": [1, 2, 3]})
    rows = verify(ProjectOperator(1)).input([Batch.of_columns(columns)])
    assert len(rows.matches_itself()) > 5


def test_long_inputs_are_interrupted_at_some_places_only() -> None:
    names = verify(Double()).input(range(300)).matches_itself()
    assert sum(name.startswith("restored after item") for name in names) == 40


@pytest.mark.parametrize("subject", [Running(), Add()])
def test_keys_are_asked_for(subject: Any) -> None:
    with pytest.raises(ConfigError, match="keyed_by"):
        verify(subject)


@pytest.mark.parametrize("odd", [5, "text", None, lambda value: value], ids=["5", "text", "None", "lambda"])
def test_other_things_are_refused(odd: Any) -> None:
    with pytest.raises(ConfigError, match="cannot run"):
        verify(odd)


def test_an_input_is_asked_for() -> None:
    with pytest.raises(ConfigError, match="needs an input"):
        verify(Double()).input([])
    with pytest.raises(ConfigError, match="brackets"):
        verify(Double()).input([EndOfInput])


def test_the_pages_code_runs() -> None:
    page = (ROOT / "docs" / "guides" / "verify.md").read_text(encoding="utf-8")
    code = page.split("```python\n")[1].split("```")[0]
    ran = {"__name__": "verify_page"}
    exec(compile(code, "verify.md", "exec"), ran)
    assert "verify(" in code and len(ran) > 2
