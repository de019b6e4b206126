"""Where a database is and who asks: one URL for both databases, and the password beside it.

``mysql://user@host:3306/shop`` (also ``mariadb://``), ``postgresql://user@host:5432/shop``, and the JDBC
forms of both.  A password in the URL is taken out at once; it is in no text made from an address.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from urllib.parse import parse_qsl, unquote, urlsplit

from penstock.connectors.database.jdbc_options import mysql_from_jdbc, postgresql_from_jdbc
from penstock.core.errors import ConfigError


class DatabaseKind(Enum):
    """The databases spoken to, by the scheme of their URLs."""

    MYSQL = "mysql"
    """MariaDB and MySQL."""
    POSTGRESQL = "postgresql"


_SCHEMES = {
    "mysql": DatabaseKind.MYSQL,
    "mariadb": DatabaseKind.MYSQL,
    "postgresql": DatabaseKind.POSTGRESQL,
    "postgres": DatabaseKind.POSTGRESQL,
}
_FROM_JDBC = {DatabaseKind.MYSQL: mysql_from_jdbc, DatabaseKind.POSTGRESQL: postgresql_from_jdbc}
_PORTS = {DatabaseKind.MYSQL: 3306, DatabaseKind.POSTGRESQL: 5432}
_WAY_OUT = "write mysql://user@host:3306/database or postgresql://user@host:5432/database"


@dataclass(frozen=True, slots=True)
class DatabaseAddress:
    """A parsed URL. Its text and its ``repr`` never show the password."""

    kind: DatabaseKind
    host: str
    port: int
    database: str
    user: str
    password: str = field(default="", repr=False)
    options: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """What stood behind ``?``: handed to the driver as it is (``sslmode``, ``ssl_ca``, ...)."""

    def __str__(self) -> str:
        return f"{self.kind.value}://{self.user}@{self.host}:{self.port}/{self.database}"


def parse_url(url: str, user: str | None = None, password: str | None = None) -> DatabaseAddress:
    """The address that ``url`` names; ``user`` and ``password``, if given, win over those inside it."""
    jdbc = url.startswith("jdbc:")
    try:
        parts = urlsplit(url.removeprefix("jdbc:"))
        port = parts.port
    except ValueError:  # its text may hold the password
        raise ConfigError(
            f"the database URL cannot be read, or its port is not a number; {_WAY_OUT}"
        ) from None
    kind = _SCHEMES.get(parts.scheme)
    database = unquote(parts.path.strip("/"))
    if kind is None or not parts.hostname:
        raise ConfigError(f"a database URL of scheme {parts.scheme!r} cannot be used; {_WAY_OUT}")
    if not database or "/" in database:
        raise ConfigError(f"the database URL for {parts.hostname!r} names no database; {_WAY_OUT}")
    options = dict(parse_qsl(parts.query, keep_blank_values=jdbc))  # Java takes a bare "ssl" for a yes
    inside_user, inside_password = options.pop("user", None), options.pop("password", None)
    user = user or inside_user or (unquote(parts.username) if parts.username else None)
    if not user:
        raise ConfigError(f"the database URL for {parts.hostname!r} names no user; {_WAY_OUT}")
    if password is None:
        password = inside_password or unquote(parts.password or "")
    kept = _FROM_JDBC[kind](options) if jdbc else tuple(options.items())
    return DatabaseAddress(kind, parts.hostname, port or _PORTS[kind], database, user, password, kept)
