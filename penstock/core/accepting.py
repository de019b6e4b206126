"""Taking calls at a listening socket until its owner closes it, through whatever goes wrong meanwhile."""

from __future__ import annotations

import errno
import logging
import socket
import threading
from collections.abc import Callable, Iterator

_log = logging.getLogger("penstock")
_BREATH_S = 0.1
"""How long to rest when this machine has no descriptor or thread left, so as not to spin."""


def callers(listener: socket.socket, name: str) -> Iterator[socket.socket]:
    """Who calls, one after the other; ends when the listener is closed or shut down."""
    while True:
        try:
            sock, _ = listener.accept()
        except OSError as error:
            if error.errno == errno.EINVAL or is_over(listener):  # shut down, which not all families show
                return
            rest(name, error)
            continue
        yield sock


def begin(name: str, work: Callable[[socket.socket], None], sock: socket.socket) -> bool:
    """Start a thread that serves a caller; if there can be none, hang up and say no."""
    try:
        threading.Thread(target=work, args=(sock,), daemon=True, name=name).start()
    except RuntimeError as error:
        sock.close()
        rest(name, error)
        return False
    return True


def is_over(listener: socket.socket) -> bool:
    """Whether its owner has closed or shut it down."""
    try:
        return listener.fileno() < 0 or not listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    except OSError:
        return True


def rest(name: str, error: Exception) -> None:
    """Say why a call cannot be taken, and wait a moment."""
    _log.warning("%s: a call cannot be taken now: %s", name, error)
    threading.Event().wait(_BREATH_S)
