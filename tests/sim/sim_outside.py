"""Outside systems with the rules of the real ones, and sinks that speak to them as the real sinks do.

Each system knows what a real one knows and forgets what it forgets; whoever breaks its rules loses or doubles
records, and the simulation says so.  Faults of commits are thrown by :class:`Faulty`: a commit that fails,
one that succeeds and whose answer gets lost, one that is put off, one that comes twice.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.connectors.sink import CommitOutcome, Committer, Sink, SinkWriter, WriterContext
from penstock.core.batch import Batch
from penstock.core.errors import ConnectorError
from penstock.core.ids import Epoch
from penstock.testing import SimSink
from penstock.testing.sim.environment import SinkTable, current
from penstock.testing.sim.faults import SIMULATED


def epoch_of(transaction: str) -> int:
    return int(transaction.rpartition("/")[2])


class Gathering(SinkWriter):
    """Keeps rows until the barrier; ``stage`` puts them outside under the transaction's name."""

    def __init__(self, name: str, context: WriterContext) -> None:
        self.name = name
        self.context = context
        self.rows: list[Any] = []

    def write(self, batch: Batch) -> None:
        self.rows.extend(batch.to_rows())

    def transaction(self, epoch: Epoch) -> str:
        return f"{self.name}/{self.context.generation}/{self.context.subtask}/{epoch}"

    def prepare_commit(self, epoch: Epoch) -> list[Any]:
        if not self.rows:
            return []
        transaction = self.transaction(epoch)
        fails = current().faults.hit("writer_error", transaction)
        if fails and current().rng.random() < 0.5:
            raise ConnectorError(f"{SIMULATED}nothing was staged")
        rows, self.rows = self.rows, []
        self.stage(transaction, int(epoch), rows)
        if fails:
            raise ConnectorError(f"{SIMULATED}what was staged is not known")
        return [transaction]

    @abstractmethod
    def stage(self, transaction: str, epoch: int, rows: list[Any]) -> None:
        """Put rows outside."""

    def is_left_over(self, generation: int, subtask: int, epoch: int) -> bool:
        """Whether it is this writer's to remove: an older attempt staged it behind the restored snapshot."""
        context = self.context
        behind = context.restored_epoch is None or epoch > context.restored_epoch
        return subtask % context.parallelism == context.subtask and generation < context.generation and behind


class Faulty(Committer):
    """Commits whole epochs, oldest first, with everything that can go wrong on the way."""

    def __init__(self, name: str) -> None:
        self.name = name

    def commit(self, committables: Sequence[Any]) -> Sequence[CommitOutcome]:
        world = current()
        epochs: dict[int, list[str]] = {}
        for transaction in committables:
            if transaction not in world.publishable:
                raise world.broken(f"{transaction} is committed before its snapshot was published")
            epochs.setdefault(epoch_of(transaction), []).append(transaction)
        outcomes: dict[str, CommitOutcome] = {}
        for epoch, transactions in self.ordered(epochs.items()):
            if world.faults.hit("commit_error", self.name):
                raise ConnectorError(f"{SIMULATED}the commit failed")
            if world.faults.hit("commit_retry", self.name):
                outcomes.update(dict.fromkeys(transactions, CommitOutcome.RETRY))
                break  # what comes behind it has to wait
            if world.faults.hit("commit_repeated", self.name):
                self.commit_epoch(epoch, transactions)
            outcomes.update(zip(transactions, self.commit_epoch(epoch, transactions), strict=True))
            if world.faults.hit("commit_error_after", self.name):
                raise ConnectorError(f"{SIMULATED}the commit's answer got lost")
        return [outcomes.get(transaction, CommitOutcome.RETRY) for transaction in committables]

    def ordered(self, epochs: Iterable[tuple[int, list[str]]]) -> Iterable[tuple[int, list[str]]]:
        return sorted(epochs)

    @abstractmethod
    def commit_epoch(self, epoch: int, transactions: list[str]) -> list[CommitOutcome]:
        """Show what was staged."""


def visible(name: str, transaction: str, rows: list[Any]) -> CommitOutcome:
    """The outside system shows these rows from now on."""
    world = current()
    table = world.sink(name)
    table.commits.append((world.scheduler.now, transaction))
    table.committed[transaction] = [*table.committed.get(transaction, ()), *rows]
    world.tell(f"committed {transaction}: {len(rows)} records")
    return CommitOutcome.COMMITTED


