"""Functions that return what is not wanted, fields that are not there: the message says which and what."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pandas
import pytest
from local_jobs import environment

from penstock.common import Row, Time
from penstock.core.errors import ConfigError, JobFailedError, TypeMismatchError, UserCodeError
from penstock.datastream import AsyncDataStream, AsyncFunction
from penstock.datastream import functions as f
from penstock.testing.local import local_cluster
from tests.patience import PATIENCE_S


def returning(kind: type, **methods: Any) -> Any:
    return type("Wrong", (kind,), methods)()


def one(*_: Any) -> Any:
    return 7


def pair(value: int) -> tuple[int, int]:
    return value % 2, 1


STEPS: dict[str, Callable[[Any], Any]] = {
    "flat_map": lambda s: s.flat_map(lambda v: 7),
    "keyed flat_map": lambda s: s.key_by(lambda v: v).flat_map(lambda v: 7),
    "process": lambda s: s.process(returning(f.ProcessFunction, process_element=one)),
    "keyed process": lambda s: s.key_by(lambda v: v).process(
        returning(f.KeyedProcessFunction, process_element=one)
    ),
    "co flat_map": lambda s: s.connect(s).flat_map(
        returning(f.CoFlatMapFunction, flat_map1=one, flat_map2=one)
    ),
    "co process": lambda s: s.connect(s).process(
        returning(f.CoProcessFunction, process_element1=one, process_element2=one)
    ),
    "window process": lambda s: (
        s.key_by(lambda v: 0).count_window(2).process(returning(f.ProcessWindowFunction, process=one))
    ),
    "window apply": lambda s: (
        s.key_by(lambda v: 0).count_window(2).apply(returning(f.WindowFunction, apply=one))
    ),
}


def failure(build: Callable[[Any], Any]) -> tuple[Exception | None, str]:
    env = environment(None, restart_strategy__type="none").set_parallelism(1)
    build(env.from_collection([0, 1, 2, 3])).name("culprit").print()
    with local_cluster(), pytest.raises(JobFailedError) as raised:
        env.execute("wrong")
    return raised.value.cause, str(raised.value)


@pytest.mark.parametrize("step", STEPS)
def test_one_thing_where_many_are_wanted(step: str) -> None:
    cause, told = failure(STEPS[step])
    assert isinstance(cause, TypeMismatchError)
    assert "step 'culprit'" in told and "returned one int" in told and "return a list of them" in told
    assert "the record is" in told and "Traceback" not in told


def test_a_type_error_of_the_function_itself_stays_what_it_is() -> None:
    def wrong(value: int) -> Any:
        yield from value  # type: ignore[misc]

    def broken(value: int) -> Any:
        return list(value)  # type: ignore[call-overload]

    for function in (wrong, broken):
        cause, told = failure(lambda s, function=function: s.flat_map(function))
        assert isinstance(cause, UserCodeError) and "'int' object is not iterable" in told
        assert f"in {function.__name__}" in told


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (
            lambda s: s.map(pair).key_by("amount").map(str),
            ["field 'amount'", "tuple of 2 fields without names", "ROW_NAMED"],
        ),
        (
            lambda s: s.map(lambda v: {"k": v}).key_by("amount").map(str),
            ["field 'amount'", "dict with the fields k"],
        ),
        (
            lambda s: s.map(lambda v: Row(k=v)).key_by("amount").map(str),
            ["field 'amount'", "Row with the fields k"],
        ),
        (
            lambda s: s.map(pair).key_by(lambda v: 0).sum("amount"),
            ["field 'amount'", "a tuple", "position"],
        ),
        (
            lambda s: s.map(lambda v: Row(0, v)).key_by(lambda v: 0).max("amount"),
            ["'amount'", "Row of 2 fields"],
        ),
        (
            lambda s: s.map(pair).key_by(lambda v: 0).min_by(5),
            ["field 5", "tuple of 2 fields"],
        ),
    ],
)
def test_a_field_that_is_not_there(build: Callable[[Any], Any], words: list[str]) -> None:
    _, told = failure(build)
    for word in words:
        assert word in told
    assert "Traceback" not in told and "subtask" in told


def test_a_property_that_fails_is_not_a_missing_field() -> None:
    class Odd:
        @property
        def amount(self) -> int:
            raise AttributeError("not computed yet")

    _, told = failure(lambda s: s.map(lambda v: Odd()).key_by("amount").map(str))
    assert "not computed yet" in told and "was asked for" not in told


async def answers_one(self: Any, value: int) -> Any:
    return 7


async def yields(self: Any, value: int) -> Any:
    yield value


async def never(self: Any, value: int) -> Any:
    await asyncio.sleep(PATIENCE_S)


def asking(**methods: Any) -> Callable[[Any], Any]:
    function = returning(AsyncFunction, **methods)
    return lambda s: AsyncDataStream.unordered_wait(s, function, Time.milliseconds(50))


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (asking(async_invoke=answers_one), "should be of list type, but is int"),
        (asking(async_invoke=lambda self, value: [value]), "async_invoke of Wrong is no coroutine"),
        (asking(async_invoke=yields), "async_invoke of Wrong yields"),
        (asking(async_invoke=never, timeout=one), "should be of list type, but is int"),
        (asking(async_invoke=never, timeout=answers_one), "write timeout with 'def'"),
    ],
)
def test_an_async_function_that_gives_no_list(step: Callable[[Any], Any], words: str) -> None:
    _, told = failure(step)
    assert "step 'culprit'" in told and words in told and "(the record is " in told
    assert "Traceback" not in told


async def fetch(value: Any) -> Any:
    return value


@pytest.mark.parametrize(
    ("format", "function", "words"),
    [
        ("arrow", one, "got a int from its function; return a pyarrow.RecordBatch or Table"),
        ("arrow", fetch, "got a coroutine"),
        ("arrow", lambda batch: iter([7]), "got a int"),
        ("rows", tuple, "return a list, None"),
        ("pandas", lambda frame: frame["f0"], "got a Series from its function; return a pandas.DataFrame"),
        ("pandas", lambda frame: pandas.DataFrame([[1, 2]], columns=["a", "a"]), "each column its own name"),
        ("pandas", lambda frame: pandas.DataFrame({"a": [1, "x"]}), "Could not convert 'x'"),
    ],
)
def test_map_batches_that_gives_something_else(format: str, function: Any, words: str) -> None:
    _, told = failure(lambda s: s.map_batches(function, format=format))
    assert "step 'culprit'" in told and words in told and "Traceback" not in told


@pytest.mark.parametrize("method", ["map", "filter", "flat_map"])
def test_an_async_def_where_nothing_awaits_is_refused_at_once(method: str) -> None:
    """A coroutine is true: as a filter it would have let everything pass."""
    stream = environment(None).from_collection([1])
    with pytest.raises(ConfigError, match=r"fetch is an 'async def'.*AsyncFunction"):
        getattr(stream, method)(fetch)
