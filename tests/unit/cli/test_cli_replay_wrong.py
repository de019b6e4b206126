"""What a replay must not do: touch the job's snapshots, begin elsewhere, end early, leave input out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from progress import until

from penstock.cli.main import cli
from penstock.cli.run import as_program
from penstock.connectors.log import Log, Producer
from penstock.core import options
from penstock.testing.local import LocalLauncher, local_cluster
from tests.patience import PATIENCE_S

HOUR_MS = 3_600_000
COUNTS = """
import sys
from penstock.common import Configuration, WatermarkStrategy
from penstock.connectors.log import LogSource, Text
from penstock.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from penstock.datastream.state import ValueStateDescriptor

class Count(KeyedProcessFunction):
    def open(self, ctx):
        self.count = ctx.get_state(ValueStateDescriptor("count"))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        yield self.count.value()

env = StreamExecutionEnvironment.get_execution_environment(
    Configuration.from_dict(dict(text.split("=", 1) for text in sys.argv[1:]))
)
env.enable_checkpointing(20)
by_time = WatermarkStrategy.for_monotonous_timestamps()
lines = env.from_source(LogSource("log", "t", Text()), by_time, "t").uid("t")
lines.key_by(lambda line: 0).process(Count()).uid("count").print().uid("out")
env.execute("counts")
"""
TWO = """
from penstock.common import WatermarkStrategy
from penstock.connectors.log import LogSource, Text
from penstock.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
by_time = WatermarkStrategy.for_monotonous_timestamps()
first = env.from_source(LogSource("log", "t", Text()), by_time, "t")
second = env.from_source(LogSource("log", "u", Text()), by_time, "u")
first.union(second).map(lambda line: 100 // (100 - int(line))).print().uid("out")
"""
NUMBERS = """
from penstock.common import WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.number_seq import NumberSequenceSource

env = StreamExecutionEnvironment.get_execution_environment()
env.from_source(NumberSequenceSource(1, 100), WatermarkStrategy.no_watermarks(), "n").print().uid("out")
env.execute("numbers")
"""
STAMPED = """
from penstock.common import WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
by_value = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: value)
numbers = env.from_collection([1, 2, 3, 4]).uid("numbers").map(lambda value: value)
numbers.assign_timestamps_and_watermarks(by_value).print().uid("out")
env.execute("stamped")
"""


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalLauncher]:
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    for topic in ("t", "u"):
        Log(tmp_path / "log").create_topic(topic, partitions=1)
    with local_cluster(slots=3) as launcher:
        yield launcher


def send(topic: str, count: int) -> None:
    with Producer(Log(Path("log")).topic(topic)) as producer:
        for number in range(count):
            producer.send(str(number).encode(), timestamp=number * HOUR_MS)
        producer.sync()


def program(text: str, end: str = "") -> str:
    Path("program.py").write_text(text + end)
    return "program.py"


def replay(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["replay", *(str(argument) for argument in arguments)])


def written(output: str) -> list[str]:
    files = [file for file in Path(output, "out").rglob("*") if file.is_file()]
    return sorted(json.loads(line)["record"] for file in files for line in file.read_text().splitlines())


@pytest.fixture
def savepoint(cluster: LocalLauncher) -> str:
    """Behind some of three records; two more have come since."""
    send("t", 3)
    with as_program(Path("program.py"), (), {}):
        exec(COUNTS.replace("env.execute", "env.execute_async"), {})
    job = cluster.jobs[-1]
    until(lambda: job.facts()["checkpoints"] >= 3 or job.result().done(), "there are three checkpoints")
    place = job.stop_with_savepoint(False, str(Path("savepoints").absolute())).result(PATIENCE_S)
    send("t", 2)
    return place


@pytest.mark.parametrize("by_program", [True, False])
def test_the_snapshot_is_never_claimed(savepoint: str, by_program: bool) -> None:
    claim = "execution.state-recovery.claim-mode=CLAIM"
    before = sorted(Path("savepoints").rglob("*"))
    said = [claim] if by_program else ["-D", claim]
    result = replay(program(COUNTS), *said, "--from", savepoint, "--output", "then")
    assert result.exit_code == 0, result.output
    assert written("then")[-1] == "5"
    assert sorted(Path("savepoints").rglob("*")) == before


def test_a_snapshot_that_the_program_names_is_not_where_a_replay_begins(savepoint: str) -> None:
    named = f"execution.state-recovery.path={savepoint}"
    assert replay(program(COUNTS), named, "--from", "earliest", "--output", "all").exit_code == 0
    assert written("all") == ["1", "2", "3", "4", "5"]


@pytest.mark.usefixtures("cluster")
def test_numbers_are_the_same_at_another_parallelism() -> None:
    """They are divided otherwise then: what is not known from the first time is not new."""
    assert replay(program(NUMBERS), "--from", "earliest", "--output", "old", "-p", 2).exit_code == 0
    again = replay("program.py", "--from", "earliest", "--output", "new", "-p", 3, "--compare", "old")
    assert again.exit_code == 0, again.output
    assert "out: 100 the same" in again.stdout


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize(
    ("end", "sentence"),
    [
        ('env.execute_async("two")', "the script ended while its job was running"),
        ('try: env.execute("two")\nexcept Exception: pass', "job 'two-aside' failed"),
    ],
)
def test_a_replay_that_did_not_reach_its_end_is_none(end: str, sentence: str) -> None:
    send("t", 101)
    result = replay(program(TWO, end), "--from", "earliest")
    assert result.exit_code == 1 and sentence in result.stderr
    assert not Path("replay", "replay.json").exists()


@pytest.mark.usefixtures("cluster")
def test_offsets_may_be_of_one_of_several_sources_but_must_be_of_one() -> None:
    send("t", 5)
    send("u", 3)
    two = program(TWO, 'env.execute("two")')
    result = replay(two, "--from", "earliest", "--until", "t-0=2", "--output", "one")
    assert result.exit_code == 0, result.output
    assert len(written("one")) == 5
    result = replay(two, "--from", "earliest", "--until", "t-0=2,v-0=1", "--output", "typo")
    assert result.exit_code == 1
    assert "offsets are given for v-0, but the splits are t-0, u-0" in result.stderr


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--from", 1], "get their event times only behind it, in step 'Timestamps/Watermarks'"),
        (["--from", "earliest", "--until", 3], "give the WatermarkStrategy to from_source"),
        (["--from", 3, "--until", 2], "there is nothing to replay"),
        (["--from", "--5"], "--from takes a time such as"),
        (["--from", "\N{SUPERSCRIPT TWO}"], "--from takes a time such as"),
        (
            ["--from", "earliest", "--until", 9, "--compare", "nowhere"],
            "is not the output of a finished replay",
        ),
    ],
)
def test_what_cannot_be_done_is_one_sentence(options: list[object], sentence: str) -> None:
    result = replay(program(STAMPED), *options)
    assert result.exit_code != 0 and sentence in result.stderr, result.output
    assert not Path("replay").exists()


@pytest.mark.usefixtures("cluster")
def test_all_there_is_can_be_replayed_wherever_event_times_come_from() -> None:
    result = replay(program(STAMPED), "--from", "earliest")
    assert result.exit_code == 0, result.output
    assert written("replay") == ["1", "2", "3", "4"]


def test_a_batch_job_does_not_begin_at_a_snapshot(savepoint: str) -> None:
    batch = ["-D", "execution.runtime-mode=BATCH"]
    result = replay(program(STAMPED), "--from", savepoint, "--output", "then", *batch)
    assert result.exit_code == 1 and "BATCH mode, which knows no snapshots" in result.stderr


@pytest.mark.usefixtures("cluster")
def test_places_of_output_are_directories_of_replays() -> None:
    result = replay(program(STAMPED), "--from", "earliest", "--output", "s3://bucket/replay")
    assert result.exit_code == 1 and "not a URL" in result.stderr
    Path("old").mkdir()
    Path("old", "replay.json").write_text("{}")
    result = replay(program(STAMPED), "--from", "earliest", "--compare", "old")
    assert result.exit_code == 1 and "is not the output of a finished replay" in result.stderr


def test_checkpoints_of_a_replay_may_be_where_all_machines_see_them(cluster: LocalLauncher) -> None:
    send("t", 3)
    place = Path("shared").absolute()
    settings = ["-D", f"execution.checkpointing.dir={place}", "-D", "execution.checkpointing.interval=10 ms"]
    for output in ("one", "two"):
        result = replay(program(COUNTS), "--from", "earliest", "--output", output, *settings)
        assert result.exit_code == 0, result.output
    used = {Path(job.job.configuration.get(options.CHECKPOINT_DIR)) for job in cluster.jobs}
    assert len(used) == 2 and {path.parent for path in used} == {place}
    assert written("one") == written("two") != []
