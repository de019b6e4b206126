"""``savepoint``, ``stop``, ``checkpoint JOB`` and ``rescale`` against jobs of this process."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest
from click.testing import CliRunner, Result

from penstock.cli.main import cli
from penstock.common import Configuration, WatermarkStrategy
from penstock.connectors.builtin.driver_output import CollectSink
from penstock.connectors.log import Log, LogSource, Producer, Text
from penstock.coordinator import registry
from penstock.coordinator.events import RequestKind
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.job import run_as, running_program
from penstock.graph.nodes import StartedBy
from penstock.snapshot.recovery import read_manifest
from penstock.spark.launcher import publish_to_registry
from penstock.testing.local import LocalCluster, LocalLauncher, local_cluster
from tests.paper_job import PaperJob, published
from tests.patience import PATIENCE_S


@pytest.fixture(autouse=True)
def launcher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalLauncher]:
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path / "home"))
    Log(tmp_path / "log").create_topic("t", partitions=2)
    with local_cluster(slots=2) as made:
        yield made
        for job in made.jobs:
            job.cancel().result(PATIENCE_S)


def start(
    tmp_path: Path,
    name: str = "endless",
    started_by: StartedBy = StartedBy(),
    **settings: str,
) -> Any:
    config = Configuration.from_dict({key.replace("__", "."): text for key, text in settings.items()})
    env = StreamExecutionEnvironment.get_execution_environment(config)
    source = LogSource(tmp_path / "log", "t", Text())
    lines = env.from_source(source, WatermarkStrategy.no_watermarks(), "t").uid("t")
    lines.key_by(lambda line: line).reduce(lambda a, b: a).uid("r").print()
    with run_as(replace(running_program(), started_by=started_by)):
        client = env.execute_async(name)
    publish_to_registry(client.handle)
    return client


def call(*arguments: object, **more: Any) -> Result:
    return CliRunner().invoke(cli, [str(argument) for argument in arguments], **more)


def test_savepoint_prints_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    client = start(tmp_path)
    monkeypatch.chdir(tmp_path)
    result = call("savepoint", "endless", "sp")
    assert result.exit_code == 0, result.stderr
    found = read_manifest(result.stdout.strip())
    assert found.manifest.job_name == "endless" and found.location.root.startswith((tmp_path / "sp").as_uri())
    assert client.get_job_status().result().name in ("CREATED", "RUNNING")


def test_a_savepoint_without_a_place_is_one_paragraph(tmp_path: Path) -> None:
    start(tmp_path)
    result = call("savepoint", "endless")
    assert result.exit_code == 1 and "execution.checkpointing.savepoint-dir" in result.stderr
    assert call("savepoint").exit_code == 2
    assert call("savepoint", "ghost", tmp_path / "sp").exit_code == 1


@pytest.mark.parametrize(
    ("more", "settings"),
    [
        ([], {}),
        (["--drain"], {}),
        ([], {"penstock.rest.enabled": "false"}),
        ([], {"penstock.rest.read-only": "true", "rest.port": "0"}),
    ],
)
def test_stop_waits_for_the_end_of_the_job(more: list[str], settings: dict[str, str], tmp_path: Path) -> None:
    client = start(tmp_path, **settings)
    result = call("stop", "endless", "--savepoint", tmp_path / "sp", *more)
    assert result.exit_code == 0, result.stderr
    client.get_job_execution_result().result(PATIENCE_S)
    assert client.get_job_status().result().name == "FINISHED"
    assert read_manifest(result.stdout.strip()).manifest.job_name == "endless"


@pytest.mark.parametrize("words", [["checkpoint", "endless"], ["checkpoint", "trigger", "endless"]])
def test_a_checkpoint_now(words: list[str], tmp_path: Path) -> None:
    start(tmp_path, execution__checkpointing__dir=str(tmp_path / "chk"))
    result = call(*words)
    assert result.exit_code == 0, result.stderr
    assert read_manifest(result.stdout.strip()).manifest.epoch == 1
    assert "no running job is called 'ghost'" in call("checkpoint", "ghost").stderr
    assert call("checkpoint", "list", tmp_path / "chk").exit_code == 0, "commands win over jobs"


def test_a_driver_that_is_gone_is_said_to_be(tmp_path: Path) -> None:
    with published("paper") as made:
        assert "takes no snapshots" in call("savepoint", "paper", tmp_path).stderr
        made.serving._server.stop()
        made.serving._thread.join(PATIENCE_S)
        assert "does not answer" in call("savepoint", "paper", tmp_path).stderr


def test_a_savepoint_while_one_is_under_way_is_refused_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first: Future[str] = Future()
    monkeypatch.setattr(PaperJob, "request", lambda job, kind, directory, accepted: (accepted(), first))
    with published("paper"):
        entry = registry.find("paper")
        begun = entry.request(RequestKind.SAVEPOINT, None)
        second = call("savepoint", "paper", tmp_path)
        first.set_result("somewhere")
        assert begun is not None and entry.outcome(RequestKind.SAVEPOINT, begun.body["request-id"])
    assert second.exit_code == 1 and "a savepoint is under way" in second.stderr


def test_dispose_deletes_savepoints_and_nothing_else(tmp_path: Path) -> None:
    config = {"execution__checkpointing__dir": str(tmp_path / "chk")}
    start(tmp_path, **config)
    checkpoint = call("checkpoint", "endless").stdout.strip()
    place = call("savepoint", "endless", tmp_path / "sp").stdout.strip()
    mine = Path(place.removeprefix("file://")) / "notes.txt"
    mine.write_text("a person's own file")
    refused = call("savepoint", "--dispose", checkpoint, "--yes")
    assert refused.exit_code == 1 and "is a checkpoint, not a savepoint" in refused.stderr
    assert call("savepoint", "--dispose", place, input="n\n").exit_code == 1
    assert (mine.parent / "_metadata").exists()
    assert call("savepoint", "--dispose", place, input="y\n").exit_code == 0
    assert [path.name for path in mine.parent.iterdir()] == ["notes.txt"]
    mine.unlink()
    other = call("savepoint", "endless", tmp_path / "sp").stdout.strip()
    assert call("savepoint", "--dispose", other, "--yes").exit_code == 0
    assert not Path(other.removeprefix("file://")).exists()


INTERVAL = {"execution__checkpointing__interval": "1 h"}


def test_a_job_is_rescaled_where_it_runs(tmp_path: Path) -> None:
    client = start(tmp_path, **INTERVAL)
    result = call("rescale", "endless", "-p", "3")
    assert result.exit_code == 0, result.stderr
    assert "runs at parallelism 3" in result.stderr and result.stdout.strip().endswith("/chk-1")
    driver = client.handle.driver
    assert (driver.parallelism, driver.restarts, driver.status.name) == (3, 0, "RUNNING")
    events = call("events", "endless").stdout
    assert "rescale from 2 to 3: checkpoint 1 is complete" in events and "rescale from 2 to 3: done" in events


@pytest.mark.parametrize(
    ("more", "settings", "why"),
    [
        (["-p", "9"], INTERVAL | {"pipeline.max-parallelism": "4"}, "It runs on as it was"),
        (["-p", "2"], INTERVAL, "has parallelism 2 already"),
        (["-p", "3"], {}, "takes no checkpoints"),
        (["-p", "3", "--savepoint", "sp"], INTERVAL, "a rescale needs no savepoint any more"),
    ],
)
def test_what_cannot_be_leaves_the_job_alone(
    more: list[str], settings: dict[str, str], why: str, tmp_path: Path
) -> None:
    client = start(tmp_path, **settings)
    result = call("rescale", "endless", *more)
    assert result.exit_code and why in " ".join(result.stderr.split())
    assert client.handle.driver.parallelism == 2


def test_slots_that_spark_lacks_are_said_beforehand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LocalCluster, "most_slots", lambda self: 2)
    start(tmp_path, **INTERVAL)
    assert "cannot have 3 slots: Spark has room for 2" in call("rescale", "endless", "-p", "3").stderr


# --- fork -----------------------------------------------------------------------------------------

FORKED = """
import sys
from penstock.common import WatermarkStrategy
from penstock.connectors.log import LogSink, LogSource, Text
from penstock.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
timed = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda v, _: int(v))
lines = env.from_source(LogSource(sys.argv[1], "t", Text()), timed, "t").uid("t")
lines.map(lambda v: str(int(v) CHANGE)).sink_to(LogSink(sys.argv[1], "nowhere", Text())).uid("out")
env.execute("endless")
"""


def test_fork_prints_what_would_differ_and_writes_nothing(tmp_path: Path) -> None:
    """From a savepoint of record 10, up to event time 20; the sink's topic does not even exist."""
    numbers = [str(number).encode() for number in range(30)]
    with Producer(Log(tmp_path / "log").topic("t")) as producer:
        for number in numbers[:10]:
            producer.send(number, partition=0)
        producer.sync()
        seen: SimpleQueue[str] = SimpleQueue()
        env = StreamExecutionEnvironment.get_execution_environment()
        source = LogSource(tmp_path / "log", "t", Text())
        lines = env.from_source(source, WatermarkStrategy.no_watermarks(), "t").uid("t")
        lines.sink_to(CollectSink(seen)).uid("seen")
        publish_to_registry(env.execute_async("endless").handle)
        assert [int(seen.get(timeout=PATIENCE_S)) for _ in range(10)] == list(range(10))
        place = call("stop", "endless", "--savepoint", tmp_path / "sp").stdout.strip()
        for number in numbers[10:]:
            producer.send(number, partition=0)
        producer.sync()
    (tmp_path / "old.py").write_text(FORKED.replace("CHANGE", ""))
    (tmp_path / "new.py").write_text(FORKED.replace("CHANGE", "// 18 * 100"))
    programs = [tmp_path / "new.py", tmp_path / "log"]
    unknown = call("fork", place, *programs)
    assert unknown.exit_code == 1 and "--against" in unknown.stderr
    options = ["--against", tmp_path / "old.py", "--allow-non-restored-state", "--quiet-after", "0.2"]
    result = call("fork", place, "--until", "20", *options, *programs)
    assert result.exit_code == 0, result.output
    told = result.stdout.splitlines()
    assert told[0] == "out: 0 the same, 10 only from old.py, 10 only from new.py"
    assert sorted(told[1:11]) == [f"- {number}" for number in range(10, 20)]
    assert told[11:] == ["+ 0"] * 8 + ["+ 100"] * 2
    assert Log(tmp_path / "log").topics() == ["t"]
