"""Listening on one of the ports that a setting allows (:mod:`penstock.core.option`)."""

from __future__ import annotations

import errno
import socket
from dataclasses import dataclass

from penstock.core.errors import ClusterError
from penstock.core.option import ports_in


@dataclass(frozen=True, slots=True)
class Ports:
    """A setting and its text."""

    setting: str
    text: str = "0"


def listen(host: str, ports: Ports) -> socket.socket:
    """A listening socket on the first port that is free."""
    tried = 0
    forbidden = False
    for port in ports_in(ports.text):
        try:
            return socket.create_server((host, port))
        except OSError as error:
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise ClusterError(f"nobody can listen on {host}: {error}") from error
            tried += 1
            forbidden = forbidden or error.errno == errno.EACCES
    if forbidden:
        raise ClusterError(
            f"{ports.setting} allows {ports.text}, and on {host} this process may not listen there, or "
            "others do already; ports below 1024 are for root: allow higher ones, or leave the setting out "
            "for any that is free"
        )
    raise ClusterError(
        f"{ports.setting} allows {'port' if tried == 1 else 'ports'} {ports.text}, and on {host} "
        f"{'it is' if tried == 1 else f'all {tried} are'} taken; allow more, as many as there are drivers or "
        "slots on a host at once, or leave the setting out for any that is free"
    )
