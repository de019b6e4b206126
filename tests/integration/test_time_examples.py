"""The examples about time and state, in this process."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from flow_graphs import Pace
from local_jobs import NO_TIME, collect, environment, finish, kill_slot, wait_for_snapshots

from penstock.connectors.log import Consumer, Log, LogOffsets, Producer
from penstock.datastream.connectors.data_gen import DataGeneratorSource
from penstock.testing import Harness, Record
from penstock.testing.local import LocalLauncher, local_cluster

EXAMPLES = Path(__file__).parents[2] / "examples"
sys.path.insert(0, str(EXAMPLES))
MINUTE = 60_000


@pytest.fixture(autouse=True)
def cluster() -> Iterator[LocalLauncher]:
    with local_cluster(slots=2) as launcher:
        yield launcher


def example(name: str) -> Any:
    return importlib.import_module(name)


def read_json(log: Log, topic: str) -> list[dict[str, Any]]:
    """Everything in a topic."""
    found: list[dict[str, Any]] = []
    with Consumer(log.topic(topic)) as consumer:
        while polled := consumer.poll():
            found += [json.loads(value) for _, batch in polled for value in batch.column("value").to_pylist()]
    return sorted(found, key=lambda row: (row["country"], row["hour"]))


def test_hourly_counts_from_topic_to_topic(tmp_path: Path) -> None:
    module, log = example("hourly_counts"), Log(tmp_path / "log")
    for topic in ("clicks", "hourly-counts", "alerts"):
        log.create_topic(topic, partitions=2)
    minutes = {"de": (5, 20, 25, 70), "fr": (10, 150)}
    with Producer(log.topic("clicks")) as producer:
        for country, times in minutes.items():
            for minute in times:
                click = json.dumps({"country": country, "user": minute}).encode()
                producer.send(click, country.encode(), minute * MINUTE)
        producer.sync()
    env = environment(tmp_path / "chk").set_parallelism(2)
    bounded = module.LogSource(str(tmp_path / "log"), "clicks", module.CLICK, end=LogOffsets.latest())
    module.build(env, str(tmp_path / "log"), 3, bounded)
    finish(env.execute_async("hourly-counts"))
    counts = [
        (row["country"], row["hour"] // MINUTE, row["clicks"]) for row in read_json(log, "hourly-counts")
    ]
    assert counts == [("de", 0, 3), ("de", 60, 1), ("fr", 0, 1), ("fr", 120, 1)]
    assert read_json(log, "alerts") == [{"country": "de", "hour": 0, "clicks": 3}]


def counted(name: str, tag: Any = None) -> list[Any]:
    module = example(name)
    env = environment().set_parallelism(2)
    clicks = env.from_collection([(country, minute * MINUTE) for country, minute in module.CLICKS])
    counts = module.build(clicks, threshold=3)
    found = collect(counts if tag is None else counts.get_side_output(tag))
    return [(country, start // MINUTE, end // MINUTE, n) for country, start, end, n in found]


def test_hourly_counts_and_early_alerts() -> None:
    hours = [("de", 0, 60, 3), ("de", 60, 120, 1), ("de", 120, 180, 1), ("fr", 0, 60, 1), ("fr", 120, 180, 1)]
    assert counted("windowed_counts") == hours
    assert counted("windowed_counts", example("windowed_counts").ALERTS) == [("de", 0, 60, 3)]


def test_sessions_are_one_line_away() -> None:
    hourly, sessions = (
        (EXAMPLES / f"{name}.py").read_text().splitlines() for name in ("windowed_counts", "session_counts")
    )
    changed = [(a, b) for a, b in zip(hourly, sessions, strict=True) if a != b]
    assert len(changed) == 1 and all(line.startswith("WINDOW = ") for line in changed[0])
    visits = [
        ("de", 5, 55, 3),
        ("de", 70, 100, 1),
        ("de", 130, 160, 1),
        ("fr", 10, 40, 1),
        ("fr", 150, 180, 1),
    ]
    assert counted("session_counts") == visits
    assert counted("session_counts", example("session_counts").ALERTS) == [("de", 5, 55, 3)]


def test_sensor_alert() -> None:
    module = example("sensor_alert")
    env = environment().set_parallelism(2)
    source = DataGeneratorSource(module.readings, count=5_000, columns=True)
    alerts = collect(module.build(env.from_source(source, NO_TIME, "readings")).map(tuple))
    assert alerts and all(sensor == 7 and celsius > module.LIMIT for sensor, celsius in alerts)


def test_sensor_average() -> None:
    module = example("sensor_average")
    averages = collect(module.build(environment().set_parallelism(2).from_collection(module.READINGS)))
    assert averages == [("cellar", 10.0), ("cellar", 11.0), ("cellar", 12.0), ("roof", 30.0), ("roof", 31.0)]


def regression(cluster: LocalLauncher, work: Path, lose_a_slot: bool) -> list[Any]:
    """The learned parameters after each reading, if need be with a loss on the way."""
    module = example("online_regression")
    env = environment(work / "chk").set_parallelism(2)
    gate = work / "gate" if lose_a_slot else None
    source = Pace(1000.0, gate).source(module.reading, 600)
    stream = module.build(env.from_source(source, NO_TIME, "readings").set_parallelism(1))
    results = stream.execute_and_collect()
    found = []
    if gate is not None:
        found.append(next(results))
        wait_for_snapshots(cluster, 2)  # the second began after the first record was there
        kill_slot(cluster)
        gate.touch()
    found += results
    assert cluster.jobs[-1].driver.restarts == (1 if lose_a_slot else 0)
    return found


def test_online_regression_keeps_its_model(cluster: LocalLauncher, tmp_path: Path) -> None:
    undisturbed = regression(cluster, tmp_path / "a", lose_a_slot=False)
    learned = {house: weights for house, _, _, weights in undisturbed}
    assert learned["house-0"] == pytest.approx((-0.2, 5.0), abs=0.05)
    assert learned["house-1"] == pytest.approx((-0.5, 12.0), abs=0.05)
    disturbed = regression(cluster, tmp_path / "b", lose_a_slot=True)
    assert sorted(disturbed) == sorted(undisturbed), "every prediction as if nothing had happened"


def test_deduplication() -> None:
    module = example("deduplication")
    passed = collect(module.build(environment().set_parallelism(2).from_collection(module.ORDERS)))
    assert [order for order, _ in passed] == ["a", "b", "c"]


def test_deduplication_forgets_after_an_hour() -> None:
    module = example("deduplication")
    with Harness(module.FirstOnly(), keyed_by=lambda order: order[0]) as harness:
        harness.push(Record(("a", 0), 0))
        harness.watermark(module.HOUR - 1)
        harness.restore()
        harness.push(Record(("a", 5), 5))
        assert harness.take() == [("a", 0)]
        harness.watermark(module.HOUR)
        assert harness.state("a") == {} and harness.timers() == []


def test_top_n_per_window() -> None:
    module = example("top_n")
    env = environment().set_parallelism(2)
    sales = [(article, minute * module.MINUTE) for article, minute in module.SALES]
    assert collect(module.build(env.from_collection(sales), n=2)) == [
        (10 * module.MINUTE, [("tea", 3), ("jam", 2)]),
        (20 * module.MINUTE, [("jam", 1)]),
    ]
