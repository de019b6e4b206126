"""Asynchronous input and output: order, capacity, timeouts, retries and results, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.core.errors import ConfigError
from penstock.datastream import AsyncFunction, AsyncRetryStrategy
from penstock.datastream.async_retry_predicates import (
    empty_result_predicate,
    exception_type_predicate,
    has_exception_predicate,
)
from penstock.datastream.functions import AsyncFunctionDescriptor
from penstock.operators.async_io.operator import AsyncWaitOperator
from penstock.testing import EndOfInput, Harness, ProcessingTimeTo, Record, WatermarkTo, verify

Mode = AsyncFunctionDescriptor.OutputMode
ONCE = AsyncRetryStrategy.no_restart()


class Ask(AsyncFunction[Any, Any]):
    """Answers ``(name, delay)`` with the name after the delay."""

    async def async_invoke(self, value: Any) -> list[Any]:
        name, delay = value
        await asyncio.sleep(delay / 1000)
        return [name]

    def timeout(self, value: Any) -> list[Any]:
        return [f"{value[0]} timed out"]


def step(
    function: AsyncFunction[Any, Any],
    mode: Mode = Mode.ORDERED,
    timeout: int = 1000,
    capacity: int = 100,
    retry: AsyncRetryStrategy[Any] = ONCE,
) -> AsyncWaitOperator:
    return AsyncWaitOperator(AsyncFunctionDescriptor(function, timeout, capacity, retry, mode))


def test_ordered_results_keep_the_order_and_the_times_of_the_records() -> None:
    items = [
        Record(("slow", 90), 1),
        Record(("quick", 10), 2),
        WatermarkTo(2),
        Record(("next", 5), 3),
        EndOfInput(),
    ]
    verify(step(Ask())).input(items).expect([Record("slow", 1), Record("quick", 2), Record("next", 3)])


def test_unordered_results_come_as_they_arrive() -> None:
    items = [("slow", 90), ("quick", 10), ("middle", 40), EndOfInput()]
    verify(step(Ask(), Mode.UNORDERED)).input(items).expect(["quick", "middle", "slow"])


def test_unordered_results_never_overtake_a_watermark() -> None:
    """A restore has no watermark yet, so there results of both sides of an old one may mix."""
    with Harness(step(Ask(), Mode.UNORDERED)) as harness:
        harness.push(Record(("slow", 90), 1), Record(("middle", 40), 1), WatermarkTo(1))
        harness.push(Record(("quick", 10), 2), Record(("last", 20), 2), EndOfInput())
        assert harness.take() == ["middle", "slow", "quick", "last"]


class Signals:
    """An output that writes down the order of records and watermarks."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def emit(self, batch: Any) -> None:
        self.seen += batch.to_rows()

    def side(self, tag: str, batch: Any) -> None:
        raise AssertionError

    def watermark(self, time: int) -> None:
        self.seen.append(("watermark", time))

    def idle(self, is_idle: bool) -> None:
        self.seen.append(("idle", is_idle))


@pytest.mark.parametrize("mode", Mode)
def test_watermarks_and_idleness_wait_for_the_records_before_them(mode: Mode) -> None:
    with Harness(step(Ask(), mode)) as harness:
        operator = harness._stages[0].trial.operators[0]
        out = operator.ctx.out = Signals()
        harness.push(Record(("a", 50), 1))
        harness.watermark(1)
        harness.watermark(2)
        operator.on_idle(True)
        assert out.seen == []
        harness.advance(50)
        assert out.seen == ["a", ("watermark", 2), ("idle", True)]
        harness.watermark(9)
        assert out.seen[-1] == ("watermark", 9)


def test_a_record_without_an_answer_in_time_is_replaced_by_timeout() -> None:
    verify(step(Ask(), timeout=50)).input(
        [("in time", 49), ("late", 51), ("later", 10_000), EndOfInput()]
    ).expect(["in time", "late timed out", "later timed out"])


class NoAnswer(AsyncFunction[Any, Any]):
    async def async_invoke(self, value: Any) -> list[Any]:
        await asyncio.Event().wait()
        return []


def test_by_default_a_timeout_fails_the_job_and_names_the_record() -> None:
    with Harness(step(NoAnswer(), timeout=50)) as harness:
        harness.push("who")
        with pytest.raises(TimeoutError, match="'who'"):
            harness.advance(60)
        assert harness._stages[0].trial.operators[0].current_record() == "who"


def test_a_timeout_of_zero_means_none() -> None:
    with Harness(step(Ask(), timeout=0)) as harness:
        harness.push(("late", 1_000_000))
        harness.advance(999_999)
        assert harness.take() == []
        harness.advance(1)
        assert harness.take() == ["late"]


class Wrong(AsyncFunction[Any, Any]):
    async def async_invoke(self, value: Any) -> Any:
        return value


@pytest.mark.parametrize(("value", "message"), [(None, "cannot be none"), ("text", "should be of list type")])
def test_the_result_must_be_a_list(value: Any, message: str) -> None:
    with Harness(step(Wrong())) as harness, pytest.raises(ConfigError, match=message):
        harness.push(value)
        harness.advance(0)


def test_an_answer_may_have_no_result_or_several() -> None:
    verify(step(Wrong())).input([[1, 2], [], [3], EndOfInput()]).expect([1, 2, 3])


