"""Programs as a whole: several jobs, restarts, BATCH mode, plans, what a client can do."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from compat_rig import environment, results, stream, timed

from penstock.common import CompletableFuture, JobStatus, Types, WatermarkStrategy
from penstock.core.errors import GraphError
from penstock.datastream import DataStream, MapFunction, RuntimeContext, RuntimeExecutionMode
from penstock.datastream.connectors.data_gen import DataGeneratorSource
from penstock.datastream.window import TumblingEventTimeWindows
from penstock.testing.harness import Harness
from penstock.testing.local import local_cluster

NO_TIME = WatermarkStrategy.no_watermarks()
WORDS = "to be or not to be".split()


@pytest.fixture(autouse=True)
def _cluster() -> Iterator[None]:
    with local_cluster(slots=2):
        yield


# --- running aggregates survive -----------------------------------------------------------------


def reduced(ds: DataStream) -> DataStream:
    return ds.key_by(lambda v: v[0]).reduce(lambda a, b: (a[0], a[1] + b[1]))


def summed(ds: DataStream) -> DataStream:
    return ds.key_by(lambda v: v[0]).sum(1)


def largest(ds: DataStream) -> DataStream:
    return ds.key_by(lambda v: v[0]).max_by(1)


@pytest.mark.parametrize(
    ("program", "last"), [(reduced, 6), (summed, 6), (largest, 3)], ids=["reduce", "sum", "max_by"]
)
def test_running_aggregates_go_on_after_a_restore(program: Any, last: int) -> None:
    with Harness(program) as harness:
        harness.push(("a", 1), ("a", 3))
        harness.take()
        harness.restore(harness.snapshot())
        harness.push(("a", 2))
        assert harness.take() == [("a", last)]


# --- several jobs -------------------------------------------------------------------------------


def test_one_program_runs_several_jobs_from_one_stream(capsys: pytest.CaptureFixture[str]) -> None:
    env = environment()
    numbers = env.from_collection([1, 2, 3])
    numbers.map(lambda n: n * 10).print()
    env.execute("first")
    numbers.filter(lambda n: n > 2).print()
    env.execute("second")
    assert capsys.readouterr().out.split() == ["10", "20", "30", "3"]


def test_a_later_job_has_the_same_identities_as_if_it_were_the_first() -> None:
    def build(jobs_before: int) -> list[Any]:
        env = environment()
        source = env.from_collection([1])
        for _ in range(jobs_before):
            source.print()
            env.execute()
        source.map(str).print()
        return [(node.id, node.name, [link.source for link in node.links]) for node in env.graph.nodes]

    assert build(0) == build(2)


def test_a_cached_stream_is_read_by_several_jobs() -> None:
    cached = stream([1, 2]).map(lambda n: n + 1).cache()
    assert results(cached) == results(cached) == [2, 3]
    cached.invalidate()
    assert results(cached.map(str)) == ["2", "3"]


def test_execute_async_gives_a_client_with_futures() -> None:
    env = environment()
    source = DataGeneratorSource(lambda index: index, None, 1000)
    env.from_source(source, NO_TIME, "endless").map(str).print()
    client = env.execute_async("client")
    assert client.get_job_id() is not None
    assert isinstance(client.get_job_status(), CompletableFuture)
    client.cancel().result()
    assert client.get_job_status().result() is JobStatus.CANCELED


class Subtask(MapFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.index = runtime_context.get_index_of_this_subtask()

    def map(self, value: Any) -> int:
        return self.index


def test_a_collection_is_read_by_one_subtask_and_dealt_to_all_of_the_next() -> None:
    numbers = environment(2).from_collection(range(10))
    assert Counter(results(numbers.map(Subtask()))) == {0: 5, 1: 5}


# --- plans --------------------------------------------------------------------------------------


def test_the_execution_plan_is_flinks_json() -> None:
    env = environment(2)
    numbers = env.from_collection([1]).map(str).name("text")
    numbers.key_by(len).reduce(lambda a, b: a + b).rebalance().map(str).print()
    nodes = json.loads(env.get_execution_plan())["nodes"]
    assert [node["pact"] for node in nodes][0] == "Data Source"
    assert [node["pact"] for node in nodes][-1] == "Data Sink"
    assert {"id", "type", "pact", "contents", "parallelism"} <= set(nodes[0])
    strategies = [p["ship_strategy"] for node in nodes for p in node.get("predecessors", ())]
    assert strategies == ["REBALANCE", "HASH", "REBALANCE", "FORWARD"]
    assert all(
        {"id", "ship_strategy", "side"} <= set(p) for node in nodes for p in node.get("predecessors", ())
    )


# --- BATCH mode ---------------------------------------------------------------------------------


def counts(**settings: str) -> list[Any]:
    pairs = stream(WORDS, **settings).map(lambda w: (w, 1), Types.TUPLE([Types.STRING(), Types.INT()]))
    return results(pairs.key_by(lambda v: v[0]).reduce(lambda a, b: (a[0], a[1] + b[1])))


def test_batch_mode_gives_the_final_result_of_each_key_once() -> None:
    assert len(counts()) == len(WORDS)
    batch = counts(execution__runtime_mode="BATCH")
    assert sorted(batch) == [("be", 2), ("not", 1), ("or", 1), ("to", 2)]


def test_batch_mode_has_no_late_records_because_time_stands_still_until_the_end() -> None:
    values = [("a", 90), ("a", 1)]
    windowed = timed(values, execution__runtime_mode="BATCH").key_by(lambda v: v[0])
    found = windowed.window(TumblingEventTimeWindows.of(10)).reduce(lambda a, b: a)
    assert sorted(results(found)) == [("a", 1), ("a", 90)]


def test_batch_mode_refuses_sources_that_do_not_end() -> None:
    batch = environment().set_runtime_mode(RuntimeExecutionMode.BATCH)
    endless = DataGeneratorSource(lambda index: index, None, 1000)
    with pytest.raises(GraphError, match="needs sources that end.*'Source: endless'"):
        results(batch.from_source(endless, NO_TIME, "endless"))
