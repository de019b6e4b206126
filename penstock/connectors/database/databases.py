"""From an address to the dialect that is spoken there."""

from __future__ import annotations

from penstock.connectors.database.address import DatabaseAddress, DatabaseKind, parse_url
from penstock.connectors.database.dialect import Dialect
from penstock.connectors.database.mysql import MySqlDialect
from penstock.connectors.database.postgresql import PostgreSqlDialect

_DIALECTS: dict[DatabaseKind, type[Dialect]] = {
    DatabaseKind.MYSQL: MySqlDialect,
    DatabaseKind.POSTGRESQL: PostgreSqlDialect,
}


def open_dialect(address: DatabaseAddress) -> Dialect:
    """The dialect of the database at ``address``; nothing is connected yet."""
    return _DIALECTS[address.kind](address)


def dialect_of(url: str, user: str | None = None, password: str | None = None) -> Dialect:
    """The dialect of the database that ``url`` names."""
    return open_dialect(parse_url(url, user, password))
