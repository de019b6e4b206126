"""Strangers at the door: never more than so many at once, and a slot gets in past them."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest
from progress import until

from penstock.core.errors import TransportError
from penstock.exchange import acceptor as door
from penstock.exchange import auth
from penstock.exchange.auth import Greeted, Hello, answer, call, new_secret
from penstock.exchange.lines import PLAIN, Lines
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
    monkeypatch.setattr(door, "SILENT_PER_ADDRESS", 2 * FEW)
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


def test_two_hundred_silent_strangers_do_not_keep_a_slot_waiting(house: House) -> None:
    strangers = [socket.create_connection(house.address, timeout=PATIENCE_S) for _ in range(200)]
    with house.visit():
        assert house.came.acquire(timeout=PATIENCE_S)
    assert house.most == 1, "no thread is spent on who says nothing"
    for sock in strangers:
        sock.close()


def test_strangers_that_begin_and_do_not_go_on_are_bounded_and_do_not_keep_slots_out(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door, "_PATIENCE_S", 0.05)
    strangers = [socket.create_connection(house.address, timeout=PATIENCE_S) for _ in range(200)]
    for sock in strangers:
        sock.sendall(b"\x40")
    with house.visit():
        assert house.came.acquire(timeout=PATIENCE_S)
    assert house.most <= FEW
    for sock in strangers:
        sock.close()


def test_a_crowd_from_one_address_makes_room_for_itself_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "PER_ADDRESS", 2)
    made = House()
    try:
        with made.listener:
            at = door.Door(socket.create_server(("127.0.0.1", 0)), "other", made._greet, made._admit)
            first, second, third = socket.socketpair()[0], socket.socketpair()[0], socket.socketpair()[0]
            at._callers = {third: ("10.0.0.2", 0.0), first: ("10.0.0.1", 1.0), second: ("10.0.0.1", 2.0)}
            assert at._in_the_way("10.0.0.1") == [first, second]
            assert at._in_the_way("10.0.0.2") == at._in_the_way("10.0.0.3") == []
            monkeypatch.setattr(door, "AT_ONCE", 3)
            assert at._in_the_way("10.0.0.3") == [first, second], "the largest crowd makes room"
    finally:
        made.close()


def test_a_greeting_in_drops_ends_when_its_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each drop comes in time; all of them together do not."""
    monkeypatch.setattr(auth, "TIMEOUT_S", 0.3)
    left, right = socket.socketpair()
    left.sendall(b"\x00\x0f")
    stop = threading.Event()

    def drip() -> None:
        with contextlib.suppress(OSError):
            while not stop.wait(0.05):
                left.sendall(b" ")

    thread = threading.Thread(target=drip)
    thread.start()
    with pytest.raises(TransportError, match="too long|timed out"):
        answer(right, "job", 3, SECRET)
    stop.set()
    thread.join(PATIENCE_S)
    left.close()
    right.close()


def test_who_is_hung_up_on_without_a_word_calls_again() -> None:
    """As a slot that lost its place in the lobby to a flood."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        done: list[Hello] = []

        def serve() -> None:
            for _ in range(2):
                listener.accept()[0].close()
            done.append(Lines(SECRET, PLAIN).answer(listener.accept()[0], "job", 3).hello)

        thread = threading.Thread(target=serve)
        thread.start()
        Lines(SECRET, PLAIN).call(listener.getsockname()[:2], SLOT, PATIENCE_S).close()
        thread.join(PATIENCE_S)
    assert done == [SLOT]


def test_a_listener_that_is_closed_at_once_ends_its_door_quietly() -> None:
    threads = threading.active_count()
    for _ in range(20):
        listener = socket.create_server(("127.0.0.1", 0))
        door.Door(listener, "brief", lambda sock: None, lambda who, sock: None)
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
    until(lambda: threading.active_count() <= threads, "the doors' threads are gone")
    assert threading.active_count() <= threads
