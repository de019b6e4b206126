"""Backfills that would count records twice, or lose some, are refused or warned of."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from penstock.cli.main import cli
from penstock.connectors.log import Log, Producer
from penstock.testing.local import LocalLauncher, local_cluster
from tests.patience import PATIENCE_S

PROGRAM = """
from penstock.common import WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.log import Json, LogOffsets, LogSource

env = StreamExecutionEnvironment.get_execution_environment()
source = LogSource("log", "t", Json(), end=LogOffsets.latest())
lines = env.from_source(source, WatermarkStrategy.for_monotonous_timestamps(), "t").uid("t")
lines.map(lambda line: line["n"]).uid("n").print().uid("out")
env.execute("numbers")
"""
LATER = PROGRAM.replace("for_monotonous_timestamps()", "no_watermarks()").replace(
    ".map(",
    ".assign_timestamps_and_watermarks(WatermarkStrategy.for_monotonous_timestamps()"
    ".with_timestamp_assigner(lambda line, _: line['n'])).map(",
)


@pytest.fixture(autouse=True)
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalLauncher]:
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    Path("program.py").write_text(PROGRAM)
    Log(tmp_path / "log").create_topic("t", partitions=1)
    with Producer(Log(tmp_path / "log").topic("t")) as producer:
        for number in range(3, 10):
            producer.send(b'{"n": %d}' % number, timestamp=number)
        producer.sync()
    Path("history").mkdir()
    for part in range(2):
        rows = [{"n": number, "ts": number} for number in range(part, 7, 2)]
        pq.write_table(pa.Table.from_pylist(rows), f"history/{part}.parquet")
    with local_cluster(slots=2) as launcher:
        yield launcher


def backfill(*options: object) -> Result:
    fixed = ["backfill", "program.py", "--history", "history", "--switch-at", 5]
    return CliRunner().invoke(cli, [str(part) for part in (*fixed, *options)])


def test_with_the_time_column_each_record_counts_once() -> None:
    result = backfill("--time-column", "ts", "--columns", "n, ts")
    assert result.exit_code == 0, result.output
    assert sorted(line for line in result.stdout.split() if line.isdigit()) == [str(n) for n in range(10)]


def test_a_history_without_times_is_refused() -> None:
    """Nothing would be cut off at the switch, and what both sides hold would be counted twice."""
    result = backfill()
    assert result.exit_code == 1 and "name the column that holds them (--time-column)" in result.stderr
    assert not result.stdout.strip()


def test_event_times_that_are_given_behind_the_source_are_refused() -> None:
    Path("program.py").write_text(LATER)
    result = backfill("--time-column", "ts")
    assert result.exit_code == 1 and "records of 't' get their event times only behind it" in result.stderr


def test_a_table_is_none_of_files() -> None:
    result = backfill("--time-column", "ts", "--table", "clicks")
    assert result.exit_code == 2 and "--table is for a history in a database" in result.stderr


def test_a_switch_in_the_future_is_warned_of() -> None:
    result = backfill("--time-column", "ts", "--switch-at", "2999-01-01")
    assert result.exit_code == 0 and "--switch-at lies in the future" in result.stderr


def test_half_a_history_is_gone_on_with_by_the_same_command_only(cluster: LocalLauncher) -> None:
    """And that is said at once, however often failures are answered by a restart."""
    slow = PROGRAM.replace("lambda line:", "lambda line: time.sleep(0.3) or ").replace(
        "\nenv =", "\nimport time\nenv ="
    )
    settings = [
        "-D", "execution.checkpointing.interval=5 ms",
        "-D", "execution.checkpointing.dir=checkpoints",
        "-D", "execution.checkpointing.externalized-checkpoint-retention=RETAIN_ON_CANCELLATION",
        "-D", "penstock.batch.max-rows=1",
        "-p", "1",
    ]  # fmt: skip
    Path("program.py").write_text(
        slow.replace(
            'env.execute("numbers")',
            'job = env.execute_async("numbers").handle\n'
            "while not job.facts()['checkpoints']: time.sleep(0.01)\n"
            f"job.cancel().result({PATIENCE_S})",
        )
    )
    stopped = backfill("--time-column", "ts", *settings)
    assert stopped.exit_code == 0, stopped.output
    Path("program.py").write_text(PROGRAM)
    other = backfill("--time-column", "ts", *settings, "--switch-at", 7)
    assert other.exit_code == 1 and "is now told to switch at 7" in other.stderr
    alone = CliRunner().invoke(cli, ["run", "program.py", *settings])
    assert alone.exit_code == 1 and "while the job still read its history" in alone.stderr
    assert cluster.jobs[-1].facts()["restarts"] == 0
    same = backfill("--time-column", "ts", *settings)
    assert same.exit_code == 0, same.output
    both = [line for line in (stopped.stdout + same.stdout).split() if line.isdigit()]
    assert set(both) == {str(number) for number in range(10)}
