"""Where callers are greeted before anybody listens to them: a bounded number at once.

Each caller is greeted in a small thread of its own, so that a stranger who connects and says nothing stalls
nobody.  When too many are at the door and none of them gets on, the one that has stood there longest is
sent away: a slot is through in milliseconds, so that is a stranger.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from penstock.core.accepting import begin, callers
from penstock.core.errors import TransportError
from penstock.exchange.refusals import Refusals

_log = logging.getLogger("penstock")
AT_ONCE = 64
_PATIENCE_S = 0.25
"""How long a full door waits for somebody to get on before it sends the longest-standing caller away."""

T = TypeVar("T")


class Door(Generic[T]):
    """Accepts callers until the listening socket is closed; its owner closes that.

    ``greet`` tells who is there, or raises :class:`TransportError` for who must not come in.  Both callbacks
    run on the caller's thread; ``admit`` takes the socket over.
    """

    def __init__(
        self,
        listener: socket.socket,
        name: str,
        greet: Callable[[socket.socket], T],
        admit: Callable[[T, socket.socket], None],
    ) -> None:
        self._listener = listener
        self._name = name
        self._greet, self._admit = greet, admit
        self._refusals = Refusals(name)
        self._callers: dict[socket.socket, None] = {}
        """Who is being greeted, in the order of arrival."""
        self._change = threading.Condition()
        threading.Thread(target=self._accept, daemon=True, name=f"{name}-accept").start()

    def _accept(self) -> None:
        for sock in callers(self._listener, self._name):
            self._make_room()
            with self._change:
                self._callers[sock] = None
            if not begin(f"{self._name}-greet", self._meet, sock):
                with self._change:
                    del self._callers[sock]

    def _make_room(self) -> None:
        with self._change:
            if self._change.wait_for(lambda: len(self._callers) < AT_ONCE, _PATIENCE_S):
                return
            longest = next(iter(self._callers))
            with contextlib.suppress(OSError):
                longest.shutdown(socket.SHUT_RDWR)
            self._change.wait_for(lambda: longest not in self._callers)

    def _meet(self, sock: socket.socket) -> None:
        greeted: list[T] = []
        try:
            greeted.append(self._greet(sock))
        except TransportError as error:
            self._refusals.note(_caller(sock), error)
            sock.close()
        except Exception:
            _log.exception("%s: a caller could not be greeted", self._name)
            sock.close()
        finally:
            with self._change:
                del self._callers[sock]
                self._change.notify()
        for who in greeted:
            self._admit(who, sock)


def _caller(sock: socket.socket) -> str:
    try:
        return str(sock.getpeername()[0])
    except OSError:
        return "somewhere"
