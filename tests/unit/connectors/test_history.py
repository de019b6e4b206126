"""History and live as one source: the border, and going on without the history."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from penstock.common import Configuration, WatermarkStrategy
from penstock.connectors.builtin.collection import CollectionSource
from penstock.connectors.builtin.driver_output import CollectSink
from penstock.connectors.combinators.backfill import backfilled
from penstock.connectors.log import Log, LogSource, Producer, Text
from penstock.connectors.source import Source
from penstock.core.errors import ConfigError
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.data_gen import DataGeneratorSource
from penstock.testing.local import local_cluster
from tests.patience import PATIENCE_S

BY_VALUE = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda v, _: int(v))


def log_of(root: Path, times: list[int]) -> LogSource:
    if "t" not in Log(root).topics():
        Log(root).create_topic("t", partitions=2)
    with Producer(Log(root).topic("t")) as producer:
        for number, time in enumerate(times):
            producer.send(str(time).encode(), partition=number % 2, timestamp=time)
        producer.sync()
    return LogSource(root, "t", Text())


def running(source: Source, seen: SimpleQueue[Any], **settings: str) -> Any:
    config = Configuration.from_dict({key.replace("__", "."): text for key, text in settings.items()})
    env = StreamExecutionEnvironment.get_execution_environment(config)
    env.from_source(source, BY_VALUE, "t").uid("t").sink_to(CollectSink(seen)).uid("seen")
    return env.execute_async("backfilled")


def take(seen: SimpleQueue[Any], count: int) -> list[int]:
    return sorted(int(seen.get(timeout=PATIENCE_S)) for _ in range(count))


def test_the_border_is_exact_and_the_live_source_can_go_on_alone(tmp_path: Path) -> None:
    live = log_of(tmp_path / "log", [7, 9, 8, 12, 10, 11, 9])
    history = CollectionSource([str(time) for time in (3, 1, 10, 2, 9, 11)])
    first: SimpleQueue[Any] = SimpleQueue()
    with local_cluster(slots=2):
        job = running(backfilled(history, live, 10, BY_VALUE), first)
        assert take(first, 7) == [1, 2, 3, 9, 10, 11, 12]
        place = job.stop_with_savepoint(False, str(tmp_path / "sp")).result(PATIENCE_S)
        log_of(tmp_path / "log", [13, 14])
        second: SimpleQueue[Any] = SimpleQueue()
        alone = running(live, second, **{"execution.state-recovery.path": place})
        assert take(second, 2) == [13, 14]
        alone.cancel().result(PATIENCE_S)
    assert first.empty() and second.empty()


def test_time_stands_still_until_history_is_read(tmp_path: Path) -> None:
    """Watermarks come from live records alone: no record of the past can be late."""
    history = CollectionSource([str(time) for time in (9, 1)])
    source = backfilled(history, log_of(tmp_path / "log", [10]), 10, BY_VALUE)
    splits = list(source.create_enumerator(1).discover())
    assert splits and all(source.holds_time(split) for split in splits)
    assert not any(
        source.holds_time(split) for split in log_of(tmp_path / "log", []).create_enumerator(1).discover()
    )


@pytest.mark.parametrize("make", [lambda: DataGeneratorSource(lambda i: i, None)])
def test_history_must_end(make: Callable[[], Source]) -> None:
    with pytest.raises(ConfigError, match="the history of a backfill must end"):
        backfilled(make(), CollectionSource([1]), 10, BY_VALUE)
