"""What the sinks need to know about a database, and nothing of how it says it.

A :class:`Dialect` belongs to one address and is pickled with the sink; connections are opened where they
are used.  All connections are in autocommit mode: a transaction begins with an explicit statement.  Read
``mysql.py`` beside ``postgresql.py`` to see the differences.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from penstock.connectors.database.address import DatabaseAddress
from penstock.core.error_codes import Code
from penstock.core.errors import ConnectorError

LOCK_WAIT_S = 10
"""How long a statement of ours waits for a lock; then it is tried again, with other locks let go."""

CONNECT_TIMEOUT_S = 10


class Fault(Enum):
    """What an error of the driver means for whoever got it."""

    LOST = "the connection is gone, or there was none"
    BUSY = "deadlock, lock timeout, serialization failure, too many connections: again may help"
    DATA = "a row that the table refuses"
    OTHER = "anything else: again does not help"

    @property
    def passing(self) -> bool:
        """Whether doing it again may help."""
        return self in (Fault.LOST, Fault.BUSY)


class UnknownTransaction(Exception):
    """The server knows no prepared transaction of that name, or does not hand it out yet."""


class RowRefused(Exception):
    """A row that cannot be written, and the server does not say so by an error of its own."""


@dataclass(frozen=True, slots=True)
class ColumnInfo:
    """A column of a table, as the database describes it."""

    name: str
    declared: str
    """The type in the database's words, lower case: ``bigint(20) unsigned``, ``character varying(10)``."""
    required: bool
    """Neither nullable nor with a default: every insert must name it."""
    generated: bool
    """Computed by the database: no insert may name it."""
    nullable: bool = True
    """Whether a row may have no value there; the source asks."""


@dataclass(frozen=True, slots=True)
class TableInfo:
    """A table, as the database describes it."""

    columns: dict[str, ColumnInfo]
    primary_key: tuple[str, ...]
    unique_keys: tuple[tuple[str, ...], ...]
    """Without the primary key, and without partial and computed indexes."""
    transactional: bool
    """Whether the table takes part in transactions (InnoDB does, Aria does not)."""
    is_view: bool = False
    """A view has no keys, and PostgreSQL calls all its columns nullable."""

    def has_unique(self, columns: Sequence[str]) -> bool:
        """Whether exactly these columns, in any order, identify a row."""
        wanted = set(columns)
        return any(set(key) == wanted for key in (self.primary_key, *self.unique_keys) if key)


@dataclass(frozen=True, slots=True)
class Target:
    """The table written to, and how."""

    table: str
    columns: tuple[str, ...]
    keys: tuple[str, ...] = ()
    """Empty: rows are appended."""
    newer: str | None = None
    """A column that an update must not make smaller."""

    def positions(self, names: Sequence[str]) -> tuple[int, ...]:
        """Where these columns are among those written."""
        return tuple(self.columns.index(name) for name in names)


class Transactions(ABC):
    """Prepared transactions. Names are our own, see ``names.py``; they contain nothing to be quoted."""

    one_per_connection: bool
    """Whether the connection must be closed before another one can commit what it prepared."""

    @abstractmethod
    def begin(self, connection: Any, name: str) -> None:
        """Start a transaction on this connection."""

    @abstractmethod
    def prepare(self, connection: Any, name: str) -> None:
        """Make it survive this connection and the server, uncommitted."""

    @abstractmethod
    def commit(self, connection: Any, name: str) -> None:
        """Commit from any connection. Raises :class:`UnknownTransaction`."""

    @abstractmethod
    def roll_back(self, connection: Any, name: str) -> None:
        """Undo from any connection. Raises :class:`UnknownTransaction`."""

    @abstractmethod
    def prepared(self, connection: Any, prefix: str) -> list[str]:
        """Names of prepared transactions of this database that begin with ``prefix``."""

    @abstractmethod
    def check(self, connection: Any) -> None:
        """Raise a clear error if this server or user cannot prepare transactions."""


