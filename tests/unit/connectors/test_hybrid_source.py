"""History, then live: the switch, what a restore does to it, and what is refused."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.common import Configuration, WatermarkStrategy
from penstock.connectors.builtin.collection import CollectionSource
from penstock.connectors.builtin.datagen import NumberSequenceSource
from penstock.connectors.combinators.backfill import backfilled
from penstock.connectors.source import FixedSplits, Source, Split
from penstock.core.errors import ConfigError
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.data_gen import DataGeneratorSource
from penstock.datastream.connectors.hybrid_source import HybridSource
from penstock.testing.conformance import SourceConformance
from penstock.testing.local import local_cluster
from penstock.testing.scripted_source import AwaitCheckpoint, Crash, Pause, cued_source

UNTIMED = WatermarkStrategy.no_watermarks()


class TestHybridConformance(SourceConformance):
    def make_source(self, directory: Path) -> Source:
        return HybridSource.builder(NumberSequenceSource(0, 40)).build()

    def expected(self) -> list[int]:
        return list(range(41))


def two() -> HybridSource:
    return HybridSource.builder(NumberSequenceSource(0, 9)).add_source(NumberSequenceSource(10, 19)).build()


def test_the_next_source_waits_for_every_split_of_the_first() -> None:
    enumerator = two().create_enumerator(2)
    first = [split.id for split in enumerator.discover()]
    assert len(first) == 2
    enumerator.on_finished(first[:1])
    assert list(enumerator.discover()) == []
    enumerator.on_finished(first[1:])
    second = [split.id for split in enumerator.discover()]
    assert second and not set(second) & set(first)
    assert enumerator.is_exhausted()
    assert list(enumerator.discover()) == []


def test_splits_are_expected_until_the_last_source_is_dealt() -> None:
    enumerator = two().create_enumerator(2)
    first = [split.id for split in enumerator.discover()]
    assert enumerator.expects_splits()
    enumerator.on_finished(first)
    assert enumerator.expects_splits()
    assert list(enumerator.discover()) and not enumerator.expects_splits()


def test_the_enumerator_forgets_who_has_finished_when_it_switches() -> None:
    enumerator = two().create_enumerator(2)
    enumerator.on_finished([split.id for split in enumerator.discover()])
    assert all(not two().awaits_end(split) for split in enumerator.discover()), "the last source's"
    assert enumerator._finished == set() and len(enumerator._dealt) == 0  # type: ignore[attr-defined]


def test_an_enumerator_of_an_older_snapshot_has_its_names_unpacked() -> None:
    enumerator = two().create_enumerator(2)
    first = [split.id for split in enumerator.discover()]
    state = replace(enumerator.snapshot(), dealt=tuple(sorted(first)))
    restored = two().create_enumerator(2)
    restored.restore(state)
    assert list(restored.discover()) == []
    restored.on_finished(first)
    assert len(list(restored.discover())) == 2


@pytest.mark.parametrize("reported", [False, True])
def test_a_restored_enumerator_switches_once_when_it_is_told_again(reported: bool) -> None:
    enumerator = two().create_enumerator(2)
    first = [split.id for split in enumerator.discover()]
    if reported:
        enumerator.on_finished(first)
    state = pickle.dumps(enumerator.snapshot())
    restored = two().create_enumerator(2)
    restored.restore(pickle.loads(state))
    assert list(restored.discover()) == []
    restored.on_finished(first)
    second = list(restored.discover())
    assert len(second) == 2
    after = two().create_enumerator(3)
    after.restore(pickle.loads(pickle.dumps(restored.snapshot())))
    assert list(after.discover()) == []
    assert after.is_exhausted()


def test_once_the_last_source_is_reached_it_can_go_on_alone() -> None:
    enumerator = two().create_enumerator(2)
    enumerator.on_finished([split.id for split in enumerator.discover()])
    last = list(enumerator.discover())
    alone = NumberSequenceSource(10, 19)
    assert last == list(alone.create_enumerator(2).discover())
    restored = alone.create_enumerator(2)
    restored.restore(pickle.loads(pickle.dumps(enumerator.snapshot())))
    assert list(restored.discover()) == []


class _Nothing(Source):
    def create_enumerator(self, parallelism):
        return FixedSplits([])

    def open_split(self, split: Split, position, clock):
        raise AssertionError("there is nothing to open")


def in_a_row(*sources: Source) -> HybridSource:
    builder = HybridSource.builder(sources[0])
    for source in sources[1:]:
        builder = builder.add_source(source)
    return builder.build()


FULL = NumberSequenceSource(0, 3)


def test_an_empty_source_is_passed_over() -> None:
    enumerator = in_a_row(_Nothing(), _Nothing(), FULL).create_enumerator(1)
    assert not list(_Nothing().create_enumerator(1).discover())
    assert list(enumerator.discover()) == list(FULL.create_enumerator(1).discover())
    assert enumerator.is_exhausted()
    restored = in_a_row(_Nothing(), _Nothing(), FULL).create_enumerator(1)
    restored.restore(pickle.loads(pickle.dumps(enumerator.snapshot())))
    assert not list(restored.discover()) and restored.is_exhausted()


@pytest.mark.parametrize("mode", ["STREAMING", "BATCH"])
@pytest.mark.parametrize("empty", [(0,), (1,), (3,), (0, 1), (1, 2), (0, 1, 2, 3)])
def test_jobs_read_past_empty_sources_and_end(empty: tuple[int, ...], mode: str) -> None:
    sources: list[Source] = [NumberSequenceSource(10 * i, 10 * i + 2) for i in range(4)]
    for number in empty:
        sources[number] = _Nothing()
    config = Configuration().set_string("execution.runtime-mode", mode)
    env = StreamExecutionEnvironment.get_execution_environment(config).set_parallelism(2)
    expected = [10 * i + j for i in range(4) if i not in empty for j in range(3)]
    with local_cluster(slots=2):
        stream = env.from_source(in_a_row(*sources), UNTIMED, "row")
        assert sorted(stream.execute_and_collect()) == expected


def test_only_the_last_source_may_go_on_for_ever() -> None:
    endless = DataGeneratorSource(lambda i: i, None)
    assert not HybridSource.builder(NumberSequenceSource(0, 1)).add_source(endless).build().bounded
    with pytest.raises(ConfigError, match="source 1 of 2 of a HybridSource never ends"):
        HybridSource.builder(endless).add_source(NumberSequenceSource(0, 1)).build()


def test_a_hybrid_source_is_not_part_of_another() -> None:
    with pytest.raises(ConfigError, match="one by one"):
        HybridSource.builder(NumberSequenceSource(0, 1)).add_source(two()).build()
    with pytest.raises(ConfigError, match="one by one"):
        backfilled(NumberSequenceSource(0, 1), two(), 5, UNTIMED)


@pytest.mark.parametrize("mode", ["AUTOMATIC", "BATCH"])
@pytest.mark.parametrize("parallelism", [1, 3])
def test_batch_reads_all_sources(mode: str, parallelism: int) -> None:
    config = Configuration().set_string("execution.runtime-mode", mode)
    env = StreamExecutionEnvironment.get_execution_environment(config).set_parallelism(parallelism)
    three = HybridSource.builder(NumberSequenceSource(0, 9)).add_source(NumberSequenceSource(10, 19))
    stream = env.from_source(three.add_source(NumberSequenceSource(20, 29)).build(), UNTIMED, "three")
    with local_cluster(slots=parallelism) as cluster:
        sums = stream.key_by(lambda i: i % 2).reduce(lambda a, b: a + b)
        assert sorted(sums.execute_and_collect()) == [210, 225]
        assert cluster.jobs[-1].job.plan.settings.batch


@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_a_job_reads_both_and_the_second_after_the_first(parallelism: int) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(parallelism)
    with local_cluster(slots=parallelism):
        seen = list(env.from_source(two(), UNTIMED, "both").execute_and_collect())
    assert sorted(seen) == list(range(20))
    assert max(seen.index(i) for i in range(10)) < min(seen.index(i) for i in range(10, 20))


def test_crashes_on_both_sides_of_the_switch_lose_and_double_nothing(tmp_path: Path) -> None:
    history = cued_source(
        [1, 2, AwaitCheckpoint(), 3, Crash()], [4, Pause(30), 5, Crash()], directory=tmp_path / "history"
    )
    live = cued_source([Crash(2), 6, 7, AwaitCheckpoint(), Crash(), 8], directory=tmp_path / "live")
    config = Configuration()
    config.set_string("execution.checkpointing.interval", "15 ms")
    config.set_string("execution.checkpointing.dir", str(tmp_path / "checkpoints"))
    config.set_string("restart-strategy.type", "fixed-delay")
    config.set_string("restart-strategy.fixed-delay.attempts", "20")
    config.set_string("restart-strategy.fixed-delay.delay", "5 ms")
    env = StreamExecutionEnvironment.get_execution_environment(config)
    env.set_parallelism(2)
    source = HybridSource.builder(history).add_source(live).build()
    with local_cluster(slots=2):
        assert sorted(env.from_source(source, UNTIMED, "both").execute_and_collect()) == list(range(1, 9))


def test_a_collection_can_be_history() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    source = HybridSource.builder(CollectionSource([100, 101])).add_source(NumberSequenceSource(0, 1)).build()
    with local_cluster(slots=1):
        assert list(env.from_source(source, UNTIMED, "both").execute_and_collect()) == [100, 101, 0, 1]
