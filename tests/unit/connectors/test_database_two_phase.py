"""Prepared transactions on real servers: lost connections, lost transactions, leftovers, several jobs."""

from __future__ import annotations

import logging

import pytest
from database_kit import EXACT, MARIADB, NOW, POSTGRESQL, barrier, commit, database, until, writer_of

from penstock.connectors.database import commit_log as ledger
from penstock.connectors.database.sink import Delivery
from penstock.connectors.sink import CommitOutcome
from penstock.core.batch import Batch
from penstock.core.errors import ConnectorError


@pytest.fixture(params=[MARIADB, POSTGRESQL], ids=["mariadb", "postgresql"])
def db(request):
    for db in database(request, request.param):
        db.run("CREATE TABLE sink_t (k INT NOT NULL PRIMARY KEY, v VARCHAR(10), n BIGINT)")
        yield db


def make(db, delivery=Delivery.TWO_PHASE, **settings):
    builder = db.builder("sink_t").set_columns("k", "v", "n").set_key_columns("k").set_delivery(delivery)
    for name, value in settings.items():
        getattr(builder, name)(value)
    sink = builder.build()
    sink.check()
    return sink


def rows(*keys, v="x", n=0):
    return Batch.of_rows([(key, v, n) for key in keys])


def content(db):
    return sorted(db.run("SELECT k, v, n FROM sink_t"))


@pytest.mark.parametrize("delivery", EXACT)
def test_the_newest_row_of_a_key_wins_within_an_epoch_and_across(db, delivery):
    sink = make(db, delivery, set_buffer_rows=2)
    writer = writer_of(sink)
    writer.write(Batch.of_rows([(1, "a", 1), (2, "a", 1), (1, "b", 2)]))
    writer.write(Batch.of_rows([(2, "c", 3), (3, "a", 1)]))
    writer.write(Batch.of_rows([(1, "d", 4)]))
    commit(sink, barrier(writer))
    assert content(db) == [(1, "d", 4), (2, "c", 3), (3, "a", 1)]
    writer.write(Batch.of_rows([(2, "e", 5)]))
    commit(sink, barrier(writer, 2))
    assert content(db) == [(1, "d", 4), (2, "e", 5), (3, "a", 1)]
    assert db.prepared() + db.staging() == []


def test_a_connection_lost_before_the_barrier_costs_nothing(db):
    sink = make(db)
    writer = writer_of(sink)
    writer.write(rows(1, 2))
    committables = barrier(writer)
    writer.write(rows(3))
    db.kill_sessions()
    committables += barrier(writer, 2)
    commit(sink, committables)
    assert [row[0] for row in content(db)] == [1, 2, 3]


def test_a_connection_lost_in_the_transaction_is_tried_again(db, monkeypatch):
    sink = make(db)
    writer = writer_of(sink)
    enter, cuts = ledger.enter, []

    def cut_first(connection, name, count):
        if not cuts:
            cuts.append(db.kill_sessions())
        enter(connection, name, count)

    monkeypatch.setattr(ledger, "enter", cut_first)
    writer.write(rows(1, 2))
    commit(sink, barrier(writer))
    assert cuts and [row[0] for row in content(db)] == [1, 2]
    assert db.prepared() == []


def test_a_transaction_that_prepared_without_an_answer_is_not_there_twice(db, monkeypatch):
    sink = make(db)
    writer = writer_of(sink)
    kind, lost = type(db.dialect.transactions), []
    prepare = kind.prepare

    def prepare_and_lose(self, connection, name):
        prepare(self, connection, name)
        if not lost:
            lost.append(name)
            connection.close()
            raise ConnectionError("the answer did not arrive")

    monkeypatch.setattr(kind, "prepare", prepare_and_lose)
    writer.write(rows(1))
    committables = barrier(writer)
    assert committables[0].name != lost[0]
    commit(sink, committables)
    assert content(db) == [(1, "x", 0)] and db.prepared() == []


def test_a_large_epoch_streams_and_a_lost_connection_fails_the_attempt(db):
    sink = make(db, set_buffer_rows=10)
    writer = writer_of(sink)
    writer.write(rows(*range(25)))
    db.kill_sessions()
    with pytest.raises(ConnectorError, match="broke off after 25 rows.*goes back to its last checkpoint"):
        writer.write(rows(*range(25, 50)))
    writer.close()
    second = writer_of(sink, generation=2)
    second.write(rows(*range(50)))
    commit(sink, barrier(second))
    assert len(content(db)) == 50


