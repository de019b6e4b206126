"""Functions that change their records in place: nobody else sees it, unless object reuse is on."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from local_jobs import environment, number_stream, until, wait_for_snapshots

from penstock.common import Types, WatermarkStrategy
from penstock.common.time import Time
from penstock.datastream import (
    AsyncDataStream,
    AsyncFunction,
    AsyncRetryStrategy,
    BroadcastProcessFunction,
    KeyedProcessFunction,
    OutputTag,
    ProcessFunction,
    ProcessWindowFunction,
)
from penstock.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from penstock.datastream.window import SlidingEventTimeWindows, TumblingEventTimeWindows
from penstock.testing.local import local_cluster

Words = dict[str, Any]
BACKENDS = ["hashmap", "rocksdb"]


def rows(count: int = 4) -> list[Words]:
    return [{"n": i, "seen": []} for i in range(count)]


def mark(word: str) -> Any:
    """A function that notes in the record that it has seen it, as careless ones do."""

    def note(row: Words) -> Words:
        row["seen"].append(word)
        return row

    return note


def both(env: Any, left: Any, right: Any) -> list[tuple[int, tuple[str, ...]]]:
    """What two branches end with."""
    union = left.union(right).map(lambda row: (row["n"], tuple(row["seen"])))
    return sorted(union.execute_and_collect())


def env_of(parallelism: int = 1, **settings: str) -> Any:
    return environment(**settings).set_parallelism(parallelism)


EXPECTED = sorted((i, (word,)) for i in range(4) for word in ("left", "right"))


@pytest.mark.parametrize("rebalanced", [False, True], ids=["chained", "exchanged"])
@pytest.mark.parametrize("parallelism", [1, 2])
def test_no_branch_sees_what_another_does_to_a_record(rebalanced: bool, parallelism: int) -> None:
    with local_cluster(2):
        env = env_of(parallelism)
        stream = env.from_collection(rows())
        left = stream.rebalance() if rebalanced else stream
        assert both(env, left.map(mark("left")), stream.map(mark("right"))) == EXPECTED


def test_object_reuse_lets_branches_share_their_records() -> None:
    with local_cluster(1):
        env = env_of()
        env.get_config().enable_object_reuse()
        stream = env.from_collection(rows())
        found = both(env, stream.map(mark("left")), stream.map(mark("right")))
    assert found != EXPECTED, "copies were made although object reuse is on"


def test_a_sink_keeps_what_it_got_while_a_branch_goes_on() -> None:
    with local_cluster(1):
        env = env_of()
        stream = env.from_collection(rows(2)).map(mark("before"))
        kept = stream.execute_and_collect()
        stream.map(mark("behind")).print()
        assert [row["seen"] for row in kept] == [["before"], ["before"]]


def test_a_side_output_does_not_share_its_record_with_the_main_one() -> None:
    tag = OutputTag("side")

    class Twice(ProcessFunction):
        def process_element(self, value: Words, ctx: Any) -> Iterable[Any]:
            yield value
            yield tag, value

    with local_cluster(1):
        env = env_of()
        stream = env.from_collection(rows()).process(Twice())
        side = stream.get_side_output(tag).map(mark("right"))
        assert both(env, stream.map(mark("left")), side) == EXPECTED


def test_every_receiver_of_a_broadcast_has_its_own_record() -> None:
    with local_cluster(2):
        env = env_of()
        stream = env.from_collection(rows(1)).broadcast().map(mark("x")).set_parallelism(2)
        found = list(stream.execute_and_collect())
    assert [row["seen"] for row in found] == [["x"], ["x"]]


def test_the_programs_own_list_stays_as_it_is(tmp_path: Path) -> None:
    """The source reads its values again after a restart: they must not have been changed meanwhile."""
    failed = tmp_path / "failed"

    def fail_once(row: Words) -> Words:
        if row["n"] == 3 and not failed.exists():
            failed.touch()
            raise OSError("the first time it fails")
        return row

    mine = rows()
    with local_cluster(1):
        env = env_of()
        stream = env.from_collection(mine).map(mark("x")).map(fail_once)
        found = list(stream.execute_and_collect())
    assert [row["seen"] for row in found][-4:] == [["x"]] * 4
    assert mine == rows()


# --- state --------------------------------------------------------------------------------------


class KeepsInput(KeyedProcessFunction):
    """Puts its input into state of each kind, then hands it on to somebody who changes it."""

    def open(self, runtime_context: Any) -> None:
        self.first = runtime_context.get_state(ValueStateDescriptor("first", Types.PICKLED_BYTE_ARRAY()))
        self.all = runtime_context.get_list_state(ListStateDescriptor("all", Types.PICKLED_BYTE_ARRAY()))
        self.last = runtime_context.get_map_state(
            MapStateDescriptor("last", Types.STRING(), Types.PICKLED_BYTE_ARRAY())
        )
        self.reduced = runtime_context.get_reducing_state(
            ReducingStateDescriptor("reduced", lambda a, b: a, Types.PICKLED_BYTE_ARRAY())
        )

    def process_element(self, value: Words, ctx: Any) -> Iterable[Any]:
        if self.first.value() is None:
            self.first.update(value)
        self.all.add(value)
        self.last.put("row", value)
        self.reduced.add(value)
        value["seen"].append("after")
        yield value
        held = [self.first.value(), *self.all.get(), self.last.get("row"), self.reduced.get()]
        assert all(row["seen"] == [] for row in held), held
        yield from held


@pytest.mark.parametrize("backend", BACKENDS)
def test_state_keeps_what_was_stored(backend: str) -> None:
    with local_cluster(1):
        env = env_of(state__backend__type=backend)
        stream = env.from_collection(rows(3)).key_by(lambda row: 0)
        found = list(stream.process(KeepsInput()).map(mark("behind")).execute_and_collect())
    assert {tuple(row["seen"]) for row in found} == {("after", "behind"), ("behind",)}


class Counts(KeyedProcessFunction):
    """The usual way: read, change, write back, emit."""

    def open(self, runtime_context: Any) -> None:
        self.state = runtime_context.get_state(ValueStateDescriptor("counts", Types.PICKLED_BYTE_ARRAY()))

    def process_element(self, value: Words, ctx: Any) -> Iterable[Any]:
        counts = self.state.value() or {"n": 0, "seen": []}
        counts["n"] += 1
        self.state.update(counts)
        yield counts


@pytest.mark.parametrize("backend", BACKENDS)
def test_emitted_state_is_as_it_was_when_it_was_emitted(backend: str) -> None:
    with local_cluster(1):
        env = env_of(state__backend__type=backend)
        counted = env.from_collection(rows()).key_by(lambda row: 0).process(Counts()).map(mark("x"))
        found = [(row["n"], row["seen"]) for row in counted.execute_and_collect()]
    assert found == [(n, ["x"]) for n in (1, 2, 3, 4)]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_running_reduction_that_changes_its_first_argument(backend: str) -> None:
    def add(a: Words, b: Words) -> Words:
        a["n"] += b["n"]
        return a

    with local_cluster(1):
        env = env_of(state__backend__type=backend)
        stream = env.from_collection(rows()).key_by(lambda row: 0).reduce(add).map(mark("x"))
        found = [(row["n"], row["seen"]) for row in stream.execute_and_collect()]
    assert found == [(n, ["x"]) for n in (0, 1, 3, 6)]


class Rules(BroadcastProcessFunction):
    rules = MapStateDescriptor("rules", Types.STRING(), Types.PICKLED_BYTE_ARRAY())

    def process_element(self, value: Words, ctx: Any) -> Iterable[Any]:
        rule = ctx.get_broadcast_state(self.rules).get("rule")
        if rule is not None:
            yield rule

    def process_broadcast_element(self, value: Words, ctx: Any) -> Iterable[Any]:
        ctx.get_broadcast_state(self.rules).put("rule", value)
        value["seen"].append("after")
        yield from ()


def test_broadcast_state_keeps_what_was_stored() -> None:
    with local_cluster(1):
        env = env_of()
        rules = env.from_collection(rows(1)).broadcast(Rules.rules)
        slow = number_behind(env)
        joined = slow.connect(rules).process(Rules()).map(mark("x"))
        found = [row["seen"] for row in joined.execute_and_collect()]
    assert found and all(seen == ["x"] for seen in found)


def number_behind(env: Any) -> Any:
    """Records that come after those of a collection."""
    return number_stream(env, 60, 1, rate=200.0)


# --- windows ------------------------------------------------------------------------------------


def timed(env: Any, count: int = 4) -> Any:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(ByNumber())
    return env.from_collection(rows(count)).assign_timestamps_and_watermarks(strategy)


class ByNumber:
    def extract_timestamp(self, value: Words, record_timestamp: int) -> int:
        return int(value["n"]) * 1000


class All(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Iterable[Words]) -> Iterable[Any]:
        for element in elements:
            element["seen"].append("w")
            yield element


def test_overlapping_windows_do_not_share_their_elements() -> None:
    with local_cluster(1):
        env = env_of()
        windows = SlidingEventTimeWindows.of(Time.seconds(2), Time.seconds(1))
        stream = timed(env).key_by(lambda row: 0).window(windows).process(All())
        found = [row["seen"] for row in stream.execute_and_collect()]
    assert found == [["w"]] * 8


def test_overlapping_windows_that_reduce_in_place() -> None:
    def add(a: Words, b: Words) -> Words:
        a["n"] += b["n"]
        return a

    with local_cluster(1):
        env = env_of()
        windows = SlidingEventTimeWindows.of(Time.seconds(2), Time.seconds(1))
        stream = timed(env).key_by(lambda row: 0).window(windows).reduce(add)
        found = [row["n"] for row in stream.execute_and_collect()]
    assert found == [0, 1, 3, 5, 3]


def test_a_window_that_fires_again_has_its_elements_as_they_came() -> None:
    from penstock.datastream.window import CountTrigger

    with local_cluster(1):
        env = env_of()
        windows = TumblingEventTimeWindows.of(Time.seconds(10))
        stream = timed(env).key_by(lambda row: 0).window(windows).trigger(CountTrigger.of(1)).process(All())
        found = [row["seen"] for row in stream.execute_and_collect()]
    assert found == [["w"]] * 10


# --- asynchronous I/O ---------------------------------------------------------------------------


class Careless(AsyncFunction[Words, Words]):
    """Changes its input first, and then waits for a file to appear."""

    def __init__(self, gate: Path) -> None:
        self.gate = gate

    async def async_invoke(self, value: Words) -> list[Words]:
        value["n"] += 1000
        value["seen"].append("asked")
        while not self.gate.exists():
            await asyncio.sleep(0.001)
        return [value]


@pytest.mark.parametrize("reuse", ["false", "true"], ids=["copying", "reusing"])
def test_requests_under_way_are_stored_as_they_came_in(reuse: str, tmp_path: Path) -> None:
    """Snapshots are taken while the function has changed the record; then it is asked about it again."""
    gate = tmp_path / "gate"
    with local_cluster(1) as launcher:
        env = environment(tmp_path / "chk", pipeline__object_reuse=reuse).set_parallelism(1)
        stream = number_stream(env, 20, 1).map(lambda i: {"n": i, "seen": []})
        answers = AsyncDataStream.unordered_wait(stream, Careless(gate), 60_000, 50)
        found = answers.map(lambda row: (row["n"], *row["seen"])).execute_and_collect()
        wait_for_snapshots(launcher, 3)
        launcher.clusters[-1].kill(0)
        until(lambda: launcher.jobs[-1].driver.restarts > 0, "the job restarts")
        wait_for_snapshots(launcher, 3)
        gate.touch()
        assert sorted(found) == [(1000 + i, "asked") for i in range(20)]


class AskTwice(AsyncFunction[Words, Words]):
    """Changes its input and then fails, the first time."""

    def __init__(self) -> None:
        self.asked: set[int] = set()

    async def async_invoke(self, value: Words) -> list[Words]:
        number = value["n"]
        value["seen"].append("asked")
        if number not in self.asked:
            self.asked.add(number)
            raise OSError("the first time it fails")
        return [value]


def test_a_retry_gets_the_record_as_it_came_in() -> None:
    again = AsyncRetryStrategy.fixed_delay(3, 1, None, lambda error: True)
    with local_cluster(1):
        stream = AsyncDataStream.ordered_wait_with_retry(
            env_of().from_collection(rows()), AskTwice(), 60_000, again, 10
        )
        assert [row["seen"] for row in stream.execute_and_collect()] == [["asked"]] * 4


class Cached(AsyncFunction[Words, Words]):
    """Gives the same result for all records."""

    def __init__(self) -> None:
        self.result = {"n": 0, "seen": []}
        self.results: list[Words] = []

    async def async_invoke(self, value: Words) -> list[Words]:
        self.results[:] = [self.result]
        return self.results


def test_a_result_that_the_function_keeps_is_not_changed_behind_its_back() -> None:
    with local_cluster(1):
        stream = AsyncDataStream.ordered_wait(env_of().from_collection(rows()), Cached(), 60_000, 10)
        found = list(stream.map(mark("x")).execute_and_collect())
    assert [row["seen"] for row in found] == [["x"]] * 4