class Failing(AsyncFunction[Any, Any]):
    """Fails, or answers with nothing, as often as the record says, and then succeeds."""

    def __init__(self) -> None:
        self.attempts: dict[str, int] = {}

    async def async_invoke(self, value: Any) -> list[Any]:
        name, failures, kind = value
        self.attempts[name] = self.attempts.get(name, 0) + 1
        if self.attempts[name] > failures:
            return [name]
        if kind is None:
            return []
        raise kind(f"{name} failed")

    def timeout(self, value: Any) -> list[Any]:
        return [f"{value[0]} timed out"]


def only_connections(error: Exception) -> bool:
    return exception_type_predicate(error, ConnectionError)


FIXED = AsyncRetryStrategy.fixed_delay(2, 20, empty_result_predicate, only_connections)


def test_retries_follow_the_predicates() -> None:
    with Harness(step(Failing(), retry=FIXED)) as harness:
        harness.push(("a", 1, ConnectionError), ("b", 2, None), ("c", 0, None), ("d", 9, None))
        harness.advance(19)
        assert harness.take() == []
        harness.advance(1)
        assert harness.take() == ["a"]
        harness.advance(20)
        assert harness.take() == ["b", "c"], "and d is given up with its last, empty result"
        assert harness._stages[0].trial.operators[0].is_drained()


@pytest.mark.parametrize("record", [("a", 1, ValueError), ("a", 3, ConnectionError)])
def test_other_errors_and_too_many_of_them_fail_the_job(record: Any) -> None:
    with Harness(step(Failing(), retry=FIXED)) as harness, pytest.raises(record[2], match="a failed"):
        harness.push(record)
        harness.advance(1000)


def test_the_timeout_covers_all_attempts() -> None:
    patient = AsyncRetryStrategy.fixed_delay(100, 20, None, has_exception_predicate)
    with Harness(step(Failing(), timeout=50, retry=patient)) as harness:
        harness.push(("a", 99, OSError))
        harness.advance(50)
        assert harness.take() == ["a timed out"]


def test_backoff_grows_up_to_its_limit() -> None:
    strategy = AsyncRetryStrategy.exponential_backoff(6, 10, 50, 2.0, None, has_exception_predicate)
    assert [strategy.get_backoff_time_millis(n) for n in range(1, 6)] == [10, 20, 40, 50, 50]
    assert [strategy.can_retry(n) for n in (1, 6, 7)] == [True, True, False]
    with Harness(step(Failing(), retry=strategy)) as harness:
        harness.push(("a", 3, OSError))
        harness.advance(69)
        assert harness.take() == []
        harness.advance(1)
        assert harness.take() == ["a"]


class Counting(AsyncFunction[Any, Any]):
    """Says how many requests were under way when this one began."""

    def __init__(self) -> None:
        self.running = 0

    async def async_invoke(self, value: Any) -> list[Any]:
        self.running += 1
        seen = self.running
        await asyncio.sleep(value / 1000)
        self.running -= 1
        return [seen]


@pytest.mark.parametrize("mode", Mode)
def test_capacity_bounds_what_is_under_way_and_then_input_waits(mode: Mode) -> None:
    with Harness(step(Counting(), mode, capacity=3)) as harness:
        operator = harness._stages[0].trial.operators[0]
        assert operator.room() == 3
        harness.push(*[10] * 10)
        assert operator.room() < 0
        harness.advance(100)
        assert operator.room() == 3 and operator.is_drained()
        assert max(harness.take()) == 3


def test_in_order_an_answer_that_waits_for_its_turn_counts_as_under_way() -> None:
    with Harness(step(Counting(), capacity=2)) as harness:
        harness.push(100, 10, 10)
        harness.advance(50)
        assert harness._stages[0].trial.operators[0].room() < 0
        harness.advance(150)
        assert harness.take() == [1, 2, 1]


def many() -> Iterator[Any]:
    for n in range(12):
        yield Record((f"r{n}", n * 37 % 50), n)
        if n % 4 == 3:
            yield WatermarkTo(n)
        if n % 3 == 2:
            yield ProcessingTimeTo(n * 10)
    yield EndOfInput()


def test_requests_under_way_are_in_the_snapshot_and_made_again() -> None:
    names = verify(step(Ask(), capacity=4)).input(many()).expect([Record(f"r{n}", n) for n in range(12)])
    assert "restored after every item" in names


def test_a_snapshot_holds_only_what_was_not_emitted() -> None:
    with Harness(step(Ask(), Mode.UNORDERED)) as harness:
        harness.push(("slow", 90), ("quick", 10))
        harness.advance(10)
        assert harness.take() == ["quick"]
        harness.restore()
        harness.advance(89)
        assert harness.take() == []
        harness.advance(1)
        assert harness.take() == ["slow"]


def test_wrong_arguments_are_refused_where_they_are_written() -> None:
    for arguments, message in [
        ((Ask, 1, 1, ONCE, Mode.ORDERED), "AsyncFunction instance"),
        ((Ask(), 1, 0, ONCE, Mode.ORDERED), "at least 1"),
        ((Ask(), 1, 1, None, Mode.ORDERED), "AsyncRetryStrategy"),
    ]:
        with pytest.raises(ConfigError, match=message):
            AsyncFunctionDescriptor(*arguments)
    with pytest.raises(ConfigError, match="at least one further attempt"):
        AsyncRetryStrategy.fixed_delay(0, 1, None, None)
    with pytest.raises(ConfigError, match="multiplier"):
        AsyncRetryStrategy.exponential_backoff(1, 1, 1, 0.5, None, None)