# --- a broker: transactional ids, fenced by their epochs ------------------------------------------


@dataclass
class Producer:
    """What a broker knows about a transactional id."""

    epoch: int = 0
    open: tuple[str, list[Any]] | None = None
    """The transaction's name in this test, and its rows."""
    last: str | None = None
    """The transaction committed last."""


@dataclass
class Prepared:
    """What a committable says: whose transaction it is."""

    id: str
    epoch: int


class Broker(SinkTable):
    """Transactions of producers. A newer producer of an id aborts what the older one had open."""

    def __init__(self) -> None:
        super().__init__()
        self.producers: dict[str, Producer] = {}
        self.prepared: dict[str, Prepared] = {}
        """What the committables hold, by their names."""

    def init_transactions(self, id: str) -> int:
        producer = self.producers.setdefault(id, Producer())
        producer.epoch += 1
        producer.open = None
        return producer.epoch

    def produce(self, id: str, epoch: int, transaction: str, rows: list[Any]) -> None:
        producer = self.producers[id]
        if epoch != producer.epoch:
            raise ConnectorError(f"{SIMULATED}the producer {id} of epoch {epoch} is fenced")
        producer.open = (transaction, rows)


class BrokerSink(SimSink):
    """Ids are pooled per writer: an id is used again when its transaction is through."""

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return BrokerWriter(self.name, context)

    def create_committer(self) -> Committer:
        return BrokerCommitter(self.name)


def broker(name: str) -> Broker:
    table = current().sinks.setdefault(name, Broker())
    assert isinstance(table, Broker)
    return table


class BrokerWriter(Gathering):
    def __init__(self, name: str, context: WriterContext) -> None:
        super().__init__(name, context)
        self.pool: list[str] = []
        self.abort_lingering()

    def id_of(self, number: int) -> str:
        """The attempt is part of it: a zombie must not fence a newer attempt's producers."""
        return f"{self.name}-{self.context.generation}-{self.context.subtask}-{number}"

    def abort_lingering(self) -> None:
        """The restored snapshot's transactions are committed before writers start: the rest is left over."""
        for id in list(broker(self.name).producers):
            _, generation, subtask, _ = id.rsplit("-", 3)
            mine = int(subtask) % self.context.parallelism == self.context.subtask
            if mine and int(generation) < self.context.generation:
                broker(self.name).init_transactions(id)

    def stage(self, transaction: str, epoch: int, rows: list[Any]) -> None:
        known = broker(self.name).producers
        id = next((id for id in self.pool if known[id].open is None), None)
        if id is None:
            id = self.id_of(len(self.pool))
            self.pool.append(id)
        fence = broker(self.name).init_transactions(id)
        broker(self.name).produce(id, fence, transaction, rows)
        broker(self.name).prepared[transaction] = Prepared(id, fence)


class BrokerCommitter(Faulty):
    def commit_epoch(self, epoch: int, transactions: list[str]) -> list[CommitOutcome]:
        return [self.commit_one(transaction) for transaction in transactions]

    def abandon(self, job_name: str, sink_id: str, generation: int) -> None:
        """Readers of committed records would wait behind what is open."""
        for id in list(broker(self.name).producers):
            if int(id.rsplit("-", 3)[1]) <= generation:
                broker(self.name).init_transactions(id)

    def commit_one(self, transaction: str) -> CommitOutcome:
        table = broker(self.name)
        prepared = table.prepared[transaction]
        producer = table.producers[prepared.id]
        if not self.is_same(producer, prepared):
            return CommitOutcome.ALREADY_COMMITTED if self.is_done(transaction) else self.lost(transaction)
        if producer.open is None:
            return CommitOutcome.ALREADY_COMMITTED if producer.last == transaction else self.lost(transaction)
        name, rows = producer.open
        producer.open, producer.last = None, name
        return visible(self.name, name, rows)

    def is_same(self, producer: Producer, prepared: Prepared) -> bool:
        return producer.epoch == prepared.epoch

    def is_done(self, transaction: str) -> bool:
        """An id is used again only when its transaction is through."""
        return transaction in broker(self.name).committed

    def lost(self, transaction: str) -> CommitOutcome:
        raise current().broken(f"{transaction} is committed after the broker aborted it")


