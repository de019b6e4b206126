"""Savepoints of running jobs: taken, stopped with, drained, moved, restored at another parallelism."""

from __future__ import annotations

import shutil
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from flow_graphs import GRAPHS, Pace, read_text, text_file_sink
from local_jobs import environment, finish, output, start_graph, until, wait_for_snapshots

from penstock.common import WatermarkStrategy
from penstock.common.job_client import JobClient
from penstock.coordinator.job_directory import job_directory
from penstock.core.errors import ConfigError, SnapshotError
from penstock.core.signals import SnapshotKind
from penstock.datastream import KeyedProcessFunction, MapFunction, RuntimeContext
from penstock.datastream.window import TumblingEventTimeWindows
from penstock.snapshot.recovery import read_manifest
from penstock.testing.local import LocalLauncher, local_cluster
from tests.patience import PATIENCE_S

COUNT, RATE = 900, 2500.0
TIMEOUT = PATIENCE_S


@pytest.fixture(autouse=True)
def launcher() -> Iterator[LocalLauncher]:
    with local_cluster() as made:
        yield made


def begin(graph: str, tmp_path: Path, parallelism: int = 2, **settings: str) -> JobClient:
    pace = Pace(RATE, tmp_path / "gate")
    return start_graph(graph, tmp_path / "out", tmp_path / "chk", parallelism, COUNT, pace, **settings)


def go_on(graph: str, tmp_path: Path, path: str, parallelism: int, **settings: str) -> JobClient:
    return start_graph(
        graph,
        tmp_path / "out",
        tmp_path / "chk",
        parallelism,
        COUNT,
        Pace(),
        execution__state_recovery__path=path,
        **settings,
    )


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("parallelism", [(2, 2), (2, 1), (1, 3)])
def test_stop_and_go_on(
    graph: str, parallelism: tuple[int, int], tmp_path: Path, launcher: LocalLauncher
) -> None:
    """Stopped with a savepoint that is then moved, and started again at another parallelism."""
    client = begin(graph, tmp_path, parallelism[0])
    wait_for_snapshots(launcher, 2)
    path = client.stop_with_savepoint(False, str(tmp_path / "sp")).result(TIMEOUT)
    assert client.get_job_status().result().name == "FINISHED"
    finish(client)
    assert not list((tmp_path / "chk").rglob("_metadata*")), "the checkpoints of a stopped job are deleted"
    halfway = output(graph, tmp_path / "out")
    moved = tmp_path / "elsewhere"
    shutil.move(path.removeprefix("file://"), moved)
    finish(go_on(graph, tmp_path, str(moved), parallelism[1]))
    golden = GRAPHS[graph][1](COUNT)
    assert len(halfway) < len(golden), "the first run was to be stopped in the middle"
    assert output(graph, tmp_path / "out") == golden
    assert (moved / "_metadata").exists(), "a savepoint belongs to people"


@pytest.mark.parametrize("graph", GRAPHS)
def test_a_savepoint_disturbs_nothing_and_can_be_gone_back_to(
    graph: str, tmp_path: Path, launcher: LocalLauncher
) -> None:
    client = begin(graph, tmp_path)
    wait_for_snapshots(launcher, 2)
    path = client.trigger_savepoint(str(tmp_path / "sp")).result(TIMEOUT)
    found = read_manifest(path)
    assert found.manifest.kind is SnapshotKind.SAVEPOINT and "/savepoint-" in path
    assert Path(path.removeprefix("file://")).parent == tmp_path / "sp"
    wait_for_snapshots(launcher, 2)
    (tmp_path / "gate").touch()
    finish(client)
    golden = GRAPHS[graph][1](COUNT)
    assert output(graph, tmp_path / "out") == golden, "the job itself went on undisturbed"
    finish(go_on(graph, tmp_path, path, 3))
    again = Counter(output(graph, tmp_path / "out")) - Counter(golden)
    assert 0 < again.total() < len(golden), "what came behind the savepoint is there twice, all else once"
    assert set(again.values()) == {1} and set(again) < set(golden)


