"""What a URL says about TLS to MariaDB and MySQL, in the terms of ``pymysql``.

``pymysql`` passes over what it does not know: a wish for more safety that is not understood must be an error.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from penstock.core.errors import ConfigError

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


def tls_settings(options: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """The options whose names begin with ``ssl_``; empty if nothing is said about TLS."""
    found: dict[str, Any] = {}
    for name, value in options:
        if not name.startswith(PREFIX):
            continue
        if name not in _NAMES:
            raise ConfigError(
                f"the option {name!r} of a MySQL URL is not known; there are {', '.join(_NAMES)}. With "
                "ssl_ca the server's certificate and the name in it are checked"
            )
        found[_NAMES[name]] = value.lower() not in _NO if name == "ssl_check_hostname" else value
    return found
