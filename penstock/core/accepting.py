"""Taking calls at a listening socket, through whatever goes wrong, with room for so many callers.

Whoever keeps a place in a :class:`Crowd` without being served can be sent away for one who comes later, so
nobody shuts the door for others by calling often and speaking slowly.  Being sent away ends what a guest can
send; it can still be told why.  Safe to use from many threads.
"""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import itertools
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from enum import IntEnum

from penstock.core.discreet import log_of

_log = log_of(__name__)
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


class Standing(IntEnum):
    """What a guest is to us: whoever stands lowest goes first."""

    IDLE = 0
    """Nothing of it is under way."""
    STRANGER = 1
    """It has begun to speak and has not shown who it is."""
    KNOWN = 2
    """It has shown who it is, and still speaks."""
    SERVED = 3
    """What it asked for is being done: it is not sent away."""


class Guest:
    """One who was let in. Whoever serves it says how it stands, and when it has left."""

    def __init__(self, crowd: Crowd, sock: socket.socket, address: str, standing: Standing) -> None:
        self.address = address
        self.standing = standing
        self.since = 0
        self.is_out = False
        """Whether it was sent away: nothing that it sent from then on counts."""
        self._crowd = crowd
        self._sock = sock

    def stand(self, standing: Standing) -> bool:
        """Say how it stands now; whether it is still in."""
        return self._crowd._stand(self, standing)

    def leave(self) -> None:
        """Give up the place. Safe to repeat."""
        self._crowd._leave(self)

    def send_away(self) -> None:
        """Wake whoever waits for its words, with their end."""
        self.is_out = True
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RD)


class Crowd:
    """The guests of one door: at most so many, and of one address at most so many."""

    def __init__(self, most: int, most_of_one: int) -> None:
        self._most = most
        self._most_of_one = most_of_one
        self._lock = threading.Lock()
        self._guests: set[Guest] = set()
        self._order = itertools.count()

    def enter(self, sock: socket.socket, address: str, standing: Standing = Standing.IDLE) -> Guest | None:
        """Let a caller in, if need be for another; ``None`` if all the others are being served."""
        with self._lock:
            counts = Counter(guest.address for guest in self._guests)
            crowded = counts[address] >= self._most_of_one
            if crowded or len(self._guests) >= self._most:
                rivals = [guest for guest in self._guests if guest.address == address or not crowded]
                if not self._has_room_made(rivals, counts):
                    return None
            guest = Guest(self, sock, address, standing)
            guest.since = next(self._order)
            self._guests.add(guest)
            return guest

    def close(self) -> None:
        """Send all away who are not being served."""
        with self._lock:
            for guest in [guest for guest in self._guests if guest.standing is not Standing.SERVED]:
                self._guests.discard(guest)
                guest.send_away()

    def _has_room_made(self, rivals: list[Guest], counts: Counter[str]) -> bool:
        """The lowest goes; of those the one with most of its kind here; of those the longest unchanged."""
        last = min(
            rivals, key=lambda guest: (guest.standing, -counts[guest.address], guest.since), default=None
        )
        if last is None or last.standing is Standing.SERVED:
            return False
        self._guests.discard(last)
        last.send_away()
        return True

    def _stand(self, guest: Guest, standing: Standing) -> bool:
        with self._lock:
            if guest.is_out:
                return False
            guest.standing = standing
            guest.since = next(self._order)
            return True

    def _leave(self, guest: Guest) -> None:
        with self._lock:
            self._guests.discard(guest)


def address_of(sock: socket.socket) -> str:
    """Who calls, as far as the network knows: of IPv6 the half that one owner has all of.

    ``OSError`` if it has hung up already.
    """
    host = str(sock.getpeername()[0])
    with contextlib.suppress(ValueError):
        found = ipaddress.ip_address(host.partition("%")[0])
        if found.version == 6:
            return str(found.ipv4_mapped or ipaddress.ip_network((found, 64), strict=False))
    return host
