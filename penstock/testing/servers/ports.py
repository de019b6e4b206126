"""Ports of loopback that nobody listens on, and what answers there."""

from __future__ import annotations

import random
import socket

from penstock.core.errors import ConnectorError

LOOPBACK = "127.0.0.1"
_PORTS = range(20_000, 32_000)
"""Below those that Linux gives to outgoing connections.  A client that keeps dialling a killed server's
port would else be given that very port as its own one day, meet itself, and keep the server out."""
_TRIES = 200


def free_port() -> int:
    """A port on which a server can listen, and listen again after it was killed."""
    for port in random.SystemRandom().sample(_PORTS, _TRIES):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((LOOPBACK, port))
            except OSError:
                continue
            return port
    raise ConnectorError(f"found no free port between {_PORTS.start} and {_PORTS.stop} on {LOOPBACK}")


def ask(port: int, question: bytes, size: int) -> bytes:
    """The first ``size`` bytes that come back for ``question``; fewer if nobody or nothing answers."""
    answer = b""
    try:
        with socket.create_connection((LOOPBACK, port), timeout=2.0) as link:
            link.sendall(question)
            while len(answer) < size and (part := link.recv(size - len(answer))):
                answer += part
    except OSError:
        pass
    return answer
