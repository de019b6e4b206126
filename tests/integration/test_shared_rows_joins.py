"""Joins, patterns, lookups and BATCH mode: records that meet several others are each pair's own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from local_jobs import environment

from penstock.cep import CEP, Pattern, PatternProcessFunction
from penstock.common import Types, WatermarkStrategy
from penstock.common.time import Time
from penstock.datastream import KeyedProcessFunction
from penstock.datastream.enrichment import lookup_join
from penstock.datastream.state import StateTtlConfig, ValueStateDescriptor
from penstock.datastream.window import TumblingEventTimeWindows
from penstock.testing.local import local_cluster

Words = dict[str, Any]


class ByNumber:
    def extract_timestamp(self, value: Words, record_timestamp: int) -> int:
        return int(value["n"])


def env_of(**settings: str) -> Any:
    return environment(**settings).set_parallelism(1)


def timed(env: Any, count: int) -> Any:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(ByNumber())
    rows = [{"n": i, "seen": []} for i in range(count)]
    return env.from_collection(rows).assign_timestamps_and_watermarks(strategy)


def mark(row: Words) -> Words:
    row["seen"].append("x")
    return row


def mark_both(pair: Any) -> list[Any]:
    return [mark(pair[0])["seen"], mark(pair[1])["seen"]]


def zero(row: Words) -> int:
    return 0


ONCE = [["x"], ["x"]]


def test_interval_join() -> None:
    with local_cluster(1):
        env = env_of()
        left, right = timed(env, 3).key_by(zero), timed(env, 3).key_by(zero)
        joined = left.interval_join(right).between(Time.milliseconds(-5), Time.milliseconds(5))
        found = list(joined.process(lambda a, b: (a, b)).map(mark_both).execute_and_collect())
    assert found == [ONCE] * 9


def test_window_join() -> None:
    with local_cluster(1):
        env = env_of()
        joined = timed(env, 3).join(timed(env, 3)).where(zero).equal_to(zero)
        pairs = joined.window(TumblingEventTimeWindows.of(Time.seconds(1))).apply(lambda a, b: (a, b))
        found = list(pairs.map(mark_both).execute_and_collect())
    assert found == [ONCE] * 9


class Emit(PatternProcessFunction):
    def process_match(self, match: dict[str, list[Words]], ctx: Any) -> Iterable[Any]:
        yield match["first"][0], match["second"][0]


def test_matches_that_share_an_event() -> None:
    with local_cluster(1):
        env = env_of()
        pattern = Pattern.begin("first").followed_by_any("second")
        stream = CEP.pattern(timed(env, 4).key_by(zero), pattern).process(Emit())
        found = list(stream.map(mark_both).execute_and_collect())
    assert found == [ONCE] * 6


class Expiring(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        descriptor = ValueStateDescriptor("counts", Types.PICKLED_BYTE_ARRAY())
        descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.hours(1)).build())
        self.counts = runtime_context.get_state(descriptor)
        self.rows = runtime_context.get_operator_list_state("rows")

    def process_element(self, value: Words, ctx: Any) -> Iterable[Any]:
        counts = self.counts.value() or {"n": 0, "seen": []}
        counts["n"] += 1
        self.counts.update(counts)
        self.rows.add(value)
        yield counts
        yield value
        assert all(row["seen"] == [] for row in self.rows.get())


@pytest.mark.parametrize("mode", ["STREAMING", "BATCH"])
@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_state_with_a_lifetime_and_operator_state(mode: str, backend: str) -> None:
    with local_cluster(1):
        env = env_of(execution__runtime_mode=mode, state__backend__type=backend)
        counted = timed(env, 3).key_by(zero).process(Expiring()).map(mark)
        found = [(row["n"], row["seen"]) for row in counted.execute_and_collect()]
    assert sorted(found) == sorted((n, ["x"]) for n in (1, 2, 3, 0, 1, 2))


@pytest.mark.parametrize("reuse", [False, True])
def test_branches_in_batch_mode(reuse: bool) -> None:
    with local_cluster(1):
        env = env_of(execution__runtime_mode="BATCH", pipeline__object_reuse=str(reuse).lower())
        stream = timed(env, 3)
        both = stream.map(mark).union(stream.map(mark)).map(lambda row: row["seen"])
        found = list(both.execute_and_collect())
    assert (found == [["x"]] * 6) is not reuse


def test_the_rows_of_a_lookup_are_each_records_own() -> None:
    with local_cluster(1):
        env = env_of()
        answer = {"n": 7, "seen": []}
        joined = lookup_join(timed(env, 3), lambda key: answer, zero, lambda a, b: (a, b))
        found = list(joined.map(mark_both).execute_and_collect())
    assert found == [ONCE] * 3