# --- a database: prepared transactions, and a table of commits inside them -------------------------


class Database(SinkTable):
    """``staged`` are the prepared transactions."""

    def __init__(self) -> None:
        super().__init__()
        self.done: set[str] = set()
        """The table of commits: a transaction's own row in it becomes visible with the transaction."""


def database(name: str) -> Database:
    table = current().sinks.setdefault(name, Database())
    assert isinstance(table, Database)
    return table


class DatabaseSink(SimSink):
    """Transactions prepared under a name that says whose they are."""

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return DatabaseWriter(self.name, context)

    def create_committer(self) -> Committer:
        return DatabaseCommitter(self.name)


class DatabaseWriter(Gathering):
    def __init__(self, name: str, context: WriterContext) -> None:
        super().__init__(name, context)
        staged = database(name).staged
        for transaction, (generation, subtask, epoch, _) in list(staged.items()):
            if self.is_left_over(generation, subtask, epoch):
                del staged[transaction]

    def stage(self, transaction: str, epoch: int, rows: list[Any]) -> None:
        if transaction in database(self.name).staged:
            raise ConnectorError(f"{SIMULATED}{transaction} is prepared already")
        mine = (self.context.generation, self.context.subtask, epoch, rows)
        database(self.name).staged[transaction] = mine


class DatabaseCommitter(Faulty):
    def commit_epoch(self, epoch: int, transactions: list[str]) -> list[CommitOutcome]:
        return [self.commit_one(transaction) for transaction in transactions]

    def commit_one(self, transaction: str) -> CommitOutcome:
        table = database(self.name)
        if transaction in table.staged:
            table.done.add(transaction)
            return visible(self.name, transaction, table.staged.pop(transaction)[3])
        if not self.is_done(transaction):
            raise current().broken(f"{transaction} is committed after it was rolled back")
        return CommitOutcome.ALREADY_COMMITTED

    def is_done(self, transaction: str) -> bool:
        return transaction in database(self.name).done


# --- a table format: a log of versions, each with the writer's own transaction number ---------------


@dataclass
class Version:
    """An entry of the log."""

    app_id: str
    app_version: int
    files: list[str] = field(default_factory=list)


class Lake(SinkTable):
    """``staged`` are data files that no version names."""

    def __init__(self) -> None:
        super().__init__()
        self.log: list[Version] = []


def lake(name: str) -> Lake:
    table = current().sinks.setdefault(name, Lake())
    assert isinstance(table, Lake)
    return table


class LakeSink(SimSink):
    """Writes data files, and one version of the table for each epoch."""

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return LakeWriter(self.name, context)

    def create_committer(self) -> Committer:
        return LakeCommitter(self.name)


class LakeWriter(Gathering):
    def __init__(self, name: str, context: WriterContext) -> None:
        super().__init__(name, context)
        staged = lake(name).staged
        for file, (generation, subtask, epoch, _) in list(staged.items()):
            if self.is_left_over(generation, subtask, epoch):
                del staged[file]

    def stage(self, transaction: str, epoch: int, rows: list[Any]) -> None:
        mine = (self.context.generation, self.context.subtask, epoch, rows)
        lake(self.name).staged[transaction] = mine


class LakeCommitter(Faulty):
    def commit_epoch(self, epoch: int, transactions: list[str]) -> list[CommitOutcome]:
        table = lake(self.name)
        if self.app_version() >= epoch:
            return [CommitOutcome.ALREADY_COMMITTED] * len(transactions)
        gone = [file for file in transactions if file not in table.staged]
        if gone:
            raise current().broken(f"{gone[0]} is committed after it was removed")
        table.log.append(Version(self.name, epoch, transactions))
        return [visible(self.name, file, table.staged.pop(file)[3]) for file in transactions]

    def app_version(self) -> int:
        """The highest epoch that the log has of this sink."""
        return max((version.app_version for version in lake(self.name).log), default=0)


class NoForks(Sink):
    """Beside a sink of this file: a job started from a savepoint would need a second outside world."""

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return _Nothing()


class _Nothing(SinkWriter):
    def write(self, batch: Batch) -> None:
        pass
