"""Ports that a process may listen on: ``0`` (any), ``50000``, ``50000-50100``, or several with commas."""

from __future__ import annotations

import errno
import re
import socket
from collections.abc import Iterator
from dataclasses import dataclass

from penstock.core.errors import ClusterError, ConfigError

_MOST = 65_535


@dataclass(frozen=True, slots=True)
class Ports:
    """A setting and its text; see :func:`ports_of`."""

    setting: str
    text: str = "0"

    def __iter__(self) -> Iterator[int]:
        for part in self.text.split(","):
            first, _, last = part.partition("-")
            yield from range(int(first), int(last or first) + 1)


def ports_of(setting: str, text: str) -> Ports:
    """The ports that a setting allows; refused with the way out if it makes no sense."""
    ports = Ports(setting, text.replace(" ", ""))
    if re.fullmatch(r"\d+(-\d+)?(,\d+(-\d+)?)*", ports.text):
        found = list(ports)
        if found and max(found) <= _MOST and (0 not in found or found == [0]):
            return ports
    raise ConfigError(
        f"{setting}: {text!r} names no ports; write one (50000), a range (50000-50100), several of these "
        f"with commas, all up to {_MOST}, or 0 for any"
    )


def listen(host: str, ports: Ports) -> socket.socket:
    """A listening socket on the first port that is free."""
    tried = 0
    for port in ports:
        try:
            return socket.create_server((host, port))
        except OSError as error:
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise ClusterError(f"nobody can listen on {host}: {error}") from error
            tried += 1
    raise ClusterError(
        f"{ports.setting} allows {'port' if tried == 1 else 'ports'} {ports.text}, and on {host} "
        f"{'it is' if tried == 1 else f'all {tried} are'} taken; allow more, as many as there are drivers or "
        "slots on a host at once, or leave the setting out for any that is free"
    )
