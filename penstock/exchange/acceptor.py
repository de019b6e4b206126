"""Where callers are greeted before anybody listens to them: a bounded number at once.

Who has said nothing yet waits in the lobby (``lobby.py``).  Each caller that speaks is greeted in a small
thread of its own, so that a stranger who goes on slowly stalls nobody.  When too many are at the door, from
one address or in all, and none of them gets on, the one that has stood there longest is sent away: a slot is
through in milliseconds, so that is a stranger.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from penstock.core.accepting import begin
from penstock.core.clock import SystemClock
from penstock.core.errors import TransportError
from penstock.exchange.lobby import Lobby
from penstock.exchange.refusals import Refusals

_log = logging.getLogger("penstock")
AT_ONCE = 64
PER_ADDRESS = 48
_PATIENCE_S = 1.0
"""How long a caller may stand in the way of others."""

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
        self._lobby = Lobby(listener, name)
        self._name = name
        self._greet, self._admit = greet, admit
        self._refusals = Refusals(name)
        self._clock = SystemClock()
        self._callers: dict[socket.socket, tuple[str, float]] = {}
        """Who is being greeted, in the order of arrival: from where, and since when."""
        self._change = threading.Condition()
        threading.Thread(target=self._accept, daemon=True, name=f"{name}-accept").start()

    def _accept(self) -> None:
        for sock, host in self._lobby.speakers():
            self._make_room(host)
            with self._change:
                self._callers[sock] = (host, self._clock.monotonic())
            sock.setblocking(True)
            if not begin(f"{self._name}-greet", self._meet, sock):
                with self._change:
                    del self._callers[sock]

    def _make_room(self, host: str) -> None:
        """Wait until a caller from there can be greeted; who stands in its way for too long has to go."""
        with self._change:
            while crowd := self._in_the_way(host):
                longest = crowd[0]
                stood = self._clock.monotonic() - self._callers[longest][1]
                if self._change.wait_for(lambda: not self._in_the_way(host), max(0.0, _PATIENCE_S - stood)):
                    return
                self._send_away(longest)

    def _send_away(self, caller: socket.socket) -> None:
        with contextlib.suppress(OSError):
            caller.shutdown(socket.SHUT_RDWR)
        self._change.wait_for(lambda: caller not in self._callers)

    def _in_the_way(self, host: str) -> list[socket.socket]:
        """Of whom one has to be through before the next one from this address: the longest there first."""
        hosts = [address for address, _ in self._callers.values()]
        if hosts.count(host) >= PER_ADDRESS:
            crowded = host
        elif len(hosts) >= AT_ONCE:
            crowded = max(hosts, key=hosts.count)
        else:
            return []
        return [sock for sock, (address, _) in self._callers.items() if address == crowded]

    def _meet(self, sock: socket.socket) -> None:
        greeted: list[T] = []
        try:
            greeted.append(self._greet(sock))
        except TransportError as error:
            self._refusals.note(self._callers[sock][0], error)
            sock.close()
        except Exception:
            _log.exception("%s: a caller could not be greeted", self._name)
            sock.close()
        finally:
            with self._change:
                del self._callers[sock]
                self._change.notify_all()
        for who in greeted:
            self._admit(who, sock)
