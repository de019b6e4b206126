"""What may stand behind ``?`` in the URL of a database, beside TLS for MySQL (``mysql_tls.py``).

The user's word counts where it does no harm: time limits, names shown to the server, ways to reach it.  What
the sinks and sources rely on (autocommit, the character set, times in UTC) is refused, and so is what the
drivers would answer with an error of Python.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from penstock.connectors.database.mysql_tls import PREFIX
from penstock.core.errors import ConfigError

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
                f"those that begin with {PREFIX}"
            )
    return found


def postgresql_options(options: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """Settings for ``libpq``, which says itself what it does not know."""
    found = dict(options)
    for name in found:
        if name in _POSTGRESQL_PLACES:
            raise ConfigError(
                f"the option {name!r} says again what is in the PostgreSQL URL before the '?': leave it out, "
                "and write postgresql://user@host:5432/database"
            )
        if name in _POSTGRESQL_OURS:
            raise ConfigError(f"the option {name!r} cannot be set in a PostgreSQL URL: leave it out")
    return found


def _number(name: str, value: str) -> int:
    try:
        return int(value)
    except ValueError:
        raise ConfigError(f"the option {name!r} of a MySQL URL is a whole number, not {value!r}") from None
