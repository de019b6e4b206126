"""Event time in whole jobs: alignment of sources, a stalled watermark, bounds that are learned."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from flow_graphs import Pace, read_text, text_file_sink
from local_jobs import NO_TIME, LookedAt, environment, finish, kill_slot, until

from penstock.cli.jobs import list_jobs
from penstock.common import Duration, WatermarkStrategy
from penstock.common.watermark_strategy import WatermarkGenerator, WatermarkOutput
from penstock.connectors.source import Split, SplitReader
from penstock.core.batch import Batch
from penstock.core.clock import Clock
from penstock.datastream.connectors.data_gen import DataGeneratorSource
from penstock.spark.launcher import publish_to_registry
from penstock.testing.local import LocalLauncher, local_cluster


@pytest.fixture
def cluster() -> Iterator[LocalLauncher]:
    with local_cluster(slots=2) as launcher:
        yield launcher


BY_SECOND = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: value[1])


class EveryHundredth(DataGeneratorSource):
    """Has a record at every hundredth poll: slow by turns, not by time."""

    def open_split(self, split: Split, position: Any | None, clock: Clock) -> SplitReader:
        return _EveryHundredth(super().open_split(split, position, clock))


class _EveryHundredth(SplitReader):
    def __init__(self, reader: SplitReader) -> None:
        self._reader, self._polls = reader, 0

    def poll(self, max_rows: int) -> Batch | None:
        self._polls += 1
        return None if self._polls % 100 else self._reader.poll(1)

    def position(self) -> Any:
        return self._reader.position()


def lead(env: Any, strategy: WatermarkStrategy) -> int:
    """How far a fast source got ahead of a slow one, at most."""
    fast = DataGeneratorSource(lambda i: ("fast", i * 10), 60_000)
    slow = EveryHundredth(lambda i: ("slow", i * 10_000), 60)
    both = env.from_source(fast, strategy, "fast").union(env.from_source(slow, strategy, "slow"))
    at, most = 0, 0
    for name, time in both.execute_and_collect():
        if name == "slow":
            at = max(at, time)
        else:
            most = max(most, time - at)
    return most


def test_alignment_holds_the_fast_source_back() -> None:
    small = {"pipeline__auto_watermark_interval": "2 ms", "penstock__batch__max_rows": "50"}
    aligned = BY_SECOND.with_watermark_alignment(
        "all", Duration.of_seconds(20), update_interval=Duration.of_millis(2)
    )
    with local_cluster(slots=2, clock=LookedAt()):
        held = lead(environment(**small).set_parallelism(1), aligned)
        free = lead(environment(**small).set_parallelism(1), BY_SECOND)
    assert held < 40_000 < 300_000 < free, (held, free)


def test_the_slow_source_may_end_first(cluster: LocalLauncher) -> None:
    env = environment().set_parallelism(2)
    strategy = BY_SECOND.with_watermark_alignment("all", 10, 5)
    long = DataGeneratorSource(lambda i: ("long", i * 100), 5_000)
    short = DataGeneratorSource(lambda i: ("short", i), 10)
    both = env.from_source(long, strategy, "long").union(env.from_source(short, strategy, "short"))
    assert len(list(both.execute_and_collect())) == 5_010


def test_a_stalled_watermark_is_told_and_listed(
    cluster: LocalLauncher, caplog: pytest.LogCaptureFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path))
    env = environment(pipeline__watermark_stall_timeout="2 s").set_parallelism(2)
    stuck = DataGeneratorSource(lambda i: ("x", 5), 10**12)  # with every poll come records of the same time
    few = env.from_source(stuck, BY_SECOND, "sensors").filter(lambda _: False)
    few.sink_to(text_file_sink(tmp_path / "out"))
    with caplog.at_level(logging.WARNING, "penstock"):
        client = env.execute_async("watched")
        job = cluster.jobs[-1]
        until(lambda: "has stood" in (job.facts()["stalled"] or ""), "the stall is seen")
        why = job.facts()["stalled"]
    assert "the watermark has stood at 1970-01-01 00:00:00+00:00 for " in why
    assert "held back by 'Source: sensors'" in why or "held back by 'sensors'" in why
    assert "split '" in why and "records came since that do not advance it" in why
    assert any(why in record.getMessage() for record in caplog.records)
    publish_to_registry(job)
    shown = CliRunner().invoke(list_jobs).output
    assert f"Warning: watched ({job.job_id.hex[:12]}): {why}" in shown.replace("\n", " ").replace("  ", " ")
    client.cancel().result()
    assert job.facts()["stalled"] is None


class Counting(WatermarkGenerator):
    """Learns how many records there were, and writes down what it is told after a restore."""

    def __init__(self, notes: Path) -> None:
        self.notes = notes
        self.count = 0

    def on_event(self, value: Any, timestamp: int, output: WatermarkOutput) -> None:
        self.count += 1

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        output.emit_watermark(self.count)

    def snapshot(self) -> int:
        return self.count

    def restore(self, state: int) -> None:
        self.count = state
        self.notes.write_text(str(state))


def test_what_a_generator_learned_survives_a_restart(cluster: LocalLauncher, tmp_path: Path) -> None:
    env = environment(tmp_path / "chk").set_parallelism(1)
    learned = WatermarkStrategy.for_generator(partial(Counting, tmp_path / "notes"))
    source = Pace(2000.0, tmp_path / "gate").source(lambda i: i, 1_000)
    stream = env.from_source(source, learned, "numbers").uid("numbers")
    stream.map(str).sink_to(text_file_sink(tmp_path / "out"))
    client = env.execute_async()
    until(lambda: read_text(tmp_path / "out"), "a checkpoint with records is complete")
    kill_slot(cluster)
    (tmp_path / "gate").touch()
    finish(client)
    assert cluster.jobs[-1].driver.restarts == 1
    assert 0 < int((tmp_path / "notes").read_text()) < 1_000
    assert len(read_text(tmp_path / "out")) == 1_000


def test_alignment_belongs_to_sources() -> None:
    strategy = BY_SECOND.with_watermark_alignment("all", 10)
    stream = environment().from_source(DataGeneratorSource(lambda i: i, 5), NO_TIME, "numbers")
    with pytest.raises(Exception, match="from_source"):
        stream.assign_timestamps_and_watermarks(strategy)
