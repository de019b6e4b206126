"""The two-phase writer: an epoch's rows in one prepared transaction, visible behind its checkpoint.

Rows wait in memory, the newest of each key; at the barrier one transaction takes them all, with a row in
``penstock_commits``, and is prepared.  Locks are thus held from the barrier to the commit, not for the
whole epoch, and a connection lost on the way costs nothing: the rows are still here and are sent again in
a new transaction.

That holds for ``buffer_rows`` rows.  An epoch with more opens its transaction early and streams into it.
Then a lost connection means that rows are gone which are nowhere else; the attempt fails, and the engine
goes back to the last checkpoint.

By key, a transaction cannot be prepared while the one before it holds the same rows.  That one is committed
within moments, unless its snapshot was given up or is a savepoint: then it is committed with the *next*
checkpoint, which must not wait for it.  The rows themselves are then the committable
(:class:`CarriedRows`): the committer writes them, right behind the transaction that held them.  Until it
has, no later transaction may hold these rows, or the two would wait for each other.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from enum import Enum
from threading import Event
from typing import Any

from penstock.connectors.database import commit_log as ledger
from penstock.connectors.database.connection import Link
from penstock.connectors.database.dialect import Fault, Target, UnknownTransaction
from penstock.connectors.database.names import Maker
from penstock.connectors.database.rows import Changed, Changes
from penstock.connectors.database.write_target import refused, to_table
from penstock.connectors.sink import SinkWriter
from penstock.core.batch import Batch
from penstock.core.errors import ConnectorError
from penstock.core.ids import Epoch


@dataclass(frozen=True, slots=True)
class PreparedRows:
    """Committable: a prepared transaction."""

    name: str
    rows: int


@dataclass(frozen=True, slots=True)
class CarriedRows:
    """Committable: rows that an earlier transaction holds; the committer writes them. By key only."""

    name: str
    rows: int
    changed: Changed


_COMMIT_PAUSES_S = (0.01, 0.02, 0.05, 0.1, 0.3)
"""How long a barrier waits for the commit of the one before it, by key."""
_CLEARING = "rolling back what earlier attempts prepared"


class _Phase(Enum):
    """Where the rows of the current epoch are."""

    WAITING = "in memory, all of them"
    STREAMING = "in an open transaction, except for the newest"


class TwoPhaseWriter(SinkWriter):
    """Prepares one transaction per epoch that has rows."""

    def __init__(
        self,
        link: Link,
        target: Target,
        changes: Changes,
        buffer_rows: int,
        maker: Maker,
    ) -> None:
        self._link = link
        self._target = target
        self._changes = changes
        self._buffer_rows = buffer_rows
        self._maker = maker
        self._number = 0
        self._phase = _Phase.WAITING
        self._name = ""
        """Of this epoch's transaction, once begun. Never of an earlier epoch's: a retry rolls it back."""
        self._sent = 0
        self._open: dict[str, frozenset[Any] | None] = {}
        """By key: what may not be committed yet, and the keys it holds (``None``: too many)."""
        self._leftovers: set[str] = set()
        """Nobody will commit these; some may show up only when the server has noticed a lost connection."""
        if maker.subtask == 0:
            link.run(self._find_leftovers, _CLEARING)

    def write(self, batch: Batch) -> None:
        if self._phase is _Phase.WAITING and not len(self._changes):
            self._link.run(lambda connection: None, self._what)  # connected by the time the barrier comes
        self._changes.add(batch)
        if len(self._changes) >= self._buffer_rows and self._may_stream():
            self._stream()

    def prepare_commit(self, epoch: Epoch) -> list[Any]:
        looks = self._leftovers or (self._maker.subtask == 0 and len(self._changes))
        if looks and self._phase is _Phase.WAITING:
            self._link.run(self._roll_back_leftovers, _CLEARING)
        held = None if self._phase is _Phase.STREAMING else self._changes.keys()
        must_carry = held is not None and self._is_held(held)
        changed = self._changes.take()
        if must_carry:
            return [self._carried(changed, held)]
        if self._phase is _Phase.STREAMING:
            self._streaming(changed, self._end)
        elif len(changed):
            self._guarded(changed, lambda: self._link.run(lambda c: self._whole(c, changed), self._what))
        else:
            return []
        prepared = PreparedRows(self._name, self._sent)
        if self._target.keys:
            self._open[self._name] = held
        self._phase, self._name, self._sent = _Phase.WAITING, "", 0
        return [prepared]

    def close(self) -> None:
        self._link.close()

    @property
    def _what(self) -> str:
        return f"preparing a transaction for {self._target.table!r}"

    # --- rows that an earlier epoch holds -----------------------------------------------------

    def _is_held(self, wanted: frozenset[Any]) -> bool:
        """Whether something of an earlier epoch that is not committed yet holds one of these keys."""
        if not self._open or not wanted:
            return False
        for pause in (*_COMMIT_PAUSES_S, 0.0):
            self._link.run(self._look_at_open, self._what)
            if all(held is not None and held.isdisjoint(wanted) for held in self._open.values()):
                return False
            Event().wait(pause)
        return True

    def _look_at_open(self, connection: Any) -> None:
        self._open = {
            name: held for name, held in self._open.items() if not ledger.is_committed(connection, name)
        }

    def _carried(self, changed: Changed, held: frozenset[Any] | None) -> CarriedRows:
        self._number += 1
        carried = CarriedRows(self._maker.name(self._number), len(changed), changed)
        self._open[carried.name] = held
        return carried

    def _may_stream(self) -> bool:
        """Not before earlier epochs are committed: which rows this one will want, nobody knows yet."""
        if self._open and self._phase is _Phase.WAITING:
            self._link.run(self._look_at_open, self._what)
            return not self._open
        return True

    # --- rows in memory -----------------------------------------------------------------------

    def _whole(self, connection: Any, changed: Changed) -> None:
        """The transaction from start to end. A try before this one may have got as far as preparing."""
        if self._name:
            self._leftovers.add(self._name)
            self._roll_back_leftovers(connection)
        self._begin(connection)
        self._send(connection, changed)
        self._end(connection)

    # --- rows on their way --------------------------------------------------------------------

    def _stream(self) -> None:
        changed = self._changes.take()
        if self._phase is _Phase.WAITING:
            self._link.run(self._begin, self._what)
            self._phase = _Phase.STREAMING
        self._streaming(changed, lambda connection: None)

    def _streaming(self, changed: Changed, then: Any) -> None:
        """Send on the open connection; there is no second try."""
        connection = self._link.connection

        def work() -> None:
            if len(changed):
                self._send(connection, changed)
            then(connection)

        try:
            self._guarded(changed, work)
        except Exception as e:
            self._link.close()
            if not self._link.dialect.fault(e).passing:
                raise
            raise ConnectorError(
                f"the transaction for {self._target.table!r} broke off after {self._sent} rows: "
                f"{self._link.dialect.sentence(e)}. The job goes back to its last checkpoint."
            ) from e

    # --- steps --------------------------------------------------------------------------------

    def _begin(self, connection: Any) -> None:
        self._number += 1
        self._name = self._maker.name(self._number)
        self._sent = 0
        self._link.dialect.transactions.begin(connection, self._name)

    def _send(self, connection: Any, changed: Changed) -> None:
        self._link.dialect.apply(connection, self._target, changed.rows, changed.gone)
        self._sent += len(changed)

    def _end(self, connection: Any) -> None:
        ledger.enter(connection, self._name, self._sent)
        self._link.dialect.transactions.prepare(connection, self._name)
        if self._link.dialect.transactions.one_per_connection:
            self._link.close()

    def _guarded(self, changed: Changed, work: Any) -> None:
        try:
            work()
        except Exception as e:
            if self._link.dialect.fault(e) is not Fault.DATA:
                raise
            self._link.close()
            raise refused(to_table(self._link.dialect, self._target), changed, e) from e

    def _find_leftovers(self, connection: Any) -> None:
        found = self._link.dialect.transactions.prepared(connection, self._maker.prefix)
        self._leftovers.update(name for name in found if self._maker.is_leftover(name))
        self._roll_back_leftovers(connection)

    def _roll_back_leftovers(self, connection: Any) -> None:
        """Those still tied to the connection of a process that lives on wait for the next barrier.

        A writer of an older attempt that comes back late may have prepared more of them meanwhile.
        """
        transactions = self._link.dialect.transactions
        for name in transactions.prepared(connection, self._maker.prefix):
            if name in self._leftovers or self._maker.is_leftover(name):
                with contextlib.suppress(UnknownTransaction):
                    transactions.roll_back(connection, name)
