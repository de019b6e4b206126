"""Where callers wait until they say their first word: each costs a descriptor, and no thread.

A process of the job speaks first, and at once.  Who says nothing for a while is sent away; who comes when too
many wait, from his address or in all, takes the place of the one who has waited longest there.  When this
machine runs out of descriptors, those who wait give theirs back first.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
from collections.abc import Iterator

from penstock.core.accepting import is_over, rest
from penstock.core.clock import Clock, SystemClock

PER_ADDRESS = 128
IN_ALL = 256
SILENCE_S = 10.0
_LOOK_S = 1.0
"""How often to see whether the listener was closed: a selector does not always tell."""


class Lobby:
    """Belongs to the thread that goes through :meth:`speakers`."""

    def __init__(self, listener: socket.socket, name: str, clock: Clock | None = None) -> None:
        listener.setblocking(False)
        self._listener = listener
        self._name = name
        self._clock = clock or SystemClock()
        self._selector = selectors.DefaultSelector()
        self._selector.register(listener, selectors.EVENT_READ, None)
        self._waiting: dict[str, dict[socket.socket, float]] = {}
        """By address, in order of arrival: until when somebody may be silent."""

    def speakers(self) -> Iterator[tuple[socket.socket, str]]:
        """Callers that have said something, with their address; ends when the listener is closed."""
        try:
            while not is_over(self._listener):
                for key, _ in self._selector.select(_LOOK_S):
                    if key.data is None:
                        self._let_in()
                    elif isinstance(key.fileobj, socket.socket) and self._waits(key.fileobj, key.data):
                        self._forget(key.fileobj, key.data)
                        yield key.fileobj, key.data
                self._send_silent_away()
        finally:
            self._selector.close()
            for crowd in self._waiting.values():
                for sock in crowd:
                    sock.close()

    def _let_in(self) -> None:
        try:
            sock, address = self._listener.accept()
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            if not is_over(self._listener) and not self._send_away(self._largest()):
                rest(self._name, error)
            return
        host = str(address[0]) if address else ""
        crowd = self._waiting.setdefault(host, {})
        if len(crowd) >= PER_ADDRESS:
            self._send_away(host)
        elif sum(map(len, self._waiting.values())) >= IN_ALL:
            self._send_away(self._largest())
        self._waiting.setdefault(host, {})[sock] = self._clock.monotonic() + SILENCE_S
        self._selector.register(sock, selectors.EVENT_READ, host)

    def _waits(self, sock: socket.socket, host: str) -> bool:
        """Not if somebody has just taken its place."""
        return sock in self._waiting.get(host, ())

    def _largest(self) -> str | None:
        """The address from which most are waiting."""
        return max(self._waiting, key=lambda host: len(self._waiting[host]), default=None)

    def _send_away(self, host: str | None) -> bool:
        """Who has waited longest, of this address; false if nobody waits."""
        longest = next(iter(self._waiting.get(host, ())), None) if host is not None else None
        if longest is None or host is None:
            return False
        self._forget(longest, host)
        longest.close()
        return True

    def _send_silent_away(self) -> None:
        now = self._clock.monotonic()
        for host in list(self._waiting):
            while (
                first := next(iter(self._waiting.get(host, {}).values()), None)
            ) is not None and first < now:
                self._send_away(host)

    def _forget(self, sock: socket.socket, host: str) -> None:
        crowd = self._waiting[host]
        del crowd[sock]
        if not crowd:
            del self._waiting[host]
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(sock)
