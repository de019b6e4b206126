"""The committer of prepared transactions, on the driver.

For a transaction there are five cases:

==================  ===========  =============================================================
the server          the ledger   meaning
==================  ===========  =============================================================
commits it                       the normal case
does not know it    has it       committed earlier: success
lists it only                    its connection is not gone yet: again in a moment
does not know it    lacks it     rolled back or lost: looked at a few times more, then an error
cannot be reached                again in a moment
==================  ===========  =============================================================

Rows that could not be prepared (:class:`CarriedRows`) are written here, with their row in the ledger.

Behind one that has to wait, carried rows of the same writer wait too: an older value must not overwrite a
newer one.  Prepared transactions do not: what they hold, nothing that was open when they were prepared
holds, and one of them may hold the lock that the first one waits for.
"""

from __future__ import annotations

import contextlib
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from penstock.connectors.database import commit_log as ledger
from penstock.connectors.database.connection import Link
from penstock.connectors.database.dialect import Fault, Target, UnknownTransaction
from penstock.connectors.database.names import Maker, owner_prefix, run_prefix, writer_of
from penstock.connectors.database.two_phase import CarriedRows
from penstock.connectors.database.write_target import refused, to_table
from penstock.connectors.sink import CommitOutcome, Committer
from penstock.core.clock import Clock, SystemClock
from penstock.core.discreet import log_of
from penstock.core.errors import PenstockError
from penstock.core.retrying import retry, wait

_log = log_of(__name__)
_LOOKS = 3
"""How often a transaction may seem lost: one that another driver commits right now is in no list either."""
_DETACH_PAUSES_S = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
_TIDY_MS = 3_600_000


class _Unreachable(Exception):
    """There is no use in trying the next one now."""


class CommitLogCommitter(Committer):
    """Commits in order with one connection, and tidies the ledger now and then."""

    def __init__(self, link: Link, clock: Clock | None = None) -> None:
        self._link = link
        self._clock = clock or SystemClock()
        self._tidied: dict[str, int] = {}

    def commit(self, committables: Sequence[Any]) -> Sequence[CommitOutcome]:
        outcomes: list[CommitOutcome] = []
        waiting: set[str] = set()
        try:
            for item in committables:
                writer = writer_of(item.name)
                must_wait = writer in waiting and self.is_ordered(item)
                outcomes.append(CommitOutcome.RETRY if must_wait else self._try(item))
                if outcomes[-1] is CommitOutcome.RETRY:
                    waiting.add(writer)
        except _Unreachable:
            outcomes += [CommitOutcome.RETRY] * (len(committables) - len(outcomes))
        if committables and CommitOutcome.RETRY not in outcomes:
            self._tidy(owner_prefix(committables[-1].name))
        return outcomes

    def is_ordered(self, item: Any) -> bool:
        """Whether it may be committed only after everything older of the same writer."""
        return True

    @abstractmethod
    def commit_one(self, connection: Any, item: Any) -> CommitOutcome:
        """Commit one; raises the driver's errors."""

    def close(self) -> None:
        self._link.close()

    def once(self, connection: Any, item: Any, work: Callable[[], None]) -> CommitOutcome:
        """``work`` in a transaction with the row in the ledger, unless that is there.

        The row is written first: two drivers that commit the same thing at the same time meet there, and
        the second one finds it done.
        """
        with connection.cursor() as cursor:
            if ledger.is_committed(connection, item.name):
                return CommitOutcome.ALREADY_COMMITTED
            cursor.execute("BEGIN")
            try:
                ledger.enter(connection, item.name, item.rows)
            except Exception as e:
                if self._link.dialect.fault(e) is not Fault.DATA:
                    raise
                cursor.execute("ROLLBACK")
                if not ledger.is_committed(connection, item.name):
                    raise
                return CommitOutcome.ALREADY_COMMITTED
            work()
            cursor.execute("COMMIT")
        return CommitOutcome.COMMITTED

    def _try(self, item: Any) -> CommitOutcome:
        dialect = self._link.dialect
        try:
            return self.commit_one(self._link.connection, item)
        except Exception as e:
            self._link.close()
            if isinstance(e, PenstockError):
                raise
            fault = dialect.fault(e)
            if not fault.passing:
                raise self._link.failed(e, f"committing {item.name}") from e
            _log.warning("%s cannot be committed now: %s", item.name, dialect.sentence(e))
            if fault is Fault.LOST:
                raise _Unreachable from e
            return CommitOutcome.RETRY

    def _tidy(self, prefix: str) -> None:
        now = self._clock.now_ms()
        if now - self._tidied.get(prefix, 0) < _TIDY_MS:
            return
        self._tidied[prefix] = now
        try:
            ledger.forget_old(self._link.connection, prefix)
        except Exception as e:
            self._link.close()
            _log.warning("old rows of %s stay: %s", ledger.TABLE, self._link.dialect.sentence(e))


