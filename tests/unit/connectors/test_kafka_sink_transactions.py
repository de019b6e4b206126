"""Prepared transactions on a real broker: committed by others, repeated, fenced, left behind, reused."""

from __future__ import annotations

import gc
import logging
import multiprocessing
import os
import pickle
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.connectors.kafka.client import client_settings
from penstock.connectors.kafka.sink import KafkaCommitter
from penstock.connectors.kafka.transactions import PreparedTransaction, TransactionState
from penstock.connectors.kafka.wire import TransactionClient
from penstock.connectors.sink import CommitOutcome
from penstock.core.batch import Batch
from penstock.core.errors import ConnectorError
from tests.patience import PATIENCE_S
from tests.unit.connectors.kafka_sinks import Bench, barrier, commit, context, epoch_of, exactly_once
from tests.unit.connectors.kafka_topics import read

ONGOING = TransactionState.ONGOING
BEING_ABORTED = (TransactionState.PREPARE_ABORT, TransactionState.PREPARE_EPOCH_FENCE)
DONE, BEFORE, LATER, LOST = (
    CommitOutcome.COMMITTED,
    CommitOutcome.ALREADY_COMMITTED,
    CommitOutcome.RETRY,
    CommitOutcome.DROPPED,
)


@pytest.fixture
def bench(kafka_server: Any) -> Iterator[Bench]:
    made = Bench(kafka_server.bootstrap)
    yield made
    made.client.close()


def until(true: Callable[[], bool], timeout_s: float = PATIENCE_S) -> None:
    deadline = time.monotonic() + timeout_s
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def values(bench: Bench, committed: bool = True) -> list[str]:
    """What a reader sees."""
    return sorted(message.value().decode() for message in read(bench.bootstrap, bench.topic, committed))


def settle(bench: Bench, prepared: list[PreparedTransaction]) -> None:
    """Until the coordinator, which has answered, is done with what was committed: the ids are free then."""
    ids = [item.transactional_id for item in prepared]
    complete = {TransactionState.COMPLETE_COMMIT}
    until(lambda: {seen and seen.state for seen in bench.client.describe(ids).values()} == complete)


def threads() -> int:
    return len(list(Path("/proc/self/task").iterdir()))


def _write_and_wait(bootstrap: str, topic: str, prefix: str, out: Any) -> None:
    writer = exactly_once(bootstrap, topic, prefix).build().create_writer(context())
    prepared = epoch_of(writer, 1, "a", "b")
    writer.write(Batch.of_rows(["never"]))
    writer.flush(False)
    out.send_bytes(pickle.dumps(prepared))
    time.sleep(PATIENCE_S)


def test_commit_after_kill_nine(bench: Bench) -> None:
    """The process that wrote is dead; another commits what it prepared, and only that."""
    fresh = multiprocessing.get_context("spawn")
    here, there = fresh.Pipe()
    child = fresh.Process(target=_write_and_wait, args=(bench.bootstrap, bench.topic, bench.prefix, there))
    child.start()
    prepared = pickle.loads(here.recv_bytes())
    assert child.pid is not None
    os.kill(child.pid, signal.SIGKILL)
    child.join()
    assert values(bench) == []
    assert commit(bench.sink, prepared) == [DONE]
    assert commit(bench.sink, prepared) == [BEFORE]
    bench.sink.create_writer(context(generation=2)).close()
    assert values(bench) == ["a", "b"]
    assert values(bench, committed=False) == ["a", "b", "never"]


def test_ids_are_used_again_and_old_commits_do_not_reach_new_transactions(bench: Bench) -> None:
    """A stale commit of a reused id is answered as done, and commits nothing."""
    writer = bench.sink.create_writer(context())
    history: list[PreparedTransaction] = []
    for epoch in range(1, 8):
        history += epoch_of(writer, epoch, f"{epoch}")
        assert commit(bench.sink, history[-1:]) == [DONE]
        settle(bench, history[-1:])
    assert len({item.transactional_id for item in history}) <= 3
    history += epoch_of(writer, 8, "prepared")
    assert commit(bench.sink, history[:-1]) == [BEFORE] * 7
    assert values(bench) == [f"{epoch}" for epoch in range(1, 8)]
    assert commit(bench.sink, history) == [BEFORE] * 7 + [DONE]
    assert values(bench)[-1] == "prepared"
    writer.close()


