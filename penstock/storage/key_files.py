"""Files that hold a secret key: only their owner may read them."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from penstock.core.errors import ConfigError

_LEAST_BYTES = 32


def read_key(path: str, setting: str) -> bytes:
    """The key in a file; ``setting`` is what named it, for errors."""
    way_out = (
        f"make one with: (umask 077; head -c 32 /dev/urandom > {path}), and keep a copy where it is as safe"
    )
    try:
        with Path(path).open("rb") as file:
            found = os.fstat(file.fileno())
            key = file.read()
    except OSError as error:
        raise ConfigError(
            f"{setting}: the key file {path} cannot be read ({error.strerror}); {way_out}"
        ) from None
    if found.st_mode & (stat.S_IRWXG | stat.S_IRWXO) or found.st_uid not in (os.geteuid(), 0):
        raise ConfigError(
            f"{setting}: the key file {path} is not yours alone (mode {stat.S_IMODE(found.st_mode):o}, user "
            f"{found.st_uid}): who can read it can sign anything. Set it right with chown and chmod 600, or, "
            "if others may have read it, make a new one"
        )
    if len(key) < _LEAST_BYTES:
        raise ConfigError(
            f"{setting}: the key file {path} holds {len(key)} bytes, and a key has at least {_LEAST_BYTES}; "
            f"{way_out}"
        )
    return key
