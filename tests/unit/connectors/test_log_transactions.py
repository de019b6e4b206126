"""Staged transactions: one copy in the log, whatever crashes between any two steps."""

import json
import shutil

import pyarrow as pa
import pytest

from penstock.connectors.log import CorruptLogError, Log, Producer, commit_staged
from penstock.connectors.log.frame import SCHEMA
from penstock.connectors.log.partition import PartitionWriter
from penstock.connectors.log.staging import Identity, Transaction, remove_leftovers
from penstock.connectors.sink import CommitOutcome
from penstock.core.errors import ConnectorError
from penstock.core.ids import Epoch

COMMITTED, ALREADY = CommitOutcome.COMMITTED, CommitOutcome.ALREADY_COMMITTED


class Crash(Exception):
    """The process dies here."""


def _rows(*values):
    times = list(range(len(values)))
    return pa.RecordBatch.from_arrays(
        [pa.array(times), pa.nulls(len(values), pa.binary()), pa.array(values)], schema=SCHEMA
    )


def _who(run="r1", generation=1, subtask=0, job="job"):
    return Identity(job, "sink", subtask, generation, run)


def _transaction(topic, **who):
    return Transaction(0, topic.partition_path(0), _who(**who))


def _stage(topic, epoch, *values, **who):
    transaction = _transaction(topic, **who)
    transaction.add(_rows(*values))
    return transaction.stage(Epoch(epoch))


def _commit(topic, *committables):
    writer = topic.writer(0)
    try:
        return commit_staged(writer, committables)
    finally:
        writer.close()


def _values(topic):
    reader = topic.reader(0)
    values = reader.read(reader.start_offset(), 10_000).column("value").to_pylist()
    reader.close()
    return values


def _pending(topic):
    return sorted(path.name for path in (topic.partition_path(0) / "pending").iterdir())


@pytest.fixture
def topic(tmp_path):
    return Log(tmp_path).create_topic("t")


def test_staged_records_are_invisible_until_committed_and_then_one_frame(topic):
    transaction = _transaction(topic)
    for value in (b"a", b"b", b"c"):
        transaction.add(_rows(value))
        transaction.spill()
    staged = transaction.stage(Epoch(4))
    assert staged.records == 3 and len(_pending(topic)) == 1
    assert _values(topic) == []
    assert transaction.stage(Epoch(5)) is None
    assert _commit(topic, staged) == [COMMITTED]
    assert _values(topic) == [b"a", b"b", b"c"] and _pending(topic) == []
    frame = topic.writer(0)
    with frame.locked():
        assert frame.committed_epoch(_who().producer) == 4
        assert frame.committed_epoch("other") is None


def test_committing_again_changes_nothing(topic):
    first, second = _stage(topic, 1, b"a"), _stage(topic, 2, b"b")
    assert _commit(topic, first) == [COMMITTED]
    assert _commit(topic, first, second) == [ALREADY, COMMITTED]
    assert _commit(topic, first, second) == [ALREADY, ALREADY]
    assert _values(topic) == [b"a", b"b"]


@pytest.mark.parametrize("step", ["write_all", "_note", "sync", "unlink"])
@pytest.mark.parametrize("segment_bytes", [1, 1 << 20])
def test_a_crash_at_any_step_and_a_second_commit_give_one_copy(tmp_path, monkeypatch, step, segment_bytes):
    topic = Log(tmp_path).create_topic("t", segment_bytes=segment_bytes)
    _commit(topic, _stage(topic, 1, b"before"))
    staged = _stage(topic, 2, b"a", b"b")

    def crash(*args, **kwargs):
        raise Crash

    with monkeypatch.context() as patch:
        if step == "write_all":
            patch.setattr("penstock.connectors.log.partition.write_all", crash)
        elif step == "unlink":
            patch.setattr("pathlib.Path.unlink", crash)
        else:
            patch.setattr(PartitionWriter, step, crash)
        with pytest.raises(Crash):
            _commit(topic, staged)
    assert len(_pending(topic)) == 1
    outcome = _commit(topic, staged)
    assert outcome == [COMMITTED if step in ("write_all", "_note") else ALREADY]
    assert _values(topic) == [b"before", b"a", b"b"] and _pending(topic) == []