class TwoPhaseCommitter(CommitLogCommitter):
    """Commits prepared transactions, and writes rows that could not be prepared."""

    def __init__(self, link: Link, target: Target, database: str, clock: Clock | None = None) -> None:
        super().__init__(link, clock)
        self._database = database
        self._target = target
        self._missing: Counter[str] = Counter()
        self._runs: set[str] = set()
        """How the names begin of what there was to commit."""

    def is_ordered(self, item: Any) -> bool:
        return isinstance(item, CarriedRows)

    def commit_one(self, connection: Any, item: Any) -> CommitOutcome:
        """One prepared transaction."""
        self._runs.add(run_prefix(item.name))
        if isinstance(item, CarriedRows):
            return self.once(connection, item, lambda: self._write(connection, item))
        transactions = self._link.dialect.transactions
        try:
            transactions.commit(connection, item.name)
        except UnknownTransaction:
            if ledger.is_committed(connection, item.name):
                return CommitOutcome.ALREADY_COMMITTED
            if item.name in transactions.prepared(connection, item.name):
                return self._when_detached(connection, item)
            self._missing[item.name] += 1
            if self._missing[item.name] < _LOOKS:
                return CommitOutcome.RETRY
            raise ledger.lost(self._link.dialect, item.name, item.rows, "the prepared transaction") from None
        return CommitOutcome.COMMITTED

    def finish(self) -> None:
        """Everything is committed, so what these runs still have prepared is of tries that failed."""
        self._link.run(self._roll_back_rest, "rolling back what failed tries prepared")

    def withdraw(self, job_name: str, sink_id: str, generation: int) -> None:
        maker = Maker.after(job_name, sink_id, self._database, generation)
        self._link.run(lambda connection: self._roll_back(connection, maker), "rolling back a failed run")

    def _roll_back(self, connection: Any, maker: Maker) -> None:
        transactions = self._link.dialect.transactions
        for name in transactions.prepared(connection, maker.prefix):
            if maker.is_leftover(name):
                with contextlib.suppress(UnknownTransaction):
                    transactions.roll_back(connection, name)

    def _roll_back_rest(self, connection: Any) -> None:
        transactions = self._link.dialect.transactions
        for run in self._runs:
            for name in transactions.prepared(connection, run):
                with contextlib.suppress(UnknownTransaction):
                    transactions.roll_back(connection, name)

    def _write(self, connection: Any, item: CarriedRows) -> None:
        dialect, changed = self._link.dialect, item.changed
        try:
            dialect.apply(connection, self._target, changed.rows, changed.gone)
        except Exception as e:
            if dialect.fault(e) is not Fault.DATA:
                raise
            self._link.close()
            raise refused(to_table(dialect, self._target), changed, e) from e

    def _when_detached(self, connection: Any, item: Any) -> CommitOutcome:
        """The server is about to notice that the writer closed its connection: mostly milliseconds."""
        commit = self._link.dialect.transactions.commit
        first, *more = _DETACH_PAUSES_S
        wait(first)
        try:
            retry(lambda: commit(connection, item.name), UnknownTransaction, more)
        except UnknownTransaction:
            return CommitOutcome.RETRY
        return CommitOutcome.COMMITTED
