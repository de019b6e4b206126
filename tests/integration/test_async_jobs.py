"""Asynchronous I/O in whole jobs, with a real event loop in a thread."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from pathlib import Path
from typing import Any

import pytest

from penstock.core.errors import JobFailedError
from penstock.datastream import (
    AsyncDataStream,
    AsyncFunction,
    AsyncRetryStrategy,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from penstock.testing.local import local_cluster
from tests.patience import PATIENCE_S

PATIENCE_MS = int(PATIENCE_S * 1000)


def numbers(count: int) -> Any:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    return env.from_collection(list(range(count)))


class Double(AsyncFunction[int, int]):
    async def async_invoke(self, value: int) -> list[int]:
        await asyncio.sleep(0.02)
        return [2 * value]


class Together(AsyncFunction[int, int]):
    """Answers nobody before a hundred have asked."""

    def open(self, runtime_context: Any) -> None:
        self.asked, self.enough = 0, asyncio.Event()

    async def async_invoke(self, value: int) -> list[int]:
        self.asked += 1
        if self.asked == 100:
            self.enough.set()
        await self.enough.wait()
        return [2 * value]


def test_many_requests_wait_at_the_same_time() -> None:
    with local_cluster(1):
        stream = AsyncDataStream.ordered_wait(numbers(200), Together(), 0, 100)
        assert list(stream.execute_and_collect()) == [2 * i for i in range(200)]


def test_results_come_without_new_input_and_at_the_end_of_input() -> None:
    with local_cluster(2):
        stream = AsyncDataStream.unordered_wait(numbers(10), Double(), PATIENCE_MS, 3)
        behind = stream.map(lambda i: i + 1).key_by(lambda i: i).reduce(lambda a, b: a)
        assert sorted(behind.execute_and_collect()) == [2 * i + 1 for i in range(10)]


class Fail(AsyncFunction[int, int]):
    async def async_invoke(self, value: int) -> list[int]:
        await asyncio.sleep(0)
        return [self.divide(value)]

    def divide(self, value: int) -> int:
        return 12 // (value - 3)


def test_a_failure_shows_the_record_and_the_users_traceback() -> None:
    with local_cluster(1), pytest.raises(JobFailedError) as failed:
        list(AsyncDataStream.ordered_wait(numbers(10), Fail(), PATIENCE_MS).name("ask").execute_and_collect())
    text = str(failed.value)
    assert "step 'ask' failed" in text and "record:  3" in text
    assert "return 12 // (value - 3)" in text and "ZeroDivisionError" in text
    assert "_ask_in_time" not in text


class Lookup(AsyncFunction[int, Any]):
    """Asks a database; the driver blocks, so the question goes to a thread."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._threads: set[str] = set()

    def open(self, runtime_context: RuntimeContext) -> None:
        self._threads.add(threading.current_thread().name)

    async def async_invoke(self, value: int) -> list[Any]:
        return [(value, await asyncio.to_thread(self._ask, value))]

    def _ask(self, value: int) -> Any:
        connection = sqlite3.connect(self._path)
        try:
            found = connection.execute("select name from users where id = ?", (value,)).fetchone()
        finally:
            connection.close()
        return None if found is None else found[0]


def test_blocking_clients_go_to_threads(tmp_path: Path) -> None:
    path = tmp_path / "users.db"
    connection = sqlite3.connect(path)
    connection.execute("create table users (id integer primary key, name text)")
    connection.executemany("insert into users values (?, ?)", [(i, f"user {i}") for i in range(0, 10, 2)])
    connection.commit()
    connection.close()
    with local_cluster(2):
        found = dict(
            AsyncDataStream.unordered_wait(numbers(10), Lookup(path), PATIENCE_MS).execute_and_collect()
        )
    assert found == {i: None if i % 2 else f"user {i}" for i in range(10)}


class Flaky(AsyncFunction[int, int]):
    def __init__(self) -> None:
        self._seen: set[int] = set()

    async def async_invoke(self, value: int) -> list[int]:
        if value not in self._seen:
            self._seen.add(value)
            raise ConnectionError("not yet")
        return [value]


def test_retries_in_a_job() -> None:
    strategy = AsyncRetryStrategy.exponential_backoff(3, 1, 10, 2.0, None, lambda error: True)
    with local_cluster(1):
        stream = AsyncDataStream.ordered_wait_with_retry(numbers(50), Flaky(), PATIENCE_MS, strategy, 10)
        assert list(stream.execute_and_collect()) == list(range(50))


def test_no_thread_stays_behind() -> None:
    before = set(threading.enumerate())  # slots that other tests let vanish have left theirs
    with local_cluster(1):
        list(AsyncDataStream.ordered_wait(numbers(5), Double(), PATIENCE_MS).execute_and_collect())
    mine = set(threading.enumerate()) - before
    left = [thread for thread in mine if thread.name.startswith("penstock-async")]
    for thread in left:
        thread.join(PATIENCE_S)
    assert not any(thread.is_alive() for thread in left)
