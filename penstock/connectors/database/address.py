"""Where a database is and who asks: one URL for both databases, and the password beside it.

``mysql://user@host:3306/shop`` (also ``mariadb://``), ``postgresql://user@host:5432/shop``, and the JDBC
forms of both.  A password in the URL is taken out at once; it is in no text made from an address.

Of what stands behind ``?``, the user's word counts where it does no harm: time limits, names shown to the
server, ways to reach it.  What the sinks and sources rely on (autocommit, the character set, times in UTC) is
refused, and so is what the drivers would answer with an error of Python.  ``pymysql`` passes over what it
does not know about TLS: a wish for more safety that is not understood must be an error.

Options of Java's drivers are put into the words of ours.  What protects the connection must hold here as
well, or be refused: a program that asks for TLS must not get a plain connection.  Limits of time and names
are taken over; the rest is about Java and means nothing here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from penstock.core.error_codes import Code
from penstock.core.errors import ConfigError

Options = tuple[tuple[str, str], ...]

_POSTGRESQL = {
    "sslmode": "sslmode",
    "sslrootcert": "sslrootcert",
    "sslcert": "sslcert",
    "sslkey": "sslkey",
    "connectTimeout": "connect_timeout",
    "ApplicationName": "application_name",
    "options": "options",
}
_MYSQL_MILLIS = {"connectTimeout": "connect_timeout", "socketTimeout": "read_timeout"}
_MYSQL_MODES = {"DISABLED": False, "PREFERRED": False, "REQUIRED": True}
_ENCRYPTED = (("ssl_verify_mode", "none"),)
"""TLS without a look at the certificate: what Java's driver does when it is only told to encrypt."""
PREFIX = "ssl_"
_NAMES = {
    "ssl_ca": "ca",
    "ssl_capath": "capath",
    "ssl_cert": "cert",
    "ssl_key": "key",
    "ssl_key_password": "password",
    "ssl_cipher": "cipher",
    "ssl_verify_cert": "verify_mode",
    "ssl_verify_mode": "verify_mode",
    "ssl_check_hostname": "check_hostname",
}
_NO = ("0", "false", "no")
_MYSQL_NUMBERS = ("connect_timeout", "read_timeout", "write_timeout", "max_allowed_packet")
_MYSQL_TEXTS = (
    "bind_address",
    "collation",
    "program_name",
    "read_default_file",
    "read_default_group",
    "sql_mode",
    "unix_socket",
)
_POSTGRESQL_PLACES = ("host", "port", "dbname")
_POSTGRESQL_OURS = (
    "autocommit",
    "conninfo",
    "context",
    "cursor_factory",
    "prepare_threshold",
    "row_factory",
)
_WAY_OUT = "write mysql://user@host:3306/database or postgresql://user@host:5432/database"


def postgresql_from_jdbc(given: Mapping[str, str]) -> Options:
    """Settings of ``libpq`` for those of ``org.postgresql.Driver``."""
    found = {_POSTGRESQL[name]: value for name, value in given.items() if name in _POSTGRESQL}
    if "ssl" in given and given["ssl"].lower() != "false":
        found.setdefault("sslmode", "verify-full")
    if "currentSchema" in given:
        search = f"-c search_path={given['currentSchema'].replace(' ', '')}"
        found["options"] = f"{found['options']} {search}" if "options" in found else search
    return tuple(found.items())


def mysql_from_jdbc(given: Mapping[str, str]) -> Options:
    """Options of our MySQL URLs for those of Connector/J and of MariaDB's driver."""
    found = [(ours, _seconds(given[name])) for name, ours in _MYSQL_MILLIS.items() if name in given]
    kept = [(name, value) for name, value in found if value != "0"]
    return (*kept, *(_ENCRYPTED if _wants_tls(given) else ()))


