"""Streams joined with other systems and with tables, in whole jobs."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from penstock.common import Row, WatermarkStrategy
from penstock.connectors.combinators import table_versions as tables
from penstock.connectors.combinators.table_versions import ReloadedTableSource, TableVersion, rows_of
from penstock.core.batch import Batch
from penstock.core.clock import ManualClock
from penstock.core.errors import ConfigError
from penstock.datastream import RuntimeContext, StreamExecutionEnvironment
from penstock.datastream.connectors.number_seq import NumberSequenceSource
from penstock.datastream.enrichment import (
    LookupCache,
    LookupFunction,
    ReloadedTable,
    StaticTable,
    lookup_join,
    table_join,
)
from penstock.operators.async_io.functions import AsyncFunctionDescriptor, AsyncRetryStrategy
from penstock.operators.async_io.lookup import LookupJoin
from penstock.operators.async_io.operator import AsyncWaitOperator
from penstock.operators.join.functions import JoinKind
from penstock.operators.join.table import TableJoinOperator
from penstock.testing import Harness
from penstock.testing.local import local_cluster

USERS = [{"id": 1, "name": "ann"}, {"id": 2, "name": "bob"}, {"id": 2, "name": "bert"}]


def orders() -> Any:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    return env.from_collection([("o1", 1), ("o2", 2), ("o3", 3)])


def named(order: Any, user: Any) -> Any:
    return (order[0], user and user["name"])


INNER = [("o1", "ann"), ("o2", "bert"), ("o2", "bob")]


def test_static_tables_of_all_kinds() -> None:
    frames = [USERS, pa.Table.from_pylist(USERS), pd.DataFrame(USERS), [Row(**user) for user in USERS]]
    for frame in frames:
        with local_cluster(2):
            joined = table_join(orders(), StaticTable(frame, "id"), lambda order: order[1], named)
            assert sorted(joined.execute_and_collect()) == INNER
    with local_cluster(2):
        joined = table_join(orders(), StaticTable(USERS, lambda row: row["id"]), 1, named, how="left")
        assert sorted(joined.execute_and_collect(), key=repr) == [*INNER, ("o3", None)]


def test_what_is_no_table_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="cannot read int as a table"):
        StaticTable(5, "id")
    with pytest.raises(ConfigError, match="not every 0 ms"):
        ReloadedTable(list, "id", 0)
    with pytest.raises(ConfigError, match="one of 'inner', 'left'"):
        table_join(orders(), StaticTable([], "id"), 1, named, how="full")
    monkeypatch.setattr(tables, "MAX_ROWS", 2)
    with pytest.raises(ConfigError, match="more than 2 rows"):
        rows_of(USERS)


def test_versions_are_loaded_on_the_driver_and_not_twice() -> None:
    clock, loads = ManualClock(5), []

    def load() -> list[int]:
        loads.append(clock.now_ms())
        return [len(loads)]

    source = ReloadedTableSource(load, 100, clock)
    assert source.load().rows() == [1]
    enumerator = source.create_enumerator(1)
    assert list(enumerator.discover()) == []
    clock.advance(100)
    (split,) = enumerator.discover()
    reader = source.open_split(split, None, clock)
    assert reader.poll(10).to_rows() == [split.info] and split.info.rows() == [2]  # type: ignore[union-attr]
    again = source.create_enumerator(1)
    again.restore(enumerator.snapshot())
    (later,) = again.discover()
    assert later.info.rows() == [3]
    assert loads == [5, 105, 105]


def test_a_table_is_replaced_while_the_job_runs() -> None:
    published = 1

    def load() -> list[Any]:
        return [("all", published)]

    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    endless = env.from_source(
        NumberSequenceSource(0, 1 << 40), WatermarkStrategy.for_monotonous_timestamps(), "numbers"
    )
    slow = endless.map(lambda i: ("all", threading.Event().wait(0.002)))
    with local_cluster(2):
        table = ReloadedTable(load, 0, "50 ms")
        joined = table_join(slow, table, 0, lambda _, row: row[1])
        seen: list[int] = []
        with joined.execute_and_collect() as results:
            for number in results:
                if not seen or number > seen[-1]:
                    seen.append(number)
                    # The next table exists only once this one was read: no pace of the job skips one.
                    published = number + 1
                if len(seen) == 4:
                    break
    assert seen == [1, 2, 3, 4]


def test_the_newest_version_survives_a_restore() -> None:
    def make() -> TableJoinOperator:
        return TableJoinOperator(
            named, lambda o: o[1], lambda r: r["id"], JoinKind.LEFT, TableVersion.of(USERS, 10)
        )

    with Harness(make) as harness:
        harness.push(("o1", 1))
        operator = harness._stages[0].trial.operators[0]
        operator.process(Batch.of_rows([TableVersion.of([{"id": 1, "name": "zoe"}], 20)]), 1)
        operator.process(Batch.of_rows([TableVersion.of([], 15)]), 1)
        harness.push(("o2", 1), ("o3", 2))
        harness.restore()
        harness.push(("o4", 1))
        assert harness.take() == [("o1", "ann"), ("o2", "zoe"), ("o3", None), ("o4", "zoe")]


class Service(LookupFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.asked: Counter[int] = Counter()

    async def lookup(self, key: int) -> Any:
        self.asked[key] += 1
        await asyncio.sleep(0.01)
        return [user for user in USERS if user["id"] == key]


async def one_user(key: int) -> Any:
    return next((user for user in USERS if user["id"] == key), None)


def blocking(key: int) -> Any:
    return [user for user in USERS if user["id"] == key]


def test_lookup_joins() -> None:
    with local_cluster(2):
        assert sorted(lookup_join(orders(), Service(), 1, named).execute_and_collect()) == INNER
        assert sorted(lookup_join(orders(), blocking, 1, named).execute_and_collect()) == INNER
        left = lookup_join(orders(), one_user, 1, named, "left", timeout=1000, capacity=1)
        assert sorted(left.execute_and_collect(), key=repr) == [("o1", "ann"), ("o2", "bob"), ("o3", None)]


def test_equal_questions_are_asked_once_and_answers_kept_for_a_while() -> None:
    service = Service()
    join = LookupJoin(service, lambda order: order[1], named, JoinKind.INNER, LookupCache(1, "1 s"))
    mode = AsyncFunctionDescriptor.OutputMode.ORDERED
    descriptor = AsyncFunctionDescriptor(join, 5000, 10, AsyncRetryStrategy.no_restart(), mode)
    with Harness(AsyncWaitOperator(descriptor)) as harness:
        operator: Any = harness._stages[0].trial.operators[0]
        asked = operator._user._user[0].asked
        harness.push(("o1", 1), ("o2", 1))
        harness.advance(10)
        assert harness.take() == [("o1", "ann"), ("o2", "ann")] and asked == {1: 1}
        harness.push(("o3", 1))
        harness.advance(0)
        assert harness.take() == [("o3", "ann")] and asked == {1: 1}
        harness.advance(1000)
        harness.push(("o4", 1))
        harness.advance(10)
        assert asked == {1: 2}
        harness.push(("o5", 2), ("o6", 1))
        harness.advance(20)
        assert asked == {1: 2, 2: 1}, "the answer was there when the question about another key was asked"
        harness.push(("o7", 1))
        harness.advance(10)
        assert asked == {1: 3, 2: 1}, "room for one key only"