@pytest.mark.parametrize("step", ["save_producers", "sync_path", "drop_older", "apply_retention"])
def test_a_crash_while_rolling_loses_no_producer(tmp_path, monkeypatch, step):
    topic = Log(tmp_path).create_topic("t", segment_bytes=1)
    first, second = _stage(topic, 1, b"a"), _stage(topic, 2, b"b")
    _commit(topic, first)

    def crash(*args, **kwargs):
        raise Crash

    with monkeypatch.context() as patch:
        patch.setattr(f"penstock.connectors.log.partition.{step}", crash)
        with pytest.raises(Crash):
            _commit(topic, second)
    assert _commit(topic, first, second) == [ALREADY, COMMITTED]
    assert _commit(topic, first, second) == [ALREADY, ALREADY]
    assert _values(topic) == [b"a", b"b"]


def test_a_commit_torn_at_any_byte_is_repeated_whole(topic):
    _commit(topic, _stage(topic, 1, b"before"))
    segment = topic.partition_path(0) / f"{0:020d}.log"
    size = segment.stat().st_size
    staged = _stage(topic, 2, b"a")
    copy = topic.path / "copy"
    shutil.copytree(topic.partition_path(0) / "pending", copy)
    _commit(topic, staged)
    whole = segment.read_bytes()
    for cut in range(size, len(whole), 5):
        segment.write_bytes(whole[:cut])
        shutil.copytree(copy, topic.partition_path(0) / "pending", dirs_exist_ok=True)
        assert _commit(topic, staged) == [COMMITTED]
        assert segment.read_bytes() == whole


def test_producers_are_remembered_over_rolls_and_retention(tmp_path):
    topic = Log(tmp_path).create_topic("t", segment_bytes=1, retention_bytes=1)
    staged = [_stage(topic, epoch, b"%d" % epoch) for epoch in (1, 2, 3)]
    for committable in staged:
        _commit(topic, committable)
    with Producer(topic) as producer:
        for _ in range(5):
            producer.send_many([b"x"])
    assert topic.describe().partitions[0].segments == 2
    assert _commit(topic, *staged) == [ALREADY] * 3
    assert len(list(topic.partition_path(0).glob("*.producers"))) == 1


def test_a_lost_sidecar_is_an_error_not_a_second_copy(tmp_path):
    topic = Log(tmp_path).create_topic("t", segment_bytes=1)
    for epoch in (1, 2):
        _commit(topic, _stage(topic, epoch, b"x"))
    for path in topic.partition_path(0).glob("*.producers"):
        path.unlink()
    with pytest.raises(CorruptLogError, match="which transactions"):
        _commit(topic, _stage(topic, 3, b"y"))


def test_a_removed_staged_file_is_never_passed_over(topic):
    staged = _stage(topic, 1, b"a", b"b")
    (topic.partition_path(0) / "pending" / staged.file).unlink()
    with pytest.raises(ConnectorError, match="2 records of epoch 1 cannot be committed.*was removed"):
        _commit(topic, staged)


@pytest.mark.parametrize("position", [0, 20, 70, -1])
def test_a_damaged_staged_file_is_refused_and_leaves_nothing(topic, position):
    staged = _stage(topic, 1, b"a")
    path = topic.partition_path(0) / "pending" / staged.file
    raw = bytearray(path.read_bytes())
    raw[position] ^= 1
    path.write_bytes(raw)
    with pytest.raises(CorruptLogError, match="damaged"):
        _commit(topic, staged)
    assert _values(topic) == [] and topic.describe().partitions[0].bytes == 0


def test_leftovers_of_older_attempts_go_and_nothing_else(topic):
    kept = [
        _stage(topic, 3, b"restored, may be committed again", run="a", generation=1),
        _stage(topic, 9, b"same generation", run="b", generation=2, subtask=1),
        _stage(topic, 9, b"newer generation", run="c", generation=3),
        _stage(topic, 9, b"another job", run="d", generation=1, job="other"),
    ]
    _stage(topic, 4, b"not in the restored snapshot", run="a", generation=1)
    _stage(topic, 4, b"of a vanished subtask", run="e", generation=1, subtask=7)
    spooling = _transaction(topic, run="f", generation=1)
    spooling.add(_rows(b"x"))
    spooling.spill()
    assert remove_leftovers(topic.partition_path(0), _who("now", 2), Epoch(3)) == 3
    assert _pending(topic) == sorted(committable.file for committable in kept)
    assert remove_leftovers(topic.partition_path(0), _who("now", 2), None) == 1


