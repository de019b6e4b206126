"""Strangers at the door: never more than so many at once, and a slot gets in past them."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest

from penstock.core.errors import TransportError
from penstock.exchange import door
from penstock.exchange.auth import Greeted, Hello, answer, call, new_secret
from tests.patience import PATIENCE_S

SECRET = new_secret()
SLOT = Hello("job", 3, 1, "data")
FEW = 4


class House:
    """A door, and who came in."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = self.listener.getsockname()
        self.most = 0
        self._inside: list[socket.socket] = []
        self._greeting = 0
        self._lock = threading.Lock()
        self.came = threading.Semaphore(0)
        door.Door(self.listener, "house", self._greet, self._admit)

    def _greet(self, sock: socket.socket) -> Greeted:
        with self._lock:
            self._greeting += 1
            self.most = max(self.most, self._greeting)
        try:
            return answer(sock, "job", 3, SECRET)
        finally:
            with self._lock:
                self._greeting -= 1

    def _admit(self, who: Greeted, sock: socket.socket) -> None:
        self._inside.append(sock)
        self.came.release()

    def visit(self) -> socket.socket:
        sock = socket.create_connection(self.address, timeout=PATIENCE_S)
        call(sock, SLOT, SECRET)
        return sock

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for sock in self._inside:
            sock.close()


@pytest.fixture
def house(monkeypatch: pytest.MonkeyPatch) -> Iterator[House]:
    monkeypatch.setattr(door, "AT_ONCE", FEW)
    made = House()
    yield made
    made.close()


def test_silent_strangers_are_bounded_and_do_not_keep_slots_out(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door, "_PATIENCE_S", 0.02)
    strangers = [socket.create_connection(house.address, timeout=PATIENCE_S) for _ in range(3 * FEW)]
    with house.visit():
        assert house.came.acquire(timeout=PATIENCE_S)
    assert house.most <= FEW
    assert strangers[0].recv(1) == b"", "who has stood there longest was sent away"
    for sock in strangers:
        sock.close()


def test_slots_that_come_all_at_once_get_in_without_losing_one(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door, "_PATIENCE_S", 20)
    found: list[socket.socket | TransportError] = []

    def visit() -> None:
        try:
            found.append(house.visit())
        except TransportError as error:
            found.append(error)

    threads = [threading.Thread(target=visit) for _ in range(8 * FEW)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert [item for item in found if isinstance(item, TransportError)] == [] and len(found) == 8 * FEW
    assert house.most <= FEW
    for item in found:
        if isinstance(item, socket.socket):
            item.close()
