"""Temporal join: each statement of its module as a test; at every cut and restore of ``verify``."""

from __future__ import annotations

from typing import Any

import pytest
from two_inputs import LEFT, RIGHT, TwoInputs

from penstock.common import Row, RowKind
from penstock.core.errors import ConfigError, TimestampError
from penstock.datastream import StreamExecutionEnvironment
from penstock.operators.join.functions import JoinKind
from penstock.operators.join.temporal import TemporalJoinOperator
from penstock.testing import EndOfInput, Harness, Record, WatermarkTo, verify


def pair(order: Any, price: Any) -> Any:
    return (order, price if price is None or isinstance(price, str) else price[0])


class Make:
    """Makes the operator; an object, because a test's lambda would be pickled with the test."""

    def __init__(self, how: str = "inner", late: str | None = None) -> None:
        self._arguments = (pair, JoinKind.of(how), late)

    def __call__(self) -> TwoInputs:
        return TwoInputs(lambda: TemporalJoinOperator(*self._arguments))


def order(value: str, time: int) -> Record:
    return Record((LEFT, value), time)


def price(value: Any, time: int) -> Record:
    return Record((RIGHT, value), time)


def key(value: Any) -> str:
    return str(value[1][0])[0]


def run(make: Make, items: list[Any]) -> Any:
    return verify(make, keyed_by=key).input(items)


def test_a_record_meets_the_version_valid_at_its_time() -> None:
    items = [
        order("a-at-12", 12),
        price("a-from-20", 20),
        price("a-from-10", 10),
        order("a-at-20", 20),
        order("a-at-19", 19),
        order("b-at-5", 5),
        price("b-from-6", 6),
        WatermarkTo(30),
        EndOfInput(),
    ]
    pairs = [("a-at-12", "a-from-10"), ("a-at-19", "a-from-10"), ("a-at-20", "a-from-20")]
    run(Make(), items).expect([Record(p, t) for p, t in zip(pairs, (12, 19, 20), strict=True)])
    run(Make("left"), items).expect([*pairs, ("b-at-5", None)])


def test_a_record_waits_until_the_watermark_reaches_its_time() -> None:
    with Harness(Make(), keyed_by=key) as harness:
        harness.push(price("a1", 1), order("a", 10))
        harness.watermark(9)
        assert harness.take() == []
        harness.push(price("a2", 10))
        harness.watermark(10)
        assert harness.take() == [("a", "a2")]


def test_of_versions_with_the_same_time_the_last_one_counts() -> None:
    run(Make(), [price("a1", 5), price("a2", 5), order("a", 6), EndOfInput()]).expect([("a", "a2")])


def test_a_deleted_version_is_valid_for_nobody() -> None:
    items = [
        price(Row("a1"), 5),
        price(Row.of_kind(RowKind.DELETE, "a1"), 10),
        price(Row.of_kind(RowKind.UPDATE_BEFORE, "a2"), 12),
        order("a-9", 9),
        order("a-11", 11),
        WatermarkTo(11),
        order("a-13", 13),
        EndOfInput(),
    ]
    run(Make("left"), items).expect([("a-9", "a1"), ("a-11", None), ("a-13", None)])


def test_records_at_or_before_the_watermark_are_late() -> None:
    items = [price("a1", 1), WatermarkTo(10), order("a10", 10), order("a11", 11), EndOfInput()]
    run(Make(late="late"), items).expect([("a11", "a1")], side={"late": [Record("a10", 10)]})
    with Harness(Make(), keyed_by=key) as harness:
        harness.push(*items)
        assert harness.late_dropped == 1


def test_a_late_version_counts_for_records_to_come() -> None:
    items = [price("a1", 1), WatermarkTo(10), price("a5", 5), order("a11", 11), EndOfInput()]
    run(Make(), items).expect([("a11", "a5")])


def test_versions_nobody_can_ask_for_are_forgotten() -> None:
    with Harness(Make(), keyed_by=key) as harness:
        harness.push(*(price(f"a{t}", t) for t in (30, 10, 20, 40)))
        harness.watermark(25)
        assert harness.state("a") == {"_join/versions": [(20, "a20"), (30, "a30"), (40, "a40")]}
        harness.watermark(100)
        assert harness.state("a") == {"_join/versions": [(40, "a40")]}
        harness.push(price(Row.of_kind(RowKind.DELETE, "a"), 110))
        harness.watermark(110)
        assert harness.state("a") == {} and harness.timers() == []


def test_only_inner_and_left() -> None:
    stream = StreamExecutionEnvironment().from_collection([1]).key_by(lambda i: i)
    with pytest.raises(ConfigError, match="one of 'inner', 'left'"):
        stream.temporal_join(stream, how="full")
    with Harness(Make(), keyed_by=key) as harness, pytest.raises(TimestampError, match="assign_timestamps"):
        harness.push((LEFT, "a"))
