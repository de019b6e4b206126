"""A Kafka broker dies and comes back, and a transaction waits for too long."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator

import pytest

from penstock.connectors.kafka.client import client_settings
from penstock.connectors.kafka.sink import KafkaCommitter
from penstock.connectors.kafka.transactions import TransactionState
from penstock.connectors.sink import CommitOutcome
from penstock.core.batch import Batch
from penstock.testing.servers import KafkaServer
from tests.patience import PATIENCE_S
from tests.servers import skip_without
from tests.unit.connectors.kafka_sinks import Bench, barrier, commit, context, epoch_of, exactly_once
from tests.unit.connectors.kafka_topics import read

DONE, BEFORE, LATER, LOST = (
    CommitOutcome.COMMITTED,
    CommitOutcome.ALREADY_COMMITTED,
    CommitOutcome.RETRY,
    CommitOutcome.DROPPED,
)


@pytest.fixture(scope="module")
def broker() -> Iterator[KafkaServer]:
    skip_without(KafkaServer)
    with KafkaServer({"transaction.abort.timed.out.transaction.cleanup.interval.ms": "200"}) as server:
        yield server


def until(true: Callable[[], bool], timeout_s: float = PATIENCE_S) -> None:
    deadline = time.monotonic() + timeout_s
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def values(bench: Bench) -> list[str]:
    return sorted(message.value().decode() for message in read(bench.bootstrap, bench.topic))


def test_commit_after_the_coordinator_died_and_came_back(broker: KafkaServer) -> None:
    """While it is away the engine is told to try again; afterwards the open transaction is still there."""
    bench = Bench(broker.bootstrap)
    writer = bench.sink.create_writer(context())
    prepared = epoch_of(writer, 1, "a", "b")
    committed = epoch_of(writer, 2, "c")
    assert commit(bench.sink, committed) == [DONE]
    committer = KafkaCommitter(
        client_settings({"bootstrap.servers": broker.bootstrap}), "nobody", timeout_ms=500
    )
    assert committer.commit(committed) == [BEFORE]
    broker.kill()
    assert committer.commit(prepared + committed) == [LATER, LATER]
    broker.restart()
    outcomes: list[CommitOutcome] = []

    def answered() -> bool:
        outcomes[:] = committer.commit(prepared + committed)
        return LATER not in outcomes

    until(answered)
    assert outcomes[1] is BEFORE and outcomes[0] in (DONE, BEFORE)
    assert commit(bench.sink, prepared + committed) == [BEFORE, BEFORE]
    until(lambda: values(bench) == ["a", "b", "c"])
    committer.close()
    bench.client.close()
    writer.close()


def test_a_writer_outlives_the_broker(broker: KafkaServer) -> None:
    """Records written while it is away wait, and arrive once; so do those sent just before."""
    bench = Bench(broker.bootstrap)
    writer = bench.sink.create_writer(context())
    writer.write(Batch.of_rows(["before"]))
    writer.flush(False)
    writer.write(Batch.of_rows(["on the way"]))
    broker.kill()
    writer.write(Batch.of_rows(["without"]))
    broker.restart()
    prepared = barrier(writer, 1) + epoch_of(writer, 2, "after")
    until(lambda: LATER not in commit(bench.sink, prepared))
    until(lambda: values(bench) == ["after", "before", "on the way", "without"])
    writer.close()


def test_a_transaction_that_timed_out(broker: KafkaServer, caplog: pytest.LogCaptureFixture) -> None:
    """The broker aborts it; the commit says what was lost and what to set. The writer goes on."""
    bench = Bench(broker.bootstrap)
    sink = exactly_once(broker.bootstrap, bench.topic).set_property("transaction.timeout.ms", 1000).build()
    writer = sink.create_writer(context())
    prepared = epoch_of(writer, 1, "lost")

    def aborted() -> bool:
        seen = bench.client.describe([prepared[0].transactional_id])[prepared[0].transactional_id]
        return seen is not None and seen.state is TransactionState.COMPLETE_ABORT

    until(aborted)
    with caplog.at_level(logging.ERROR):
        assert commit(sink, prepared) == [LOST]
    assert f"DATA LOSS: 1 records for {bench.topic} of checkpoint 1" in caplog.text
    assert "transaction.timeout.ms=1000" in caplog.text and "transaction.max.timeout.ms" in caplog.text
    assert commit(sink, epoch_of(writer, 2, "kept")) == [DONE]
    until(lambda: values(bench) == ["kept"])
    bench.client.close()
    writer.close()