def _wants_tls(given: Mapping[str, str]) -> bool:
    mode = given.get("sslMode", "").upper().replace("-", "_")
    checks = given.get("verifyServerCertificate", "false").lower() == "true"
    if checks or mode not in ("", "DISABLE", "TRUST", *_MYSQL_MODES):
        asked = f"sslMode={given['sslMode']}" if mode else "verifyServerCertificate=true"
        raise ConfigError(
            f"{asked} in a JDBC URL of MySQL needs the certificate of an authority, which a key store of "
            "Java cannot give here: write mysql://user@host:3306/database?ssl_ca=/path/to/ca.pem"
        )
    flags = any(given.get(name, "").lower() == "true" for name in ("useSSL", "useSsl", "requireSSL"))
    return mode == "TRUST" or _MYSQL_MODES.get(mode, flags and mode != "DISABLE")


def _seconds(millis: str) -> str:
    """Whole seconds, one at least unless there is no limit."""
    try:
        return str(-(-int(millis) // 1000))
    except ValueError:
        raise ConfigError(f"a time limit in a JDBC URL is a number of milliseconds, not {millis!r}") from None


def tls_settings(options: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """The options whose names begin with ``ssl_``; empty if nothing is said about TLS."""
    found: dict[str, Any] = {}
    for name, value in options:
        if not name.startswith(PREFIX):
            continue
        if name not in _NAMES:
            raise ConfigError(
                f"the option {name!r} of a MySQL URL is not known; there are {', '.join(_NAMES)}. With "
                "ssl_ca the server's certificate and the name in it are checked",
                code=Code.DATABASE_URL,
            )
        found[_NAMES[name]] = value.lower() not in _NO if name == "ssl_check_hostname" else value
    return found


def mysql_options(options: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """Arguments for ``pymysql``, as it wants them; those of TLS are left out."""
    found: dict[str, Any] = {}
    for name, value in options:
        if name.startswith(PREFIX):
            continue
        if name in _MYSQL_NUMBERS:
            found[name] = _number(name, value)
        elif name in _MYSQL_TEXTS:
            found[name] = value
        else:
            known = ", ".join((*_MYSQL_NUMBERS, *_MYSQL_TEXTS))
            raise ConfigError(
                f"the option {name!r} cannot be set in a MySQL URL: leave it out. There are {known}, and "
                f"those that begin with {PREFIX}",
                code=Code.DATABASE_URL,
            )
    return found


def postgresql_options(options: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """Settings for ``libpq``, which says itself what it does not know."""
    found = dict(options)
    for name in found:
        if name in _POSTGRESQL_PLACES:
            raise ConfigError(
                f"the option {name!r} says again what is in the PostgreSQL URL before the '?': leave it out, "
                "and write postgresql://user@host:5432/database",
                code=Code.DATABASE_URL,
            )
        if name in _POSTGRESQL_OURS:
            raise ConfigError(
                f"the option {name!r} cannot be set in a PostgreSQL URL: leave it out", code=Code.DATABASE_URL
            )
    return found


def _number(name: str, value: str) -> int:
    try:
        return int(value)
    except ValueError:
        raise ConfigError(
            f"the option {name!r} of a MySQL URL is a whole number, not {value!r}", code=Code.DATABASE_URL
        ) from None


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
            f"the database URL cannot be read, or its port is not a number; {_WAY_OUT}",
            code=Code.DATABASE_URL,
        ) from None
    kind = _SCHEMES.get(parts.scheme)
    database = unquote(parts.path.strip("/"))
    if kind is None or not parts.hostname:
        raise ConfigError(
            f"a database URL of scheme {parts.scheme!r} cannot be used; {_WAY_OUT}", code=Code.DATABASE_URL
        )
    if not database or "/" in database:
        raise ConfigError(
            f"the database URL for {parts.hostname!r} names no database; {_WAY_OUT}", code=Code.DATABASE_URL
        )
    options = dict(parse_qsl(parts.query, keep_blank_values=jdbc))  # Java takes a bare "ssl" for a yes
    inside_user, inside_password = options.pop("user", None), options.pop("password", None)
    user = user or inside_user or (unquote(parts.username) if parts.username else None)
    if not user:
        raise ConfigError(
            f"the database URL for {parts.hostname!r} names no user; {_WAY_OUT}", code=Code.DATABASE_URL
        )
    if password is None:
        password = inside_password or unquote(parts.password or "")
    kept = _FROM_JDBC[kind](options) if jdbc else tuple(options.items())
    return DatabaseAddress(kind, parts.hostname, port or _PORTS[kind], database, user, password, kept)
