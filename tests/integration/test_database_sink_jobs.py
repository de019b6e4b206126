"""Whole jobs into real databases, with crashes: the table ends as if there had been none."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest
from flow_graphs import Pace
from local_jobs import environment

from penstock.common import Row, Types, WatermarkStrategy
from penstock.connectors.database import two_phase
from penstock.connectors.database.committer import TwoPhaseCommitter
from penstock.core.errors import JobFailedError
from penstock.datastream import KeyedProcessFunction
from penstock.datastream.connectors.database import Delivery
from penstock.datastream.connectors.jdbc import JdbcConnectionOptions, JdbcSink
from penstock.datastream.state import ValueStateDescriptor
from penstock.testing.local import local_cluster
from penstock.testing.scripted_source import AwaitCheckpoint, Crash, Pause, cued_source

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "unit" / "connectors"))
from database_kit import MARIADB, POSTGRESQL, database, until  # noqa: E402

from tests.patience import PATIENCE_S

COUNTS = Types.ROW_NAMED(["k", "n"], [Types.STRING(), Types.LONG()])
NUMBERS = Types.ROW_NAMED(["n"], [Types.LONG()])
KEYS = "abcdefg"


@pytest.fixture(params=[MARIADB, POSTGRESQL], ids=["mariadb", "postgresql"])
def db(request):
    for db in database(request, request.param):
        db.run("CREATE TABLE sink_counts (k VARCHAR(10) PRIMARY KEY, n BIGINT)")
        db.run(
            f"CREATE TABLE sink_numbers ({'id BIGINT AUTO_INCREMENT' if db.is_mysql else 'id BIGSERIAL'} "
            "PRIMARY KEY, n BIGINT)"
        )
        yield db


class Count(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield Row(value, count)


def script(values):
    """Half of the values, a checkpoint, some more, a crash, some more, a crash right after a checkpoint."""
    a, b, c = (len(values) * i // 4 for i in (1, 2, 3))
    return [
        *values[:a],
        AwaitCheckpoint(),
        *values[a:b],
        Crash(),
        *values[b:c],
        AwaitCheckpoint(),
        Crash(),
        *values[c:],
    ]


def letters(split):
    return [KEYS[(number * 3 + split) % len(KEYS)] for number in range(120)]


def count_into(env, sink):
    source = cued_source(script(letters(0)), script(letters(1)))
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "letters", Types.STRING())
    stream.key_by(lambda letter: letter).process(Count(), COUNTS).uid("count").sink_to(sink).uid("table")


def expected_counts():
    everything = letters(0) + letters(1)
    return sorted((key, everything.count(key)) for key in KEYS)


@pytest.mark.parametrize("delivery", list(Delivery))
def test_counts_by_key_are_exact_after_crashes(db, delivery, tmp_path):
    sink = db.builder("sink_counts").set_key_columns("k").set_delivery(delivery).build()
    with local_cluster(slots=2):
        env = environment(tmp_path)
        count_into(env, sink)
        env.execute("counts")
    assert sorted(db.run("SELECT k, n FROM sink_counts")) == expected_counts()
    assert db.prepared() + db.staging() == []


@pytest.mark.parametrize("delivery", [Delivery.TWO_PHASE, Delivery.BULK_LOAD])
def test_savepoints_do_not_disturb_a_job_that_writes_the_same_rows_again(db, delivery, tmp_path):
    """What a savepoint prepared is committed with the next checkpoint, which wants the same rows."""
    sink = db.builder("sink_counts").set_key_columns("k").set_delivery(delivery).build()
    with local_cluster(slots=2) as launcher:
        env = environment(tmp_path / "chk", execution__checkpointing__interval="300 ms")
        paced = Pace(len(KEYS) / 0.015, tmp_path / "gate")
        source = paced.source(lambda i: KEYS[i % len(KEYS)], 40 * len(KEYS))
        stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "letters", Types.STRING())
        stream.key_by(lambda letter: letter).process(Count(), COUNTS).uid("count").sink_to(sink).uid("table")
        client = env.execute_async("counts")
        for _ in range(2):
            client.trigger_savepoint(str(tmp_path / "sp")).result(PATIENCE_S)
        (tmp_path / "gate").touch()
        client.get_job_execution_result().result(PATIENCE_S)
        assert launcher.jobs[-1].driver.restarts == 0
    assert sorted(db.run("SELECT k, n FROM sink_counts")) == [(key, 40) for key in KEYS]
    assert db.prepared() + db.staging() == []


@pytest.mark.parametrize("stopped", [False, True], ids=["ended", "stopped"])
def test_the_last_rows_are_there_when_the_job_is_over_however_slow_commits_are(
    db, stopped, tmp_path, monkeypatch
):
    commit_one = TwoPhaseCommitter.commit_one

    def slowly(self, connection, item):
        time.sleep(0.7)
        return commit_one(self, connection, item)

    monkeypatch.setattr(TwoPhaseCommitter, "commit_one", slowly)
    monkeypatch.setattr(two_phase, "_COMMIT_PAUSES_S", ())
    letters = [item for number in range(30) for item in (*KEYS, Pause(20))]
    sink = db.builder("sink_counts").set_key_columns("k").set_delivery(Delivery.TWO_PHASE).build()

    def shown():
        return sorted(db.run("SELECT k, n FROM sink_counts"))

    with local_cluster(slots=2) as launcher:
        env = environment(tmp_path / "chk", execution__checkpointing__interval="150 ms")
        source = cued_source(
            [*letters, AwaitCheckpoint(), *KEYS, Pause(int(PATIENCE_S * 1000))] if stopped else letters
        )
        stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "letters", Types.STRING())
        stream.key_by(lambda letter: letter).process(Count(), COUNTS).uid("count").sink_to(sink).uid("table")
        client = env.execute_async("counts")
        if stopped:
            until(lambda: shown() >= [(key, 30) for key in KEYS], "all but the last rows are there")
            client.stop_with_savepoint(False, str(tmp_path / "sp")).result(PATIENCE_S)
        else:
            client.get_job_execution_result().result(PATIENCE_S)
        assert launcher.jobs[-1].driver.restarts == 0
    assert shown() == [(key, 31 if stopped else 30) for key in KEYS]
    assert db.prepared() == []


@pytest.mark.parametrize("delivery", [Delivery.TWO_PHASE, Delivery.BULK_LOAD])
def test_appended_rows_are_there_once_after_crashes(db, delivery, tmp_path):
    sink = db.builder("sink_numbers").set_columns("n").set_delivery(delivery).set_buffer_rows(7).build()
    with local_cluster(slots=2):
        env = environment(tmp_path)
        source = cued_source(script(range(100)), script(range(100, 200)))
        stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers", Types.LONG())
        stream.map(lambda n: Row(n), NUMBERS).sink_to(sink).uid("table")
        env.execute("numbers")
    assert sorted(n for (n,) in db.run("SELECT n FROM sink_numbers")) == list(range(200))
    assert db.prepared() + db.staging() == []


def test_a_refused_row_is_what_the_job_fails_with(db, tmp_path):
    sink = db.builder("sink_counts").set_key_columns("k").build()
    with local_cluster(slots=2):
        env = environment(tmp_path, restart_strategy__type="none")
        env.from_collection([Row("a", 1), Row("far too long a key", 2)], COUNTS).sink_to(sink)
        with pytest.raises(JobFailedError, match="refuses a row.*k='far too long a key', n=2") as raised:
            env.execute("refused")
    assert db.server.password not in str(raised.value)


def test_jdbc_sink_in_a_job(db, tmp_path):
    server = db.server
    options = (
        JdbcConnectionOptions.JdbcConnectionOptionsBuilder()
        .with_url("jdbc:" + db.url.replace(f"{server.user}@", ""))
        .with_user_name(server.user)
        .with_password(server.password)
        .build()
    )
    with local_cluster(slots=2):
        env = environment(tmp_path)
        stream = env.from_collection([Row(n) for n in range(10)], NUMBERS)
        stream.add_sink(JdbcSink.sink("INSERT INTO sink_numbers (n) VALUES (?)", NUMBERS, options))
        env.execute("jdbc")
    assert sorted(n for (n,) in db.run("SELECT n FROM sink_numbers")) == list(range(10))
