"""``penstock replay``: the demo's program over pieces of its own past."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from penstock.cli.main import cli
from penstock.connectors.log import Log, Producer
from penstock.demo.clicks import FIRST_MS, HOUR_MS, PARTITIONS, make_clicks
from penstock.testing.local import local_cluster

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = ROOT / "examples" / "hourly_counts.py"
EVENTS = 3000
THRESHOLD = 15


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("replay") / "log"
    made = Log(root)
    made.create_topic("clicks", partitions=PARTITIONS)
    clicks = make_clicks(EVENTS, 7)
    with Producer(made.topic("clicks")) as producer:
        for number, (value, time) in enumerate(
            zip(clicks.values.to_pylist(), clicks.times.tolist(), strict=True)
        ):
            producer.send(value.encode(), partition=number % PARTITIONS, timestamp=time)
        producer.sync()
    return root


@pytest.fixture(autouse=True)
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    with local_cluster(slots=3):
        yield


def call(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["replay", *(str(argument) for argument in arguments)])


def written(output: Path, sink: str) -> list[dict[str, Any]]:
    lines = [
        json.loads(line)
        for file in (output / sink).rglob("*")
        if file.is_file() and not file.name.startswith(".")
        for line in file.read_text().splitlines()
    ]
    return [eval(line["record"]) for line in lines]


def truth(log: Path, start: int = 0, end: int = 2**62) -> Counter[tuple[str, int]]:
    times = make_clicks(EVENTS, 7)
    found: Counter[tuple[str, int]] = Counter()
    for value, time in zip(times.values.to_pylist(), times.times.tolist(), strict=True):
        if start <= time < end:
            found[json.loads(value)["country"], time // HOUR_MS * HOUR_MS] += 1
    return found


def counts(output: Path) -> Counter[tuple[str, int]]:
    return Counter({(row["country"], row["hour"]): row["clicks"] for row in written(output, "counts-sink")})


def test_the_same_code_gives_the_same_results_at_any_parallelism(log: Path, tmp_path: Path) -> None:
    first = call(PROGRAM, log, THRESHOLD, "--from", "earliest", "--output", "one", "-p", 1)
    assert first.exit_code == 0, first.output
    assert counts(tmp_path / "one") == truth(log)
    for parallelism in (1, 2, 3):
        where = ["--from", "earliest", "--output", f"again{parallelism}", "--compare", "one"]
        again = call(PROGRAM, log, THRESHOLD, *where, "-p", parallelism)
        assert again.exit_code == 0, again.output
        assert again.stdout.splitlines()[-1] == "no difference"
    assert Log(log).topics() == ["clicks"], "the program's own output does not even exist"


def test_changed_code_shows_its_difference(log: Path, tmp_path: Path) -> None:
    changed = tmp_path / "changed.py"
    changed.write_text(
        PROGRAM.read_text().replace("clicks == self.threshold", "clicks == self.threshold + 1")
    )
    assert call(PROGRAM, log, THRESHOLD, "--from", "earliest", "--output", "old", "-p", 2).exit_code == 0
    result = call(
        changed,
        log,
        THRESHOLD,
        "--from",
        "earliest",
        "--output",
        "new",
        "-p",
        2,
        "--compare",
        "old",
        "--show",
        2,
    )
    assert result.exit_code == 1, result.output
    told = result.stdout.splitlines()
    alerts = len(written(tmp_path / "old", "alerts-sink"))
    assert told[1].startswith("alerts-sink: 0 the same, ") and f" {alerts} only then" in told[1]
    assert told[2].startswith("- 2026-01-01 ") and f"'clicks': {THRESHOLD}" in told[2]
    assert told[-2] == f"counts-sink: {len(truth(log))} the same, 0 only then, 0 only now"
    assert told[-1] == "the results differ"


def test_a_piece_between_two_event_times(log: Path, tmp_path: Path) -> None:
    start, end = FIRST_MS + 3 * HOUR_MS, FIRST_MS + 6 * HOUR_MS
    result = call(
        PROGRAM, log, THRESHOLD, "--from", "2026-01-01T03:00", "--until", end, "--output", "piece", "-p", 2
    )
    assert result.exit_code == 0, result.output
    assert counts(tmp_path / "piece") == truth(log, start, end)


def test_a_second_run_reads_no_further_than_the_first_did(log: Path, tmp_path: Path) -> None:
    own = tmp_path / "log"
    made = Log(own)
    made.create_topic("clicks", partitions=1)
    with Producer(made.topic("clicks")) as producer:

        def send(country: str) -> None:
            producer.send(json.dumps({"country": country, "user": 1}).encode(), timestamp=FIRST_MS)
            producer.sync()

        send("de")
        assert call(PROGRAM, own, 9, "--from", "earliest", "--output", "old").exit_code == 0
        send("fr")
    result = call(PROGRAM, own, 9, "--from", "earliest", "--output", "new", "--compare", "old")
    assert result.exit_code == 0, result.output
    assert counts(tmp_path / "new") == {("de", FIRST_MS): 1}
    both = call(PROGRAM, own, 9, "--from", "clicks-0=1", "--until", "clicks-0=2", "--output", "both")
    assert both.exit_code == 0, both.output
    assert counts(tmp_path / "both") == {("fr", FIRST_MS): 1}


CLOCKED = """
import sys, time
from penstock.common import WatermarkStrategy
from penstock.connectors.log import LogSource, Text
from penstock.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
lines = env.from_source(LogSource(sys.argv[1], "clicks", Text()), WatermarkStrategy.no_watermarks(), "clicks")
lines.map(lambda line: time.time()).name("stamp").print()
env.execute("clocked")
"""


def test_a_program_that_asks_for_the_time_is_warned_of(log: Path, tmp_path: Path) -> None:
    (tmp_path / "clocked.py").write_text(CLOCKED)
    result = call("clocked.py", log, "--from", "earliest")
    assert result.exit_code == 0, result.output
    assert "step 'stamp' uses the time module; another run may give other results" in result.stderr


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--from", "noon"], "--from takes a time such as"),
        (["--from", "clicks-0=x"], "--from takes offsets such as"),
        (["--from", "earliest", "--until", "."], "only --from can be a snapshot"),
        (["--from", "other-0=3"], "offsets are given for other-0, but the splits are clicks-0"),
        (["--from", "earliest", "--compare", "nowhere"], "is not the output of a finished replay"),
    ],
)
def test_bad_places_are_one_sentence(log: Path, options: list[str], sentence: str) -> None:
    result = call(PROGRAM, log, 5, *options)
    assert result.exit_code != 0 and sentence in result.stderr


def test_it_does_not_write_over_an_earlier_run(log: Path, tmp_path: Path) -> None:
    (tmp_path / "replay").mkdir()
    (tmp_path / "replay" / "mine.txt").write_text("precious")
    result = call(PROGRAM, log, 5, "--from", "earliest")
    assert result.exit_code == 1 and "is not empty" in result.stderr
