"""``penstock replay``: sinks and sources of one name, odd names, several jobs, programs of any mode."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from penstock.cli.main import cli
from penstock.cli.past import read_place, read_time
from penstock.connectors.log import Log, Producer
from penstock.testing.local import local_cluster

PROGRAM = """
import sys
from penstock.common import Configuration, WatermarkStrategy
from penstock.connectors.combinators.backfill import backfilled
from penstock.connectors.builtin.collection import CollectionSource
from penstock.connectors.log import LogOffsets, LogSource, Text
from penstock.datastream import StreamExecutionEnvironment

config = Configuration()
config.set_string("execution.runtime-mode", "AUTOMATIC")
time = WatermarkStrategy.for_monotonous_timestamps()
for topic in ("one", "two"):
    env = StreamExecutionEnvironment.get_execution_environment(config)
    source = LogSource(sys.argv[1], topic, Text(), start=LogOffsets.latest())
    if "history" in sys.argv:
        by_value = time.with_timestamp_assigner(lambda value, _: len(value))
        source = backfilled(CollectionSource(["h"]), source, 2, by_value)
    lines = env.from_source(source, time, "lines").uid("lines")
    for name in ("..", "a/b", "a-b"):
        lines.map(lambda line, name=name: name + line).print().name(name)
    env.execute(topic)
"""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "program.py").write_text(PROGRAM)
    for topic in ("one", "two"):
        Log(tmp_path / "log").create_topic(topic, partitions=1)
    with local_cluster(slots=1):
        yield tmp_path


def send(place: Path, **lines: str) -> None:
    for topic, line in lines.items():
        with Producer(Log(place / "log").topic(topic)) as producer:
            producer.send(line.encode(), timestamp=1000)
            producer.sync()


def call(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["replay", "program.py", *(str(argument) for argument in arguments)])


def records(output: Path) -> dict[str, list[str]]:
    return {
        directory.name: [
            json.loads(line)["record"]
            for file in directory.iterdir()
            for line in file.read_text().splitlines()
        ]
        for directory in output.iterdir()
        if directory.is_dir()
    }


def test_every_sink_of_every_job_has_a_directory_of_its_own(place: Path) -> None:
    send(place, one="11", two="22")
    assert call("log", "--from", "earliest", "--output", "old").exit_code == 0
    found = records(place / "old")
    assert sorted(found.values()) == [["..11"], ["..22"], ["a-b11"], ["a-b22"], ["a/b11"], ["a/b22"]]
    assert set(found) == {"sink", "a-b", "a-b-2", "sink-2", "a-b-3", "a-b-4"}
    send(place, one="111", two="222")
    again = call("log", "--from", "earliest", "--output", "new", "--compare", "old")
    assert again.exit_code == 0, again.output
    assert records(place / "new") == found


def test_a_source_with_history_ends_where_it_ended_then(place: Path) -> None:
    send(place, one="11", two="22")
    first = call("log", "history", "--from", "earliest", "--output", "old")
    assert first.exit_code == 0, first.output
    assert sorted(records(place / "old")["sink"]) == ["..11", "..h"]
    assert json.loads((place / "old" / "replay.json").read_text())["ends"] == {
        "lines": {"collection": None, "one-0": 1},
        "lines-2": {"collection": None, "two-0": 1},
    }
    send(place, one="111", two="222")
    again = call("log", "history", "--from", "earliest", "--output", "new", "--compare", "old")
    assert again.exit_code == 0, again.output
    assert records(place / "new") == records(place / "old")


def test_offsets_of_many_splits_are_no_name_of_a_file() -> None:
    many = {f"clicks-{number}": number for number in range(400)}
    text = ",".join(f"{split}={offset}" for split, offset in many.items())
    assert read_place(text, "--from").offsets == many


def test_a_time_is_exact_to_the_millisecond() -> None:
    for ms in range(1000):
        assert read_time(f"2026-01-31T12:00:00.{ms:03}", "--from") == 1769860800000 + ms