class Loader(ABC):
    """Many rows at once into a table of ours, and from there into the user's."""

    @abstractmethod
    def create_staging(self, connection: Any, staging: str, target: Target) -> None:
        """A table with the target's columns, ``penstock_seq`` and ``penstock_deleted``; may exist already.

        It must survive a crash of the server: what is in it has been promised.
        """

    @abstractmethod
    def load(
        self,
        connection: Any,
        staging: str,
        target: Target,
        first: int,
        rows: Sequence[Any],
        gone: Sequence[Any],
    ) -> None:
        """Append ``rows``, then ``gone`` as deletions, numbered from ``first``: all of them or none."""

    @abstractmethod
    def tables(self, connection: Any, prefix: str) -> list[str]:
        """Names of tables that begin with ``prefix``."""

    @abstractmethod
    def merge(self, staging: str, target: Target, below: str) -> list[str]:
        """Statements that bring the newest staged row of each key into the target.

        ``below`` is a condition on ``penstock_seq``, for those who look for the row at fault.
        """

    @abstractmethod
    def check(self, connection: Any) -> None:
        """Raise a clear error if this server does not let us load."""


class Dialect(ABC):
    """One database at one address."""

    product: str
    """The database's name, for messages."""
    adapters: Mapping[type, Callable[[Any], Any]]
    """Python types that the driver does not write as the table wants them."""

    def __init__(self, address: DatabaseAddress) -> None:
        self.address = address

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.address})"

    @abstractmethod
    def connect(self, local_files: bool = False) -> Any:
        """A new connection in autocommit mode, times in UTC. Raises the driver's errors."""

    @abstractmethod
    def fault(self, error: BaseException) -> Fault:
        """What an error means."""

    @abstractmethod
    def sentence(self, error: BaseException) -> str:
        """The database's own words, without codes and line breaks."""

    @abstractmethod
    def quote(self, name: str) -> str:
        """One identifier: of a column, or of a table of ours."""

    def quote_table(self, name: str) -> str:
        """A table of the user's; ``schema.table`` has two parts."""
        return ".".join(map(self.quote, name.split(".")))

    @abstractmethod
    def describe(self, connection: Any, table: str) -> TableInfo | None:
        """The table as it is, or ``None`` if there is none that this user sees."""

    @abstractmethod
    def apply(self, connection: Any, target: Target, rows: Sequence[Any], gone: Sequence[Any]) -> None:
        """Delete ``gone``, then insert or update ``rows``. Begins and ends no transaction."""

    def run_each(self, cursor: Any, statement: str, rows: Sequence[Any]) -> None:
        """Run a statement of the user's with the parameters of each row, in order."""
        cursor.executemany(statement, rows)

    @property
    @abstractmethod
    def transactions(self) -> Transactions:
        """How this database prepares transactions."""

    @property
    @abstractmethod
    def loader(self) -> Loader:
        """How this database takes many rows at once."""

    def open(self, local_files: bool = False) -> Any:
        """A connection, or a :class:`ConnectorError` that says in one sentence what is in the way."""
        try:
            return self.connect(local_files)
        except Exception as e:
            if isinstance(e, ConnectorError):
                raise
            raise ConnectorError(
                f"{self.product} at {self.address} cannot be used: {self.sentence(e)}. See that the server "
                "runs, is reachable from the driver and all executors, and knows user, password and "
                "database.",
                code=Code.DATABASE_UNREACHABLE,
            ) from e


def only_keys(target: Target, gone: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Deletions without what the deletion does not need, and a column may refuse."""
    kept = {*target.keys, target.newer}
    keep = [column in kept for column in target.columns]
    return [tuple(v if kept else None for v, kept in zip(row, keep, strict=True)) for row in gone]


def names(quote: Callable[[str], str], columns: Sequence[str]) -> str:
    """Identifiers, quoted, with commas between them."""
    return ", ".join(quote(column) for column in columns)
