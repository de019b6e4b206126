"""Committing to a table that several may write to: one transaction per epoch, known again when repeated.

A table format gives three things: a fresh look at the table, whether the table's own metadata *notes* a
committable as done, and an append that puts files and notes into the table in one step, or fails with a
conflict if somebody else changed the table since the look.  That is enough to be exact: a commit that
was killed, repeated, or tried by two drivers at once finds its note, or finds that nothing happened.
"""

from __future__ import annotations

import itertools
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, Protocol, TypeVar

from penstock.connectors.lake.table_files import DataStorage, remove_files_of
from penstock.connectors.lake.table_sink import match_columns
from penstock.connectors.sink import CommitOutcome, Committer
from penstock.core.errors import ConnectorError

_TRIES = 5
"""Per call; after that the coordinator's own retries, with their pauses."""


class TableConflict(Exception):
    """Somebody else changed the table since it was looked at."""


class Address(Protocol):
    """Where a table is."""

    def open(self) -> Any:
        """The table as it is now; a ``ConnectorError`` if there is none."""
        ...


AddressT = TypeVar("AddressT", bound=Address)


class TableCommitter(Committer, Generic[AddressT]):
    """Commits what has an ``epoch``, oldest first. Runs on the driver.

    ``schema`` and ``partition_by`` are the table's as the writers know it, ``run`` is in the names of the
    files of this run.
    """

    def __init__(self, address: AddressT, schema: Any, partition_by: tuple[str, ...], run: str = "") -> None:
        self._address = address
        self._schema = schema
        self._partition_by = partition_by
        self._run = run

    @abstractmethod
    def place(self) -> tuple[DataStorage, str]:
        """Where data files are: the storage, and the directory's name there."""

    @abstractmethod
    def is_noted(self, table: Any, item: Any) -> bool:
        """Whether the table says that this committable is in it."""

    @abstractmethod
    def append(self, table: Any, items: list[Any]) -> None:
        """Add the files of all ``items`` and their notes in one step; raises ``TableConflict``."""

    def check_layout(self, what: str, schema: Any, partition_by: Sequence[str]) -> None:
        """Refuse to append if the table, called ``what``, has changed since the job started."""
        match_columns(what, self._schema, schema)
        if tuple(partition_by) != self._partition_by:
            raise ConnectorError(
                f"{what} is partitioned by {list(partition_by)} now, and was by {list(self._partition_by)} "
                "when the job started; start the job again"
            )

    def make_durable(self, since: Any) -> None:
        """Wait for the disk, if the format's own client does not: for all that was noted after ``since``.

        ``None`` means for everything: the driver may have died between an append and this call.
        """

    def withdraw(self, job_name: str, sink_id: str, generation: int) -> None:
        if self._run:
            remove_files_of(self._run, *self.place())

    def commit(self, committables: Sequence[Any]) -> Sequence[CommitOutcome]:
        outcomes: dict[int, CommitOutcome] = {}
        order = sorted(range(len(committables)), key=lambda index: committables[index].epoch)
        for _, group in itertools.groupby(order, key=lambda index: committables[index].epoch):
            indices = list(group)
            done = self._commit_epoch([committables[index] for index in indices])
            outcomes.update(zip(indices, done, strict=True))
            if CommitOutcome.RETRY in done:
                break  # a newer epoch's note would say that this one is done
        return [outcomes.get(index, CommitOutcome.RETRY) for index in range(len(committables))]

    def _commit_epoch(self, items: list[Any]) -> list[CommitOutcome]:
        for _ in range(_TRIES):
            table = self._address.open()
            done = [self.is_noted(table, item) for item in items]
            fresh = [item for item, is_done in zip(items, done, strict=True) if not is_done]
            try:
                if fresh:
                    self.append(table, fresh)
            except TableConflict:
                continue
            self.make_durable(table if len(fresh) == len(items) else None)
            return [
                CommitOutcome.ALREADY_COMMITTED if is_done else CommitOutcome.COMMITTED for is_done in done
            ]
        return [CommitOutcome.RETRY] * len(items)
