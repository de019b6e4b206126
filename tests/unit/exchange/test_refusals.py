"""Who has no business here is refused: at the driver's control port and at a slot's data port alike.

Without the job's secret, of another job, or of an old generation; and what an admitted slot may not do.
"""

from __future__ import annotations

import selectors
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from penstock.core.clock import SystemClock
from penstock.core.errors import TransportError
from penstock.core.ids import Generation, SlotId
from penstock.core.messages import FromSlot
from penstock.core.pickling import dumps
from penstock.exchange.auth import Hello, call, new_secret
from penstock.exchange.frames import FramedSocket, FrameKind
from penstock.exchange.network import TcpNetwork
from penstock.spark.control import ControlServer

SECRET = new_secret()
RIGHT = Hello("job", 3, 1, "control", ("127.0.0.1", 9))
STRANGERS = [
    pytest.param(RIGHT, new_secret(), "does not know the job's secret", id="wrong secret"),
    pytest.param(RIGHT, b"", "does not know the job's secret", id="no secret"),
    pytest.param(Hello("other", 3, 1, "control"), SECRET, "another job", id="another job"),
    pytest.param(Hello("job", 2, 1, "control"), SECRET, "generation 2", id="old generation"),
    pytest.param(Hello("job", 4, 1, "control"), SECRET, "generation 4", id="later generation"),
]


class Desk:
    """A control server, and everything it said."""

    def __init__(self) -> None:
        self.hellos: list[Hello] = []
        self.messages: list[Any] = []
        self.lost: list[str] = []
        self._news = threading.Condition()
        self.server = ControlServer(
            "job", SECRET, "127.0.0.1", SystemClock(), 60.0, self._hello, self._message, self._lost
        )
        self.server.expect(Generation(3))

    def _hello(self, hello: Hello) -> None:
        self._note(lambda: self.hellos.append(hello))

    def _message(self, generation: Generation, slot: SlotId, message: FromSlot) -> None:
        self._note(lambda: self.messages.append(message))

    def _lost(self, generation: Generation, slot: SlotId, reason: str) -> None:
        self._note(lambda: self.lost.append(reason))

    def _note(self, change: Callable[[], None]) -> None:
        with self._news:
            change()
            self._news.notify_all()

    def wait(self, reached: Callable[[], bool]) -> bool:
        with self._news:
            return self._news.wait_for(reached, 10)

    def enter(self, hello: Hello = RIGHT, secret: bytes = SECRET) -> FramedSocket:
        sock = socket.create_connection(self.server.address, timeout=5)
        try:
            call(sock, hello, secret)
        except TransportError:
            sock.close()
            raise
        return FramedSocket(sock)


@pytest.fixture
def desk() -> Iterator[Desk]:
    made = Desk()
    yield made
    made.server.close()


def say(frames: FramedSocket, payload: bytes) -> None:
    frames.queue(FrameKind.CONTROL, 0, 0, 0, 0, payload)
    frames.send()


def hung_up(frames: FramedSocket) -> bool:
    """Whether the other side closed the connection, within a while."""
    frames.socket.settimeout(5)
    try:
        return frames.socket.recv(1) == b""
    except ConnectionError:
        return True


@pytest.mark.parametrize(("hello", "secret", "why"), STRANGERS)
def test_the_driver_refuses(desk: Desk, hello: Hello, secret: bytes, why: str) -> None:
    with pytest.raises(TransportError, match=why):
        desk.enter(hello, secret)
    slot = desk.enter()
    say(slot, dumps("still there"))
    assert desk.wait(lambda: desk.messages == ["still there"])
    assert desk.hellos == [RIGHT] and desk.lost == []
    slot.close()


def test_the_driver_does_not_read_messages_of_strangers(desk: Desk) -> None:
    """A pickle in place of a greeting is never loaded."""
    with socket.create_connection(desk.server.address, timeout=5) as sock:
        frames = FramedSocket(sock)
        say(frames, dumps("let me in"))
        assert hung_up(frames)
    assert desk.hellos == [] and desk.messages == []


def test_slots_of_an_old_generation_are_dropped_when_a_new_one_is_expected(desk: Desk) -> None:
    old = desk.enter()
    assert desk.wait(lambda: len(desk.hellos) == 1)
    desk.server.expect(Generation(4))
    assert hung_up(old)
    with pytest.raises(TransportError, match="generation 3"):
        desk.enter()
    assert desk.lost == [], "the coordinator knows already"
    old.close()


def test_a_message_that_cannot_be_read_costs_its_slot_only(desk: Desk) -> None:
    first, second = desk.enter(), desk.enter(Hello("job", 3, 2, "control"))
    say(first, b"\x80\x05cno_such_module\nThing\n.")
    assert desk.wait(lambda: len(desk.lost) == 1)
    assert "cannot be read in the driver" in desk.lost[0] and hung_up(first)
    say(second, dumps("well"))
    assert desk.wait(lambda: desk.messages == ["well"])
    first.close()
    second.close()


@pytest.mark.parametrize(("hello", "secret", "why"), STRANGERS)
def test_a_slot_refuses(hello: Hello, secret: bytes, why: str) -> None:
    selector = selectors.DefaultSelector()
    network = TcpNetwork(SlotId(2), "job", 3, SECRET, selector)
    try:
        with (
            socket.create_connection(network.address, timeout=5) as sock,
            pytest.raises(TransportError, match=why),
        ):
            call(sock, hello, secret)
        with pytest.raises(TransportError, match="did not connect"):
            network.connect({SlotId(1): ("127.0.0.1", 9)}, timeout_s=0.05)
        with socket.create_connection(network.address, timeout=5) as sock:
            call(sock, RIGHT, SECRET)
            network.connect({SlotId(1): ("127.0.0.1", 9)}, timeout_s=5)
    finally:
        network.close()
        selector.close()
