"""What programs can say, end to end on the in-process cluster: partitioning, state, time, sides."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from flow_graphs import Pace, read_text, text_file_sink
from local_jobs import (
    NO_TIME,
    collect,
    environment,
    finish,
    number_stream,
    published,
    until,
    wait_for_snapshots,
)

from penstock.columns import Count, Sum
from penstock.common import WatermarkStrategy
from penstock.datastream import (
    BroadcastProcessFunction,
    KeyedBroadcastProcessFunction,
    MapFunction,
    OutputTag,
    ProcessFunction,
    ProcessWindowFunction,
    RuntimeContext,
)
from penstock.datastream.connectors.data_gen import DataGeneratorSource
from penstock.datastream.connectors.file_system import FileSource
from penstock.datastream.state import MapStateDescriptor
from penstock.datastream.window import TumblingEventTimeWindows
from penstock.testing.local import local_cluster

MONOTONOUS = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: value[1])


@pytest.fixture(autouse=True)
def _cluster() -> Iterator[None]:
    with local_cluster(slots=3):
        yield


class WithSubtask(MapFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self._index = runtime_context.get_index_of_this_subtask()

    def map(self, value: Any) -> Any:
        return (self._index, value)


def _by_subtask(results: list[tuple[int, Any]]) -> dict[int, list[Any]]:
    found: dict[int, list[Any]] = {}
    for index, value in results:
        found.setdefault(index, []).append(value)
    return {index: sorted(values) for index, values in found.items()}


# --- partitioning ----------------------------------------------------------------------------------


@pytest.mark.parametrize("receivers", [1, 2, 3])
@pytest.mark.parametrize("senders", [1, 2, 3])
@pytest.mark.parametrize("how", ["rebalance", "rescale", "shuffle", "global_", "broadcast"])
def test_repartitioning_neither_loses_nor_invents(how: str, senders: int, receivers: int) -> None:
    numbers = number_stream(environment(), 60, senders)
    spread = getattr(numbers, how)().map(WithSubtask()).set_parallelism(receivers)
    found = _by_subtask(collect(spread))
    everything = list(range(60))
    if how == "broadcast":
        assert found == {index: everything for index in range(receivers)}
        return
    assert sorted(value for values in found.values() for value in values) == everything
    if how == "global_":
        assert set(found) == {0}
    if how == "rebalance":
        sizes = [len(values) for values in found.values()]
        assert len(sizes) == receivers and max(sizes) - min(sizes) <= senders
    if how == "rescale":
        assert len(found) == receivers


def test_custom_partitioner() -> None:
    env = environment().set_parallelism(3)
    spread = number_stream(env, 30).partition_custom(
        lambda key, count: key % count, lambda value: value // 10
    )
    found = _by_subtask(collect(spread.map(WithSubtask())))
    assert found == {0: list(range(10)), 1: list(range(10, 20)), 2: list(range(20, 30))}


def test_key_by_brings_equal_keys_together() -> None:
    env = environment().set_parallelism(3)
    keyed = number_stream(env, 300).key_by(lambda value: f"key {value % 20}").map(WithSubtask())
    homes = {(value % 20, index) for index, value in collect(keyed)}
    assert len(homes) == 20 and len({index for _, index in homes}) == 3


def test_union_of_streams_of_different_lengths(tmp_path: Path) -> None:
    """One source ends at once, the other goes on: snapshots go on too, and the end is one."""
    with local_cluster() as launcher:
        env = environment(tmp_path / "chk").set_parallelism(2)
        short = env.from_collection([f"short {n}" for n in range(5)])
        long = number_stream(env, 600, rate=1500.0, gate=tmp_path / "gate").map(lambda i: f"long {i}")
        short.union(long).sink_to(text_file_sink(tmp_path / "out"))
        client = env.execute_async()
        wait_for_snapshots(launcher, 3)
        until(lambda: len(read_text(tmp_path / "out")) > 5, "output of both is committed")
        wait_for_snapshots(launcher, 3)
        assert any(line.startswith("short") for line in read_text(tmp_path / "out"))
        (tmp_path / "gate").touch()
        finish(client)
        assert published(launcher) > 5, "snapshots must go on after one source has ended"
    expected = [*(f"short {n}" for n in range(5)), *(f"long {i}" for i in range(600))]
    assert read_text(tmp_path / "out") == sorted(expected)


@pytest.mark.parametrize("slot", [0, 1])
def test_crash_after_one_source_has_ended(slot: int, tmp_path: Path) -> None:
    with local_cluster() as launcher:
        env = environment(tmp_path / "chk").set_parallelism(2)
        short = env.from_collection([f"short {n}" for n in range(5)])
        long = number_stream(env, 600, rate=1500.0, gate=tmp_path / "gate").map(lambda i: f"long {i}")
        short.union(long).sink_to(text_file_sink(tmp_path / "out"))
        client = env.execute_async()
        wait_for_snapshots(launcher, 3)
        launcher.clusters[-1].kill(slot)
        (tmp_path / "gate").touch()
        finish(client)
        assert launcher.jobs[-1].driver.restarts == 1
    expected = [*(f"short {n}" for n in range(5)), *(f"long {i}" for i in range(600))]
    assert read_text(tmp_path / "out") == sorted(expected)


# --- state -----------------------------------------------------------------------------------------

RULES = MapStateDescriptor("rules")


class Apply(KeyedBroadcastProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        for name, rule in ctx.get_broadcast_state(RULES).items():
            yield (name, ctx.get_current_key(), value[0] * rule)

    def process_broadcast_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        ctx.get_broadcast_state(RULES).put(value[0], value[1])
        return iter(())


class ApplyPlain(BroadcastProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        state = ctx.get_broadcast_state(RULES)
        yield value[0] if state.is_empty() else value[0] * state.get("factor")

    def process_broadcast_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        ctx.get_broadcast_state(RULES).put(value[0], value[1])
        return iter(())


def test_broadcast_state_survives_a_crash_and_a_rescale(tmp_path: Path) -> None:
    """Rules come first; records are made only after every subtask must know them."""

    def start(parallelism: int, pace: Pace) -> Any:
        env = environment(
            tmp_path / "chk",
            execution__checkpointing__externalized_checkpoint_retention="RETAIN_ON_CANCELLATION",
        ).set_parallelism(parallelism)
        rules = env.from_collection([("double", 2), ("triple", 3)]).uid("rules").broadcast(RULES)
        source = pace.source(lambda i: (i, i % 5), 1000)
        values = env.from_source(source, NO_TIME, "values").uid("values").key_by(lambda pair: pair[1])
        applied = values.connect(rules).process(Apply()).uid("apply")
        applied.map(lambda hit: f"{hit[0]} {hit[1]} {hit[2]}").sink_to(text_file_sink(tmp_path / "out")).uid(
            "out"
        )
        return env.execute_async("rules")

    with local_cluster() as launcher:
        client = start(2, Pace(1500.0, tmp_path / "gate"))
        until(lambda: len(read_text(tmp_path / "out")) > 100, "some output is committed")
        launcher.clusters[-1].kill(1)
        wait_for_snapshots(launcher, 3)
        client.cancel().result()
        finish(start(3, Pace()))
    lines = read_text(tmp_path / "out")
    both = Tally(line.split()[0] for line in lines)
    assert len(lines) == len(set(lines))
    late = {i for i in range(100, 1000)}
    for name, factor in (("double", 2), ("triple", 3)):
        seen = {int(line.split()[2]) // factor for line in lines if line.startswith(name)}
        assert late <= seen, f"{name} was forgotten"
    assert abs(both["double"] - both["triple"]) <= 100


def test_broadcast_to_an_unkeyed_stream() -> None:
    env = environment().set_parallelism(2)
    factor = env.from_collection([("factor", 10)]).broadcast(RULES)
    values = env.from_source(DataGeneratorSource(lambda i: (i, 0), 40, 400.0), NO_TIME, "values")
    found = collect(values.connect(factor).process(ApplyPlain()))
    assert len(found) == 40 and found[-1] == 390


class Remember(MapFunction):
    """Keeps the records of its subtask in operator state of the given mode."""

    def __init__(self, mode: str) -> None:
        self._mode = mode

    def open(self, runtime_context: RuntimeContext) -> None:
        self._seen = runtime_context.get_operator_list_state("seen", self._mode)
        self._restored = sorted(self._seen.get())
        if self._mode == "union":
            index, count = (
                runtime_context.get_index_of_this_subtask(),
                runtime_context.get_number_of_parallel_subtasks(),
            )
            self._seen.update([n for n in self._restored if n % count == index])

    def map(self, value: int) -> str:
        self._seen.add(value)
        return f"{value} {len(self._restored)}"


@pytest.mark.parametrize("mode", ["split", "union"])
@pytest.mark.parametrize("after", [1, 3])
def test_operator_state_is_dealt_out_again(mode: str, after: int, tmp_path: Path) -> None:
    def start(parallelism: int, pace: Pace) -> Any:
        env = environment(
            tmp_path / "chk",
            execution__checkpointing__externalized_checkpoint_retention="RETAIN_ON_CANCELLATION",
        ).set_parallelism(parallelism)
        source = pace.source(lambda i: i, 400)
        numbers = env.from_source(source, NO_TIME, "numbers").uid("numbers").rebalance()
        numbers.map(Remember(mode)).uid("remember").sink_to(text_file_sink(tmp_path / "out")).uid("out")
        return env.execute_async("lists")

    with local_cluster() as launcher:
        client = start(2, Pace(1000.0, tmp_path / "gate"))
        until(lambda: len(read_text(tmp_path / "out")) > 100, "some output is committed")
        client.cancel().result()
        assert launcher.jobs[-1].result().done()
        finish(start(after, Pace()))
    lines = [line.split() for line in read_text(tmp_path / "out")]
    assert sorted(int(number) for number, _ in lines) == list(range(400))
    restored = [int(size) for _, size in lines if size != "0"]
    committed = 400 - len(restored)
    assert 100 < committed < 400
    if mode == "union" or after == 1:
        assert set(restored) == {committed}
    else:
        assert committed // 3 <= min(restored) <= max(restored) <= committed // 3 + 1


# --- side outputs, windows, columns ----------------------------------------------------------------

ODD = OutputTag("odd")
LATE = OutputTag("late")


class Sort(ProcessFunction):
    def process_element(self, value: int, ctx: Any) -> Iterator[Any]:
        yield (ODD, value) if value % 2 else value


def test_side_outputs(tmp_path: Path) -> None:
    env = environment().set_parallelism(2)
    sorted_ = number_stream(env, 50).process(Sort())
    sorted_.map(str).sink_to(text_file_sink(tmp_path / "even"))
    sorted_.get_side_output(ODD).rebalance().map(str).sink_to(text_file_sink(tmp_path / "odd"))
    finish(env.execute_async())
    assert read_text(tmp_path / "even") == sorted(str(n) for n in range(0, 50, 2))
    assert read_text(tmp_path / "odd") == sorted(str(n) for n in range(1, 50, 2))


class CountWindow(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Any) -> Iterator[str]:
        yield f"{key} {context.window().start} {len(list(elements))}"


def test_late_data_goes_to_the_side(tmp_path: Path) -> None:
    """Watermarks come with every record; the records at the end are behind them."""
    env = environment().set_parallelism(1)
    times = [*range(0, 100, 5), 300, 10, 20, 301, 250]
    stream = env.from_collection([("k", time) for time in times])
    from penstock.event_time.watermark_generators import WatermarkGenerator

    class EveryRecord(WatermarkGenerator):
        def on_event(self, value: Any, timestamp: int, output: Any) -> None:
            output.emit_watermark(timestamp - 1)

        def on_periodic_emit(self, output: Any) -> None:
            pass

    strategy = WatermarkStrategy.for_generator(EveryRecord).with_timestamp_assigner(lambda value, _: value[1])
    windows = stream.assign_timestamps_and_watermarks(strategy).key_by(lambda value: value[0])
    counted = (
        windows.window(TumblingEventTimeWindows.of(100)).side_output_late_data(LATE).process(CountWindow())
    )
    counted.sink_to(text_file_sink(tmp_path / "windows"))
    counted.get_side_output(LATE).map(lambda value: str(value[1])).sink_to(text_file_sink(tmp_path / "late"))
    finish(env.execute_async())
    assert read_text(tmp_path / "windows") == ["k 0 20", "k 300 2"]
    assert read_text(tmp_path / "late") == ["10", "20", "250"]


def _aggregated(stream: Any) -> list[tuple[int, int, int, int]]:
    windows = stream.key_by("k").window(TumblingEventTimeWindows.of(100))
    rows = windows.agg(Count("n"), Sum("v", "s")).execute_and_collect()
    return sorted((row["k"], row["window_start"], row["n"], row["s"]) for row in rows)


def _expected(count: int) -> list[tuple[int, int, int, int]]:
    found: dict[tuple[int, int], list[int]] = {}
    for i in range(count):
        found.setdefault((i % 3, i * 2 // 100 * 100), []).append(i)
    return sorted((k, start, len(vs), sum(vs)) for (k, start), vs in found.items())


def _table(indices: Any) -> pa.RecordBatch:
    return pa.record_batch({"k": indices % 3, "v": indices, "t": indices * 2})


TIMED = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("t")


@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_columnar_aggregation_of_generated_columns(parallelism: int) -> None:
    env = environment().set_parallelism(parallelism)
    source = DataGeneratorSource(_table, 2000, columns=True)
    assert _aggregated(env.from_source(source, TIMED, "columns")) == _expected(2000)


def test_columnar_aggregation_of_parquet_files(tmp_path: Path) -> None:
    import numpy as np

    for part in range(4):
        indices = np.arange(part * 500, part * 500 + 500)
        pq.write_table(pa.Table.from_batches([_table(indices)]), tmp_path / f"{part}.parquet")
    env = environment().set_parallelism(2)
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(10_000).with_timestamp_column("t")
    stream = env.from_source(FileSource.parquet(tmp_path), strategy, "parquet")
    assert _aggregated(stream) == _expected(2000)


def test_columnar_aggregation_survives_crashes(tmp_path: Path) -> None:
    with local_cluster() as launcher:
        env = environment(tmp_path / "chk").set_parallelism(2)
        source = Pace(4000.0, tmp_path / "gate").source(_table, 2000, columns=True)
        windows = (
            env.from_source(source, TIMED, "columns").key_by("k").window(TumblingEventTimeWindows.of(100))
        )
        rows = windows.agg(Count("n"), Sum("v", "s"))
        lines = rows.map(lambda row: f"{row['k']} {row['window_start']} {row['n']} {row['s']}")
        lines.sink_to(text_file_sink(tmp_path / "out"))
        client = env.execute_async()
        for slot in (0, 1):
            wait_for_snapshots(launcher, 3)
            launcher.clusters[-1].kill(slot)
            until(lambda n=slot: launcher.jobs[-1].driver.restarts > n, "the job restarts")
        (tmp_path / "gate").touch()
        finish(client)
    expected = sorted(" ".join(map(str, row)) for row in _expected(2000))
    assert read_text(tmp_path / "out") == expected


@pytest.mark.parametrize("format", ["arrow", "pandas", "polars", "rows"])
def test_map_batches(format: str) -> None:
    env = environment().set_parallelism(2)
    source = DataGeneratorSource(_table, 100, columns=True)

    def keep_first_key(batch: Any) -> Any:
        if format == "arrow":
            import pyarrow.compute as pc

            return batch.filter(pc.equal(batch["k"], 0))
        if format == "pandas":
            return batch[batch["k"] == 0]
        if format == "polars":
            return batch.filter(batch["k"] == 0)
        return [row for row in batch if row["k"] == 0]

    stream = env.from_source(source, NO_TIME, "columns").map_batches(keep_first_key, format=format)
    assert collect(stream.rebalance().map(lambda row: row["v"])) == list(range(0, 100, 3))
