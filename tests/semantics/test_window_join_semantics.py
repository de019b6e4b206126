"""Window join and co-group: which pairs and groups there are, and when; at every cut and restore."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from two_inputs import LEFT, RIGHT, TwoInputs

from penstock.core.errors import ConfigError
from penstock.datastream import CoGroupFunction, FlatJoinFunction, JoinFunction, RuntimeContext
from penstock.datastream.window import (
    CountTrigger,
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from penstock.operators.join.cogroup import co_group, window_join
from penstock.operators.join.functions import JoinKind
from penstock.testing import EndOfInput, Harness, Record, WatermarkTo, verify


class Make:
    """Makes the operator; an object, because a test's lambda would be pickled with the test."""

    def __init__(self, assigner: Any, function: Any, how: str | None = "inner", **options: Any) -> None:
        self._arguments = (assigner, function, *(() if how is None else (JoinKind.of(how),)))
        self._make = co_group if how is None else window_join
        self._options = options

    def __call__(self) -> TwoInputs:
        return TwoInputs(lambda: self._make(*self._arguments, **self._options))


def left(value: str, time: int) -> Record:
    return Record((LEFT, value), time)


def right(value: str, time: int) -> Record:
    return Record((RIGHT, value), time)


def run(make: Make, items: list[Any]) -> Any:
    return verify(make, keyed_by=key).input(items)


def key(value: Any) -> str:
    return value[1][0]


def pair(one: Any, two: Any) -> Any:
    return f"{one}-{two}"


def lists(ones: list[str], twos: list[str]) -> Iterator[Any]:
    yield (sorted(ones), sorted(twos))


TUMBLING = TumblingEventTimeWindows.of(10)
ITEMS = [
    left("a1", 1),
    right("a2", 9),
    left("a3", 5),
    right("b1", 3),
    right("a4", 10),
    WatermarkTo(9),
    left("b2", 12),
    left("c1", 12),
    EndOfInput(),
]


def test_an_inner_join_emits_all_pairs_of_a_window_at_its_last_time() -> None:
    run(Make(TUMBLING, pair), ITEMS).expect([Record("a1-a2", 9), Record("a3-a2", 9)])


def test_a_co_group_also_sees_windows_with_one_side() -> None:
    run(Make(TUMBLING, lists, None), ITEMS).expect(
        [
            Record((["a1", "a3"], ["a2"]), 9),
            Record(([], ["b1"]), 9),
            Record(([], ["a4"]), 19),
            Record((["b2"], []), 19),
            Record((["c1"], []), 19),
        ]
    )


def test_outer_joins_put_none_beside_a_lonely_record() -> None:
    both = ["a1-a2", "a3-a2"]
    run(Make(TUMBLING, pair, "left"), ITEMS).expect([*both, "b2-None", "c1-None"])
    run(Make(TUMBLING, pair, "right"), ITEMS).expect([*both, "None-b1", "None-a4"])
    run(Make(TUMBLING, pair, "full"), ITEMS).expect([*both, "None-b1", "None-a4", "b2-None", "c1-None"])


def test_a_pair_in_several_sliding_windows_comes_out_of_each() -> None:
    items = [left("a1", 7), right("a2", 12), EndOfInput()]
    run(Make(SlidingEventTimeWindows.of(20, 10), pair), items).expect([Record("a1-a2", 19)])
    items = [left("a1", 11), right("a2", 12), EndOfInput()]
    run(Make(SlidingEventTimeWindows.of(20, 10), pair), items).expect(
        [Record("a1-a2", 19), Record("a1-a2", 29)]
    )


def test_both_sides_build_one_session() -> None:
    items = [left("a1", 0), right("a2", 8), left("a3", 16), left("a4", 40), WatermarkTo(30), EndOfInput()]
    run(Make(EventTimeSessionWindows.with_gap(10), lists, None), items).expect(
        [Record((["a1", "a3"], ["a2"]), 25), Record((["a4"], []), 49)]
    )


def test_late_records_of_each_side_have_their_own_side_output() -> None:
    items = [left("a1", 1), WatermarkTo(9), left("a2", 2), right("a3", 3), right("a4", 13), EndOfInput()]
    make = Make(TUMBLING, lists, None, late_tags=("one", "two"))
    run(make, items).expect(
        [(["a1"], []), ([], ["a4"])], side={"one": [Record("a2", 2)], "two": [Record("a3", 3)]}
    )
    with Harness(Make(TUMBLING, pair), keyed_by=key) as harness:
        harness.push(*items)
        assert harness.late_dropped == 2


def test_allowed_lateness_fires_again_with_all_records() -> None:
    items = [left("a1", 1), WatermarkTo(9), right("a2", 2), WatermarkTo(14), right("a3", 2), EndOfInput()]
    run(Make(TUMBLING, pair, allowed_lateness_ms=5), items).expect(["a1-a2"])


def test_other_triggers() -> None:
    items = [left("a1", 1), right("a2", 2), left("a3", 3), right("a4", 4), EndOfInput()]
    run(Make(TUMBLING, pair, trigger=CountTrigger.of(2)), items).expect(
        ["a1-a2", "a1-a2", "a1-a4", "a3-a2", "a3-a4"]
    )


class Count(JoinFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.opened = True

    def join(self, first: Any, second: Any) -> Any:
        return (self.opened, first, second)


class Both(FlatJoinFunction):
    def join(self, first: Any, second: Any) -> Iterator[Any]:
        yield first
        yield second


class Sizes(CoGroupFunction):
    def co_group(self, first: list[Any], second: list[Any]) -> Iterator[Any]:
        yield (len(first), len(second))


def test_function_objects_are_opened_and_called() -> None:
    items = [left("a1", 1), right("a2", 2), EndOfInput()]
    run(Make(TUMBLING, Count()), items).expect([(True, "a1", "a2")])
    run(Make(TUMBLING, Both()), items).expect(["a1", "a2"])
    run(Make(TUMBLING, Sizes(), None), items).expect([(1, 1)])
    with pytest.raises(ConfigError, match="JoinFunction"):
        window_join(TUMBLING, Count, JoinKind.INNER)
    with pytest.raises(ConfigError, match="CoGroupFunction"):
        co_group(TUMBLING, "text")
