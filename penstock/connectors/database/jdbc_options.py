"""Options of Java's drivers in the words of ours.

What protects the connection must hold here as well, or be refused: a program that asks for TLS must not get a
plain connection.  Limits of time and names are taken over; the rest is about Java and means nothing here.
"""

from __future__ import annotations

from collections.abc import Mapping

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