@pytest.mark.parametrize("backends", [("hashmap", "rocksdb"), ("rocksdb", "hashmap")])
@pytest.mark.parametrize("graph", ["keyed", "two_inputs", "sessions"])
def test_another_state_backend(
    graph: str, backends: tuple[str, str], tmp_path: Path, launcher: LocalLauncher
) -> None:
    """Savepoints are written the same way by every backend, also beside incremental unaligned checkpoints."""
    more = {
        "execution__checkpointing__incremental": "true",
        "execution__checkpointing__unaligned__enabled": "true",
    }
    client = begin(graph, tmp_path, state__backend__type=backends[0], **more)
    wait_for_snapshots(launcher, 2)
    client.trigger_savepoint(str(tmp_path / "sp")).result(TIMEOUT)
    path = client.stop_with_savepoint(False, str(tmp_path / "sp")).result(TIMEOUT)
    finish(client)
    manifest = read_manifest(path).manifest
    assert not manifest.channels and not any(name.startswith("shared/") for name in manifest.files())
    finish(go_on(graph, tmp_path, path, 3, state__backend__type=backends[1], **more))
    assert output(graph, tmp_path / "out") == GRAPHS[graph][1](COUNT)


def test_a_crash_after_a_savepoint_goes_back_to_a_checkpoint(tmp_path: Path, launcher: LocalLauncher) -> None:
    """What was prepared for the savepoint is not lost, and not written twice."""
    client = begin("keyed", tmp_path)
    wait_for_snapshots(launcher, 1)
    for slot in (0, 1):
        client.trigger_savepoint(str(tmp_path / "sp")).result(TIMEOUT)
        launcher.clusters[-1].kill(slot)
        until(lambda seen=slot: launcher.jobs[-1].driver.restarts > seen, "the job restarts")
        until(lambda: launcher.jobs[-1].status().name == "RUNNING", "the job runs")
    (tmp_path / "gate").touch()
    finish(client)
    assert output("keyed", tmp_path / "out") == GRAPHS["keyed"][1](COUNT)


def test_savepoints_without_any_checkpoints(tmp_path: Path) -> None:
    """Neither an interval nor a directory: savepoints work all the same, and commit what they end with."""

    def job(path: str | None) -> Any:
        more = {} if path is None else {"execution__state_recovery__path": path}
        env = environment(None, execution__checkpointing__savepoint_dir=str(tmp_path / "sp"), **more)
        source = Pace(RATE, tmp_path / "gate" if path is None else None).source(lambda i: i, COUNT)
        numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
        numbers.map(str).sink_to(text_file_sink(tmp_path / "out")).uid("out")
        return env.execute_async("bare")

    client = job(None)
    client.trigger_savepoint().result(TIMEOUT)
    path = client.stop_with_savepoint(False).result(TIMEOUT)
    finish(job(path))
    assert read_text(tmp_path / "out") == sorted(map(str, range(COUNT)))