def test_an_abandoned_transaction_leaves_no_file(topic):
    transaction = _transaction(topic)
    transaction.add(_rows(b"x"))
    transaction.spill()
    assert len(_pending(topic)) == 1
    transaction.abandon()
    assert _pending(topic) == [] and transaction.stage(Epoch(1)) is None


# --- producers are forgotten with their records ---


def _sidecar(topic):
    (path,) = topic.partition_path(0).glob("*.producers")
    return json.loads(path.read_bytes())


def _short_lived(tmp_path):
    """A topic of one frame per segment that keeps two or three of them."""
    return Log(tmp_path).create_topic("t", segment_bytes=1, retention_bytes=250)


def test_the_memory_of_producers_is_as_long_as_the_log(tmp_path):
    """Every attempt of a job has writers of its own, for years."""
    topic = _short_lived(tmp_path)
    history = []
    for attempt in range(1, 60):
        history.append(_stage(topic, attempt, b"x", run=f"r{attempt}", generation=attempt))
        assert _commit(topic, history[-1]) == [COMMITTED]
    kept = len(_values(topic))
    assert kept < 10
    assert len(_sidecar(topic)["committed"]) <= kept + 1, "retention comes after the sidecar is written"
    assert len(_sidecar(topic)["forgotten"]) == 1, "one for each subtask of each sink"
    assert _commit(topic, *history[-kept:]) == [ALREADY] * kept


def test_what_is_forgotten_is_told_and_not_written_again(tmp_path, caplog):
    topic = _short_lived(tmp_path)
    history = [_stage(topic, n, b"x", run=f"r{n}") for n in range(1, 20)]
    for staged in history:
        _commit(topic, staged)
    before = _values(topic)
    assert _commit(topic, history[0]) == [CommitOutcome.DROPPED]
    assert "POSSIBLE DATA LOSS: nobody can tell whether 1 records of epoch 1" in caplog.text
    assert _values(topic) == before
    never = _stage(topic, 30, b"y", run="r30")
    (topic.partition_path(0) / "pending" / never.file).unlink()
    with pytest.raises(ConnectorError, match="staged file .* was removed"):
        _commit(topic, never)


def test_a_producer_with_a_staged_file_is_not_forgotten(tmp_path, monkeypatch):
    """Its commit may be repeated: a crash hit between the append and the removal of the file."""
    topic = _short_lived(tmp_path)
    crashed = _stage(topic, 1, b"once", run="crashed")
    with monkeypatch.context() as patch:
        patch.setattr("pathlib.Path.unlink", _crash)
        with pytest.raises(Crash):
            _commit(topic, crashed)
    for n in range(2, 20):
        _commit(topic, _stage(topic, n, b"x", run=f"r{n}"))
    assert b"once" not in _values(topic) and _pending(topic)
    assert _commit(topic, crashed) == [ALREADY]
    assert b"once" not in _values(topic) and not _pending(topic)


def _crash(*args, **kwargs):
    raise Crash


def test_sidecars_of_older_versions(tmp_path):
    topic = Log(tmp_path).create_topic("t", segment_bytes=1)
    history = [_stage(topic, n, b"x", run=f"r{n}") for n in (1, 2, 3)]
    for staged in history:
        _commit(topic, staged)
    (path,) = topic.partition_path(0).glob("*.producers")
    epochs = {producer: epoch for producer, (epoch, _) in _sidecar(topic)["committed"].items()}
    path.write_text(json.dumps(epochs))
    assert _commit(topic, *history) == [ALREADY] * 3
    _commit(topic, _stage(topic, 4, b"x", run="r4"))
    assert _commit(topic, *history) == [ALREADY] * 3