def test_nothing_written_means_nothing_prepared(db):
    sink = make(db)
    writer = writer_of(sink)
    assert barrier(writer) == [] and db.prepared() == []


@pytest.mark.parametrize("delivery", EXACT)
def test_committed_and_lost_are_told_apart(db, delivery):
    sink = make(db, delivery)
    writer = writer_of(sink)
    writer.write(rows(1))
    first = barrier(writer)
    assert commit(sink, first) == ["COMMITTED"]
    assert commit(sink, first) == ["ALREADY_COMMITTED"]
    writer.write(rows(2))
    second = barrier(writer, 2)
    until(lambda: _removed(db, second[0].name), "somebody has removed what was prepared")
    with pytest.raises(
        ConnectorError, match="1 rows of a published checkpoint are lost.*INSERT INTO penstock"
    ):
        commit(sink, second)
    db.run(f"INSERT INTO penstock_commits (id) VALUES ('{second[0].name}')")
    assert commit(sink, first + second) == ["ALREADY_COMMITTED"] * 2
    assert content(db) == [(1, "x", 0)]


def _removed(db, name):
    connection = db.connect()
    try:
        if name in db.staging():
            db.run(f"DROP TABLE {name}")
        else:
            db.dialect.transactions.roll_back(connection, name)
    except Exception:
        return False
    finally:
        connection.close()
    return True


@pytest.mark.parametrize("delivery", EXACT)
def test_leftovers_of_any_subtask_go_and_those_of_other_jobs_stay(db, delivery):
    sink = make(db, delivery)
    for subtask in range(3):
        writer = writer_of(sink, subtask)
        writer.write(rows(subtask))
        barrier(writer)
        writer.close()
    other = {}
    for number, (job, sink_id) in enumerate([("other", "sink"), ("job", "second")]):
        writer = writer_of(sink, job=job, sink_id=sink_id)
        writer.write(rows(10 + number))
        other[barrier(writer)[0].name] = writer
    assert len(db.prepared() + db.staging()) == 5
    second = writer_of(sink, generation=2)
    until(lambda: (barrier(second), set(db.prepared() + db.staging()) == set(other))[1], "they are gone")


def test_what_failed_tries_of_a_run_prepared_goes_with_its_end(db):
    """And nothing of another run, another job or another sink."""
    sink = make(db)

    def prepared(key, **whose):
        writer = writer_of(sink, subtask=1, **whose)
        writer.write(rows(key))
        found = barrier(writer)
        writer.close()
        return found

    prepared(1, generation=12)
    committables = prepared(2, generation=12)
    others = [{"generation": 1}, {"generation": 123}, {"job": "other"}, {"sink_id": "second"}]
    kept = {prepared(10 + i, **{"generation": 12, **other})[0].name for i, other in enumerate(others)}
    committer = sink.create_committer()
    until(lambda: CommitOutcome.RETRY not in committer.commit(committables), "it is committed")
    until(lambda: (committer.finish(), set(db.prepared()) == kept)[1], "the other try is gone")
    committer.close()
    assert content(db) == [(2, "x", 0)]


def test_an_attempt_that_is_over_does_not_touch_what_a_newer_one_prepared(db):
    sink = make(db)
    newer = writer_of(sink, generation=2)
    newer.write(rows(1))
    committables = barrier(newer)
    writer_of(sink, generation=1)
    assert commit(sink, committables) == ["COMMITTED"]