class Remember(KeyedProcessFunction):
    """Says at the end of time how many there were."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.calls = 0

    def process_element(self, value: Any, ctx: Any) -> Iterator[str]:
        ctx.timer_service().register_event_time_timer(10_000_000)
        yield f"seen {value}"

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[str]:
        yield f"timer of {ctx.get_current_key()}"


@pytest.mark.parametrize("drain", [True, False])
def test_only_drain_fires_timers_and_windows(drain: bool, tmp_path: Path, launcher: LocalLauncher) -> None:
    env = environment(tmp_path / "chk").set_parallelism(2)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda v, _: v)
    numbers = env.from_source(Pace(RATE, tmp_path / "gate").source(lambda i: i, COUNT), strategy, "n").uid(
        "n"
    )
    keyed = numbers.key_by(lambda i: i % 3)
    keyed.process(Remember()).uid("p").sink_to(text_file_sink(tmp_path / "timers")).uid("t")
    windows = keyed.window(TumblingEventTimeWindows.of(1_000_000)).reduce(lambda a, b: a + b).uid("w")
    windows.map(str).sink_to(text_file_sink(tmp_path / "windows")).uid("ws")
    client = env.execute_async("drained")
    wait_for_snapshots(launcher, 3)
    client.stop_with_savepoint(drain, str(tmp_path / "sp")).result(TIMEOUT)
    finish(client)
    lines = read_text(tmp_path / "timers")
    seen = [int(line.split()[1]) for line in lines if line.startswith("seen")]
    fired = [line for line in lines if line.startswith("timer")]
    assert 0 < len(seen) < COUNT
    assert fired == ([f"timer of {key}" for key in range(3)] if drain else [])
    assert sum(map(int, read_text(tmp_path / "windows"))) == (sum(seen) if drain else 0)


# --- what goes wrong ------------------------------------------------------------------------------


class Touchy:
    """Cannot be pickled while a file is there."""

    def __init__(self, bad: Path) -> None:
        self._bad = bad

    def __deepcopy__(self, memo: dict[int, Any]) -> Touchy:
        return self

    def __reduce__(self) -> Any:
        if self._bad.exists():
            raise TypeError("this cannot be pickled")
        return Touchy, (self._bad,)


class Blocks(MapFunction):
    """Has state that cannot be written while a file is there."""

    def __init__(self, bad: Path) -> None:
        self._bad = bad

    def open(self, runtime_context: RuntimeContext) -> None:
        runtime_context.get_operator_list_state("odd").update([Touchy(self._bad)])

    def map(self, value: int) -> str:
        return str(value)


def blocked_job(tmp_path: Path, **settings: str) -> JobClient:
    env = environment(
        tmp_path / "chk", execution__checkpointing__tolerable_failed_checkpoints="100000", **settings
    ).set_parallelism(2)
    source = Pace(RATE, tmp_path / "gate").source(lambda i: i, COUNT)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "n")
    numbers.rebalance().map(Blocks(tmp_path / "bad")).sink_to(text_file_sink(tmp_path / "out"))
    return env.execute_async("blocked")


@pytest.mark.parametrize("way", ["savepoint", "stop"])
def test_a_savepoint_that_fails_leaves_the_job_running(
    way: str, tmp_path: Path, launcher: LocalLauncher
) -> None:
    client = blocked_job(tmp_path)
    wait_for_snapshots(launcher, 1)
    (tmp_path / "bad").touch()
    directory = str(tmp_path / "sp")

    asked = (
        client.stop_with_savepoint(False, directory) if way == "stop" else client.trigger_savepoint(directory)
    )
    with pytest.raises(SnapshotError, match="the savepoint failed: a task could not take part.*pickled"):
        asked.result(TIMEOUT)
    (tmp_path / "bad").unlink()
    (tmp_path / "gate").touch()
    finish(client)
    assert launcher.jobs[-1].driver.restarts == 0
    assert read_text(tmp_path / "out") == sorted(map(str, range(COUNT)))
    left = [path for path in (tmp_path / "sp").iterdir() if not (path / "_metadata").exists()]
    assert left == [], "what was written of a failed savepoint is removed"


def test_bad_directories_are_refused_in_words(tmp_path: Path, launcher: LocalLauncher) -> None:
    client = begin("keyed", tmp_path)
    with pytest.raises(ConfigError, match=r"execution\.checkpointing\.savepoint-dir"):
        client.trigger_savepoint().result(TIMEOUT)
    wait_for_snapshots(launcher, 1)
    with pytest.raises(ConfigError, match="directory of the job's checkpoints"):
        client.trigger_savepoint(str(tmp_path / "chk" / job_directory("job keyed"))).result(TIMEOUT)
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="because it is a file"):
        client.stop_with_savepoint(True, str(tmp_path / "file")).result(TIMEOUT)
    (tmp_path / "gate").touch()
    finish(client)
    with pytest.raises(SnapshotError, match="the job has ended"):
        client.trigger_savepoint(str(tmp_path / "sp")).result(TIMEOUT)
    assert output("keyed", tmp_path / "out") == GRAPHS["keyed"][1](COUNT)


@pytest.mark.parametrize("graph", ["keyed", "two_inputs", "columns"])
@pytest.mark.parametrize("delay_ms", [0, 2, 5, 10, 20])
@pytest.mark.parametrize("drain", [False, True])
def test_a_crash_while_the_job_stops(
    graph: str, delay_ms: int, drain: bool, tmp_path: Path, launcher: LocalLauncher
) -> None:
    """Either the job ends with its savepoint, or it goes on; nothing is lost or doubled either way."""
    client = begin(graph, tmp_path)
    wait_for_snapshots(launcher, 1)
    asked = client.stop_with_savepoint(drain, str(tmp_path / "sp"))
    threading.Event().wait(delay_ms / 1000)
    launcher.clusters[-1].kill(1)
    try:
        path = asked.result(TIMEOUT)
    except SnapshotError as error:
        until(lambda: launcher.jobs[-1].status().name == "RUNNING", f"the job goes on after: {error}")
        (tmp_path / "gate").touch()
        finish(client)
    else:
        finish(client)
        if not (drain and graph == "two_inputs"):  # whose timers a drained job has fired too early
            finish(go_on(graph, tmp_path, path, 2))
    if not (drain and graph == "two_inputs"):
        assert output(graph, tmp_path / "out") == GRAPHS[graph][1](COUNT)
