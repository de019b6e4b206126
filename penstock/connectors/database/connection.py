"""A connection to the database at an address, opened when needed, and work done again when a fault may pass.

After any error the connection is closed: whatever transaction was open is then gone for certain, and the
next attempt begins on a new one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, TypeVar

from penstock.connectors.database.address import DatabaseAddress, DatabaseKind, parse_url
from penstock.connectors.database.dialect import Dialect, Fault
from penstock.connectors.database.mysql import MySqlDialect
from penstock.connectors.database.postgresql import PostgreSqlDialect
from penstock.core.discreet import log_of
from penstock.core.errors import ConnectorError, PenstockError
from penstock.core.retrying import doubling, retry

_DIALECTS: dict[DatabaseKind, type[Dialect]] = {
    DatabaseKind.MYSQL: MySqlDialect,
    DatabaseKind.POSTGRESQL: PostgreSqlDialect,
}
_log = log_of(__name__)
_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 3.0
T = TypeVar("T")


def open_dialect(address: DatabaseAddress) -> Dialect:
    """The dialect of the database at ``address``; nothing is connected yet."""
    return _DIALECTS[address.kind](address)


def dialect_of(url: str, user: str | None = None, password: str | None = None) -> Dialect:
    """The dialect of the database that ``url`` names."""
    return open_dialect(parse_url(url, user, password))


class Link:
    """One connection at a time to one database."""

    def __init__(
        self,
        dialect: Dialect,
        retries: int,
        local_files: bool = False,
    ) -> None:
        self.dialect = dialect
        self._retries = retries
        self._local_files = local_files
        self._connection: Any = None

    @property
    def connection(self) -> Any:
        """The connection; opened if there is none. Raises the driver's errors."""
        if self._connection is None:
            self._connection = self.dialect.connect(self._local_files)
        return self._connection

    def close(self) -> None:
        """Close it, whatever state it is in."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(Exception):
                connection.close()

    def run(self, work: Callable[[Any], T], what: str) -> T:
        """``work`` with a connection, again after faults that may pass. ``work`` must bear being repeated.

        Raises the driver's error if it is the data's fault, else a :class:`ConnectorError`, at once or
        when all attempts are used up.
        """

        def passes(error: Exception) -> bool:
            self.close()
            return not isinstance(error, PenstockError) and self.dialect.fault(error).passing

        def again(error: Exception, pause_s: float) -> None:
            _log.warning("%s: %s; again in %.1f s", what, self.dialect.sentence(error), pause_s)

        pauses = doubling(_FIRST_PAUSE_S, _LONGEST_PAUSE_S, self._retries)
        try:
            return retry(lambda: work(self.connection), passes, pauses, again)
        except Exception as e:
            fault = self.dialect.fault(e)
            if fault is Fault.DATA or isinstance(e, PenstockError):
                raise
            raise (self.gave_up if fault.passing else self.failed)(e, what) from e

    def failed(self, error: BaseException, what: str) -> ConnectorError:
        """The error for a fault that will not pass."""
        dialect = self.dialect
        said = dialect.sentence(error)
        return ConnectorError(f"{what} failed: {dialect.product} at {dialect.address} says: {said}")

    def gave_up(self, error: BaseException, what: str) -> ConnectorError:
        """The error for a fault that did not pass."""
        dialect = self.dialect
        return ConnectorError(
            f"{what} failed after {self._retries + 1} tries: {dialect.product} at {dialect.address} says: "
            f"{dialect.sentence(error)}. The job goes back to its last checkpoint; nothing is lost."
        )
