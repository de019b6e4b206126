"""Where callers are greeted before anybody listens to them: a bounded number at once.

A process of the job speaks first, and at once.  Who has said nothing yet waits in the :class:`Lobby`, where
each costs a descriptor, and no thread.  Who says nothing for a while is sent away; who comes when too
many wait, from his address or in all, takes the place of the one who has waited longest there.  When this
machine runs out of descriptors, those who wait give theirs back first.

Each caller that speaks is greeted in a small thread of its own, so that a stranger who goes on slowly stalls
nobody.  When too many are at the door, from one address or in all, and none of them gets on, the one that has
stood there longest is sent away: a slot is through in milliseconds, so that is a stranger.
"""

from __future__ import annotations

import contextlib
import errno
import selectors
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from penstock.core.accepting import begin, is_over, rest
from penstock.core.clock import Clock, SystemClock
from penstock.core.discreet import log_of
from penstock.core.error_codes import Code
from penstock.core.errors import ClusterError, TransportError
from penstock.core.option import ports_in


@dataclass(frozen=True, slots=True)
class Ports:
    """A setting and its text."""

    setting: str
    text: str = "0"


_BACKLOG = 1024
"""Callers that may knock at once: all slots of a job do when it starts.  The kernel may allow fewer."""


def listen(host: str, ports: Ports) -> socket.socket:
    """A listening socket on the first port that is free."""
    tried = 0
    forbidden = False
    for port in ports_in(ports.text):
        try:
            return socket.create_server((host, port), backlog=_BACKLOG)
        except OSError as error:
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise ClusterError(f"nobody can listen on {host}: {error}") from error
            tried += 1
            forbidden = forbidden or error.errno == errno.EACCES
    if forbidden:
        raise ClusterError(
            f"{ports.setting} allows {ports.text}, and on {host} this process may not listen there, or "
            "others do already; ports below 1024 are for root: allow higher ones, or leave the setting out "
            "for any that is free",
            code=Code.PORTS,
        )
    raise ClusterError(
        f"{ports.setting} allows {'port' if tried == 1 else 'ports'} {ports.text}, and on {host} "
        f"{'it is' if tried == 1 else f'all {tried} are'} taken; allow more, as many as there are drivers or "
        "slots on a host at once, or leave the setting out for any that is free",
        code=Code.PORTS,
    )


_log = log_of(__name__)
_QUIET_S = 10.0
"""How long further refusals are only counted."""


class Refusals:
    """What a door says of those it sent away; from any thread."""

    def __init__(self, name: str, clock: Clock | None = None) -> None:
        self._name = name
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._next = float("-inf")
        self._untold = 0

    def note(self, peer: str, error: Exception) -> None:
        """Log a refusal, and how many were not logged before it."""
        with self._lock:
            now = self._clock.monotonic()
            if now < self._next:
                self._untold += 1
                return
            self._next = now + _QUIET_S
            untold, self._untold = self._untold, 0
        more = f" ({untold} more since the last such line)" if untold else ""
        _log.warning("%s: a caller from %s was not let in: %s%s", self._name, peer, error, more)


SILENT_PER_ADDRESS = 128
SILENT_IN_ALL = 256
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
        if len(crowd) >= SILENT_PER_ADDRESS:
            self._send_away(host)
        elif sum(map(len, self._waiting.values())) >= SILENT_IN_ALL:
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