def test_a_job_whose_checkpoints_are_gone_clears_up_after_its_earlier_life(db):
    """Each life counts its attempts from the seconds of the clock at its beginning."""
    sink = make(db)
    writer = writer_of(sink, generation=NOW // 1000 + 7)
    writer.write(rows(1))
    barrier(writer)
    later = writer_of(sink, generation=NOW // 1000 + 700)
    until(lambda: (barrier(later), not db.prepared())[1], "it is gone")


def test_two_subtasks_prepare_interleaved_keys_at_the_same_time(db):
    sink = make(db)
    db.run("INSERT INTO sink_t (k) VALUES " + ", ".join(f"({key})" for key in range(0, 100, 3)))
    writers = [writer_of(sink, subtask) for subtask in range(2)]
    for subtask, writer in enumerate(writers):
        writer.write(rows(*range(subtask, 100, 2)))
    committables = [item for writer in writers for item in barrier(writer)]
    commit(sink, committables)
    assert len(content(db)) == 100


def test_what_cannot_be_reached_is_tried_again_and_holds_up_what_is_newer(db, monkeypatch):
    sink = make(db)
    writer = writer_of(sink)
    prepared = []
    for epoch in (1, 2):
        writer.write(rows(epoch))
        prepared += barrier(writer, epoch)
    committer = sink.create_committer()
    kind, commit_one = type(db.dialect.transactions), type(db.dialect.transactions).commit

    def unreachable(self, connection, name):
        raise ConnectionError("the network is down")

    monkeypatch.setattr(kind, "commit", unreachable)
    assert list(committer.commit(prepared)) == [CommitOutcome.RETRY] * 2
    monkeypatch.setattr(kind, "commit", commit_one)
    assert set(committer.commit(prepared)) == {CommitOutcome.COMMITTED}
    assert [row[0] for row in content(db)] == [1, 2]


@pytest.mark.parametrize("delivery", EXACT)
def test_old_rows_of_the_ledger_are_forgotten(db, delivery):
    sink = make(db, delivery)
    writer = writer_of(sink)
    for epoch in (1, 2):
        writer.write(rows(epoch))
        committables = barrier(writer, epoch)
        commit(sink, committables)
        if epoch == 1:
            db.run("UPDATE penstock_commits SET committed_at = '2020-01-01 00:00:00'")
    assert db.run("SELECT id, row_count FROM penstock_commits") == [(committables[0].name, 1)]


@pytest.mark.parametrize("delivery", EXACT)
def test_a_row_that_does_not_fit_names_itself(db, delivery, caplog):
    sink = make(db, delivery)
    writer = writer_of(sink)
    batch = [(key, "x", key) for key in range(100)]
    batch[61] = (61, "much too long for the column" * 9, 61)
    writer.write(Batch.of_rows(batch))
    with caplog.at_level(logging.DEBUG), pytest.raises(ConnectorError) as raised:
        barrier(writer)
    message = str(raised.value)
    assert (
        "table 'sink_t'" in message and "k=61, v='much too long" in message and "characters), n=61" in message
    )
    assert "too long" in message.split("The row:")[0]
    assert db.server.password not in message + caplog.text
    writer.close()
    second = writer_of(sink, generation=2)
    second.write(rows(1))
    commit(sink, barrier(second))
    assert content(db) == [(1, "x", 0)]


def test_a_staged_row_that_the_target_refuses_is_said_where_it_is(db):
    db.run("ALTER TABLE sink_t ADD CONSTRAINT positive CHECK (n >= 0)")
    sink = make(db, Delivery.BULK_LOAD)
    writer = writer_of(sink)
    writer.write(Batch.of_rows([(key, "x", -1 if key == 7 else 5) for key in range(9)]))
    committables = barrier(writer)
    with pytest.raises(
        ConnectorError,
        match="(?i)refuses a row that was loaded.*positive.*k=7, v='x', n=-1.*start the job again",
    ):
        commit(sink, committables)
    assert content(db) == []
    db.run(f"UPDATE {committables[0].name} SET n = 5")
    assert commit(sink, committables) == ["COMMITTED"]
    assert content(db) == [(key, "x", 5) for key in range(9)]


@pytest.mark.parametrize("delivery", EXACT)
def test_what_a_failed_run_prepared_is_withdrawn(db, delivery):
    sink = make(db, delivery)
    for generation in (3, 4, 5):
        writer = writer_of(sink, subtask=1, generation=generation)
        writer.write(rows(generation))
        barrier(writer)
        writer.close()
    other = writer_of(sink, subtask=1, generation=3, sink_id="other")
    other.write(rows(9))
    barrier(other)
    other.close()
    assert len(db.prepared() + db.staging()) == 4
    committer = sink.create_committer()
    until(
        lambda: committer.withdraw("job", "sink", 4) or len(db.prepared() + db.staging()) == 2, "it is gone"
    )
    kept = db.prepared() + db.staging()
    committer.withdraw("job", "sink", 4)
    assert db.prepared() + db.staging() == kept, "those of a later run, and of another sink"
    for name in ("sink", "other"):
        committer.withdraw("job", name, 9)
    committer.close()
    assert db.prepared() + db.staging() == []