def test_several_epochs_may_wait_for_their_commit(bench: Bench) -> None:
    """Concurrent checkpoints: each has an id of its own until it is committed."""
    writer = bench.sink.create_writer(context())
    waiting = [item for epoch in range(1, 5) for item in epoch_of(writer, epoch, f"{epoch}")]
    assert len({item.transactional_id for item in waiting}) == 4
    assert commit(bench.sink, waiting) == [DONE] * 4
    settle(bench, waiting)
    again = epoch_of(writer, 5, "5") + epoch_of(writer, 6, "6")
    assert again[1].transactional_id == waiting[0].transactional_id
    assert commit(bench.sink, again) == [DONE] * 2
    assert values(bench) == ["1", "2", "3", "4", "5", "6"]
    writer.close()


def test_an_aborted_transaction_is_a_loss_that_is_told(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    """As a timeout does it: the epoch is fenced. The id is never used again, so it can be told for ever."""
    writer = bench.sink.create_writer(context())
    prepared = epoch_of(writer, 1, "a", "b", "c")
    bench.client.fence([prepared[0].transactional_id])
    for _ in range(2):
        with caplog.at_level(logging.ERROR):
            assert commit(bench.sink, prepared) == [LOST]
        assert "DATA LOSS: 3 records" in caplog.text and "transaction.timeout.ms=60000" in caplog.text
        assert bench.topic in caplog.text
        following = [item for epoch in (2, 3, 4) for item in epoch_of(writer, epoch, "x")]
        assert prepared[0].transactional_id not in {item.transactional_id for item in following}
    writer.close()


def test_a_transaction_that_was_fenced_twice_is_a_loss_too(bench: Bench) -> None:
    """As by two attempts that found it at the same moment, or by one and the broker's timeout."""
    writer = bench.sink.create_writer(context())
    prepared = epoch_of(writer, 1, "a")
    name = prepared[0].transactional_id
    link = bench.client
    found = link.describe([name])[name]
    for _ in range(3):
        link._call(lambda each: each.fence_as_seen(name, found))
        until(lambda: link.describe([name])[name].state not in (ONGOING, *BEING_ABORTED))
        assert commit(bench.sink, prepared) == [LOST]
    assert link.describe([name])[name].state is TransactionState.EMPTY
    writer.close()
    assert values(bench) == []


def test_what_was_committed_before_a_fence_is_no_loss(bench: Bench) -> None:
    writer = bench.sink.create_writer(context())
    history = epoch_of(writer, 1, "a")
    name = history[0].transactional_id
    stale = bench.client.describe([name])[name]
    assert commit(bench.sink, history) == [DONE]
    bench.client._call(lambda link: link.fence_as_seen(name, stale))
    assert commit(bench.sink, history) == [BEFORE], "committed between the look and the fence"
    writer.close()
    assert values(bench) == ["a"]


def test_a_cancelled_job_gives_up_what_it_prepared_last(bench: Bench) -> None:
    """Readers would wait for the timeout. What is committed stays, and so does what is of others."""
    writers = [bench.sink.create_writer(context(subtask, 2, generation=3)) for subtask in (0, 1)]
    assert commit(bench.sink, epoch_of(writers[0], 1, "a") + epoch_of(writers[1], 1, "b")) == [DONE] * 2
    for writer in writers:
        epoch_of(writer, 2, "never")
        writer.close()
    newer = bench.sink.create_writer(context(generation=4, job="another"))
    kept = epoch_of(newer, 1, "c")
    assert len(bench.open_ids()) == 3
    committer = bench.sink.create_committer()
    assert committer is not None
    committer.abandon("job", "sink", 2)
    assert len(bench.open_ids()) == 3, "of a newer attempt"
    committer.abandon("job", "sink", 3)
    committer.close()
    until(lambda: bench.open_ids() == [kept[0].transactional_id])
    assert commit(bench.sink, kept) == [DONE]
    newer.close()
    assert values(bench) == ["a", "b", "c"]


def test_an_idle_id_of_a_dead_attempt_is_fenced_once(bench: Bench) -> None:
    writer = bench.sink.create_writer(context(generation=1))
    history = epoch_of(writer, 1, "a")
    commit(bench.sink, history)
    history += epoch_of(writer, 2, "b")
    commit(bench.sink, history[1:])
    idle = writer._supply._next.result()  # type: ignore[attr-defined]
    for generation in (2, 3, 4):
        bench.sink.create_writer(context(generation=generation)).close()
    seen = bench.client.describe([idle.transactional_id])[idle.transactional_id]
    assert seen.producer_epoch == idle.seen.producer_epoch + 1
    assert commit(bench.sink, history) == [BEFORE] * 2
    writer.close()


def test_an_id_the_broker_does_not_know(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    unknown = PreparedTransaction(f"{bench.prefix}-gone", 99, 0, 1, 5, ("t",), 1000)
    assert commit(bench.sink, [unknown]) == [LOST]
    assert "POSSIBLE DATA LOSS: 5 records" in caplog.text


def test_no_broker_is_tried_again_later(bench: Bench) -> None:
    writer = bench.sink.create_writer(context())
    prepared = epoch_of(writer, 1, "a")
    nowhere = KafkaCommitter(client_settings({"bootstrap.servers": "127.0.0.1:1"}), "nobody", timeout_ms=300)
    assert list(nowhere.commit(prepared)) == [LATER]
    nowhere.close()
    assert commit(bench.sink, prepared) == [DONE]
    writer.close()


def test_a_zombie_can_neither_write_nor_disturb(bench: Bench) -> None:
    """An older attempt goes on after a newer one started: its records never show."""
    zombie = bench.sink.create_writer(context(generation=1))
    zombie.write(Batch.of_rows(["z1"]))
    zombie.flush(False)
    writer = bench.sink.create_writer(context(generation=2))
    writer.write(Batch.of_rows(["w1"]))
    with pytest.raises(ConnectorError, match="newer attempt"):
        for _ in range(20):
            zombie.write(Batch.of_rows(["z2"]))
            zombie.flush(False)
    assert commit(bench.sink, barrier(writer, 1)) == [DONE]
    zombie.close()
    assert commit(bench.sink, epoch_of(writer, 2, "w2")) == [DONE]
    assert values(bench) == ["w1", "w2"]
    writer.close()


def test_a_zombie_that_had_not_begun_is_locked_out_too(bench: Bench) -> None:
    """Otherwise its transaction would stay open for as long as its timeout, and hold up all readers."""
    zombie = bench.sink.create_writer(context(generation=1))
    commit(bench.sink, epoch_of(zombie, 1, "a"))
    zombie._supply._next.result()  # type: ignore[attr-defined]
    writer = bench.sink.create_writer(context(generation=2))
    with pytest.raises(ConnectorError, match="newer attempt"):
        zombie.write(Batch.of_rows(["z"]))
        zombie.flush(False)
    assert bench.open_ids() == []
    zombie.close()
    writer.close()
    assert values(bench) == ["a"]


def test_a_zombie_that_starts_late_disturbs_nobody(bench: Bench) -> None:
    """It finds transactions of a newer attempt, prepared and open, and leaves them alone."""
    writer = bench.sink.create_writer(context(generation=2))
    prepared = epoch_of(writer, 1, "prepared")
    writer.write(Batch.of_rows(["open"]))
    writer.flush(False)
    bench.sink.create_writer(context(generation=1)).close()
    prepared += barrier(writer, 2)
    assert commit(bench.sink, prepared) == [DONE, DONE]
    assert values(bench) == ["open", "prepared"]
    writer.close()


def test_leftovers_of_a_larger_parallelism_are_aborted(bench: Bench) -> None:
    """Four subtasks die with open transactions; two take their place, another job's stay."""
    for subtask in range(4):
        dead = bench.sink.create_writer(context(subtask, 4))
        dead.write(Batch.of_rows([f"{subtask}"]))
        dead.flush(False)
    other = bench.sink.create_writer(context(job="fork"))
    kept = epoch_of(other, 1, "kept")
    assert len(bench.open_ids()) == 5
    first = bench.sink.create_writer(context(0, 2, generation=2))
    assert len(bench.open_ids()) == 3
    second = bench.sink.create_writer(context(1, 2, generation=2))
    assert bench.open_ids() == [kept[0].transactional_id]
    assert commit(bench.sink, kept) == [DONE]
    assert values(bench) == ["kept"]
    for writer in (first, second, other):
        writer.close()


def test_close_aborts_what_is_not_prepared_and_keeps_what_is(bench: Bench) -> None:
    writer = bench.sink.create_writer(context())
    prepared = epoch_of(writer, 1, "a")
    writer.write(Batch.of_rows(["b"]))
    writer.flush(False)
    assert len(bench.open_ids()) == 2
    writer.close()
    assert bench.open_ids() == [prepared[0].transactional_id]
    assert commit(bench.sink, prepared) == [DONE]
    assert values(bench) == ["a"]


def test_close_behind_a_reused_id_does_not_look_like_a_loss(bench: Bench) -> None:
    """The open transaction of an id is aborted; the one before it was committed, and that can be told."""
    writer = bench.sink.create_writer(context())
    history: list[PreparedTransaction] = []
    for epoch in range(1, 5):
        history += epoch_of(writer, epoch, f"{epoch}")
        commit(bench.sink, history[-1:])
        settle(bench, history[-1:])
    writer.write(Batch.of_rows(["open"]))
    writer.flush(False)
    writer.close()
    until(lambda: not bench.open_ids())
    assert commit(bench.sink, history) == [BEFORE] * 4


def test_fifty_epochs_leave_no_threads(bench: Bench) -> None:
    writer = bench.sink.create_writer(context())
    committer = bench.sink.create_committer()
    assert committer is not None
    most = []
    for epoch in range(1, 51):
        prepared = epoch_of(writer, epoch, f"{epoch}")
        assert committer.commit(prepared) == [DONE]
        settle(bench, prepared)
        most.append(threads())
    assert max(most[10:]) <= max(most[:10]) + 2
    writer.close()
    committer.close()
    assert len(values(bench)) == 50


def test_epochs_without_records_cost_nothing(bench: Bench) -> None:
    writer = bench.sink.create_writer(context())
    assert [barrier(writer, epoch) for epoch in (1, 2, 3)] == [[], [], []]
    prepared = epoch_of(writer, 4, "a")
    assert prepared[0].producer_epoch == 0 and prepared[0].records == 1
    seen = bench.client.describe([prepared[0].transactional_id])[prepared[0].transactional_id]
    assert seen is not None and seen.state is TransactionState.ONGOING
    writer.close()


def test_two_sinks_with_one_prefix_write_side_by_side(bench: Bench) -> None:
    """Different jobs, hence different ids: neither takes the other's transactions for left over."""
    one = bench.sink.create_writer(context(job="one"))
    prepared = epoch_of(one, 1, "1")
    two = bench.sink.create_writer(context(job="two"))
    prepared += epoch_of(two, 1, "2")
    assert commit(bench.sink, prepared) == [DONE, DONE]
    assert values(bench) == ["1", "2"]
    one.close()
    two.close()


def test_committables_hold_no_secret() -> None:
    secret = "hunter2"
    sink = exactly_once("127.0.0.1:1", "t").set_property("sasl.password", secret).build()
    assert secret not in repr(sink) and secret not in repr(sink._settings) and secret not in str(vars(sink))
    assert secret not in repr(client_settings({"bootstrap.servers": "x:1", "sasl.password": secret}))
    assert "password" not in {name for name in PreparedTransaction.__dataclass_fields__}


def test_clients_of_coordinators_leave_no_sockets(bench: Bench) -> None:
    """Nor do they leave them to the garbage collector."""
    counts = []
    gc.disable()
    try:
        for _ in range(4):
            client = TransactionClient(client_settings({"bootstrap.servers": bench.bootstrap}))
            client.describe(["x"])
            client.close()
            counts.append(len(list(Path("/proc/self/fd").iterdir())))
    finally:
        gc.enable()
    assert counts[-1] <= counts[0]
