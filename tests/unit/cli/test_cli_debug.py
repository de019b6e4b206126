"""``penstock debug``, and ``penstock replay`` from a savepoint: the demo's program, stopped half way."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from progress import until

from penstock.cli.main import cli
from penstock.connectors.log import Log, Producer
from penstock.datastream import StreamExecutionEnvironment
from penstock.demo.clicks import FIRST_MS, HOUR_MS
from penstock.demo.hourly_counts import build
from penstock.spark.launcher import publish_to_registry
from penstock.testing.local import LocalLauncher, local_cluster
from tests.patience import PATIENCE_S

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = ROOT / "examples" / "hourly_counts.py"
MINUTE = 60_000


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalLauncher]:
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    for topic in ("clicks", "hourly-counts", "alerts"):
        Log(tmp_path / "log").create_topic(topic, partitions=1)
    with local_cluster(slots=2) as launcher:
        yield launcher
        for job in launcher.jobs:
            job.cancel().result(PATIENCE_S)


def call(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [str(argument) for argument in arguments])


def send(log: Path, *clicks: tuple[str, int]) -> None:
    with Producer(Log(log).topic("clicks")) as producer:
        for country, minute in clicks:
            value = json.dumps({"country": country, "user": 1}).encode()
            producer.send(value, timestamp=FIRST_MS + minute * MINUTE)
        producer.sync()


@pytest.fixture
def savepoint(cluster: LocalLauncher, tmp_path: Path) -> str:
    """Of the running job, behind two clicks from Germany and one from France; more have come since."""
    log = tmp_path / "log"
    send(log, ("de", 5), ("fr", 6), ("de", 7))
    env = StreamExecutionEnvironment.get_execution_environment()
    env.enable_checkpointing(50)
    build(env, str(log), 3)
    publish_to_registry(env.execute_async("hourly-counts").handle)
    job = cluster.jobs[-1]
    until(
        lambda: job.coordinator.checkpoints.last_published is not None or job.result().done(),
        "a snapshot is there",
    )
    place = call("stop", "hourly-counts", "--savepoint", tmp_path / "sp").stdout.strip()
    send(log, ("de", 8), ("fr", 9), ("de", 64), ("fr", 130))
    return place


def test_debug_steps_through_one_key(savepoint: str, tmp_path: Path) -> None:
    result = call("debug", savepoint, PROGRAM, tmp_path / "log", 3, "--key", "de")
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines() == [
        "key de in step hourly-counts",
        "state in the snapshot:",
        f"    clicks: {{{FIRST_MS}: 2}}",
        "    event-time timer for 2026-01-01 00:59:59: set",
        "",
        "1. record at 2026-01-01 00:08:00: Row(country='de', user=1)",
        f"    clicks: {{{FIRST_MS}: 2}} -> {{{FIRST_MS}: 3}}",
        f"    out to alerts: {{'country': 'de', 'hour': {FIRST_MS}, 'clicks': 3}}",
        "",
        "2. record at 2026-01-01 01:04:00: Row(country='de', user=1)",
        f"    clicks: {{{FIRST_MS}: 3}} -> {{{FIRST_MS}: 3, {FIRST_MS + HOUR_MS}: 1}}",
        "    event-time timer for 2026-01-01 01:59:59: not there -> set",
        "",
        "3. event time reached 2026-01-01 02:04:59",
        f"    clicks: {{{FIRST_MS}: 3, {FIRST_MS + HOUR_MS}: 1}} -> gone",
        "    event-time timer for 2026-01-01 00:59:59: set -> gone",
        "    event-time timer for 2026-01-01 01:59:59: set -> gone",
        f"    out: {{'country': 'de', 'hour': {FIRST_MS}, 'clicks': 3}}",
        f"    out: {{'country': 'de', 'hour': {FIRST_MS + HOUR_MS}, 'clicks': 1}}",
        "",
        "the input ended after 3 steps",
    ]
    topics = Log(tmp_path / "log")
    assert topics.topic("alerts").reader(0).end_offset() == 0, "nothing was written"


def test_debug_stops_after_so_many_steps(savepoint: str, tmp_path: Path) -> None:
    result = call("debug", savepoint, PROGRAM, tmp_path / "log", 3, "--key", "de", "--steps", 1)
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[-1] == "stopped after 1 steps; --steps shows more"
    assert "2. record" not in result.stdout


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            ["--key", "de", "--operator", "none"],
            "there is no such keyed step: give one of them as --operator",
        ),
        (["--key", "se"], "no record of key se came"),
    ],
)
def test_what_is_not_there_is_said(savepoint: str, tmp_path: Path, options: list[str], sentence: str) -> None:
    result = call("debug", savepoint, PROGRAM, tmp_path / "log", 3, *options)
    assert sentence in result.output


SUMS = """
import json
from penstock.common import WatermarkStrategy
from penstock.connectors.log import LogSource, Text
from penstock.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
clicks = env.from_source(LogSource("log", "clicks", Text()), WatermarkStrategy.no_watermarks(), "c").uid("c")
ones = clicks.map(lambda text: (json.loads(text)["country"], 1)).key_by(lambda one: one[0])
ones.reduce(lambda a, b: (a[0], a[1] + b[1])).uid("sum").print()
env.execute_async("sums")
"""


def test_debug_shows_the_state_of_a_key_that_gets_no_more_records(
    cluster: LocalLauncher, capsys: pytest.CaptureFixture[str]
) -> None:
    send(Path("log"), ("de", 5), ("fr", 6), ("fr", 7))
    exec(compile(SUMS, "sums", "exec"), {"__name__": "sums"})
    publish_to_registry(cluster.jobs[-1])
    printed: list[str] = []

    def has_both() -> bool:
        printed.append(capsys.readouterr().out)
        return "('fr', 2)" in "".join(printed)

    until(has_both, "both clicks are counted")
    place = call("stop", "sums", "--savepoint", "sp").stdout.strip()
    send(Path("log"), ("de", 8))
    Path("sums.py").write_text(SUMS)
    result = call("debug", place, "sums.py", "--key", "fr")
    assert result.exit_code == 0, result.output
    assert [line for line in result.stdout.splitlines() if line] == [
        "key fr in step sum",
        "state in the snapshot:",
        "    reduced: ('fr', 2)",
        "no record of key fr came, and no timer of it was due",
    ]


@pytest.mark.parametrize("place", ["nowhere=3", "nowhere", "2026-01-01"])
def test_debug_without_a_snapshot_is_one_sentence(cluster: LocalLauncher, tmp_path: Path, place: str) -> None:
    result = call("debug", place, PROGRAM, tmp_path / "log", 3, "--key", "de")
    assert result.exit_code == 1 and f"there is no snapshot at '{place}'" in result.stderr


def test_replay_from_a_savepoint_goes_on_with_its_state(savepoint: str, tmp_path: Path) -> None:
    result = call("replay", PROGRAM, tmp_path / "log", 3, "--from", savepoint, "--output", "out", "-p", 2)
    assert result.exit_code == 0, result.output
    counts = {
        (row["country"], row["hour"]): row["clicks"]
        for file in (tmp_path / "out" / "counts-sink").iterdir()
        if not file.name.startswith(".")
        for row in (eval(json.loads(line)["record"]) for line in file.read_text().splitlines())
    }
    assert counts == {
        ("de", FIRST_MS): 3,
        ("de", FIRST_MS + HOUR_MS): 1,
        ("fr", FIRST_MS): 2,
        ("fr", FIRST_MS + 2 * HOUR_MS): 1,
    }
    assert Log(tmp_path / "log").topic("hourly-counts").reader(0).end_offset() == 0


TWO_SOURCES = """
from penstock.common import WatermarkStrategy
from penstock.connectors.log import LogSource, Text
from penstock.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
none = WatermarkStrategy.no_watermarks()
topics = [env.from_source(LogSource("log", name, Text()), none, name) for name in ("clicks", "alerts")]
topics[0].union(topics[1]).key_by(lambda text: "all").reduce(lambda a, b: a + b).uid("sum").print()
env.execute_async("two")
"""


def test_offsets_of_one_of_two_sources_and_a_job_that_is_not_waited_for(cluster: LocalLauncher) -> None:
    send(Path("log"), ("de", 5), ("fr", 6))
    Path("two.py").write_text(TWO_SOURCES)
    result = call("debug", "earliest", "two.py", "--key", "all", "--until", "clicks-0=1")
    assert result.exit_code == 0, result.output
    assert "1. record" in result.stdout and "2. record" not in result.stdout
    unknown = call("debug", "earliest", "two.py", "--key", "all", "--until", "typo-0=1")
    assert unknown.exit_code == 1 and "offsets are given for typo-0" in unknown.stderr


def test_an_end_that_is_a_snapshot_or_cannot_be_cut_is_refused(savepoint: str, tmp_path: Path) -> None:
    result = call("debug", savepoint, PROGRAM, tmp_path / "log", 3, "--key", "de", "--until", savepoint)
    assert result.exit_code == 2 and "not a snapshot" in result.stderr
    late = TWO_SOURCES.replace(
        ".key_by(", ".assign_timestamps_and_watermarks(strategy.with_timestamp_assigner(At())).key_by("
    ).replace(
        "env = ",
        "from penstock.common.watermark_strategy import TimestampAssigner\n"
        "class At(TimestampAssigner):\n    def extract_timestamp(self, value, time): return 1\n"
        "strategy = WatermarkStrategy.for_monotonous_timestamps()\nenv = ",
        1,
    )
    Path("late.py").write_text(late)
    result = call("debug", "earliest", "late.py", "--key", "all", "--until", "5")
    assert result.exit_code == 1 and "cannot be cut by time" in result.stderr, result.output
