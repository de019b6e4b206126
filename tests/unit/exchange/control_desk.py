"""A control server for tests, everything it said, and slots that call it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from typing import Any

from penstock.core.clock import SystemClock
from penstock.core.errors import TransportError
from penstock.core.ids import Generation, SlotId
from penstock.core.messages import FromSlot
from penstock.exchange.auth import Hello, call, new_secret
from penstock.exchange.frames import FramedSocket, FrameKind
from penstock.exchange.lines import PLAIN, Transport
from penstock.spark.control import ControlServer
from tests.patience import PATIENCE_S

SECRET = new_secret()
RIGHT = Hello("job", 3, 1, "control", ("127.0.0.1", 9))


class Desk:
    """A control server, and everything it said."""

    def __init__(self, transport: Transport = PLAIN) -> None:
        self.hellos: list[Hello] = []
        self.messages: list[Any] = []
        self.lost: list[str] = []
        self.words: list[tuple[int, str]] = []
        self.fail_on: Any = None
        """A message that its taker chokes on."""
        self.secret = SECRET
        self._news = threading.Condition()
        self.server = ControlServer(
            "job",
            SECRET,
            "127.0.0.1",
            SystemClock(),
            60.0,
            self._hello,
            self._message,
            self._lost,
            self._words,
            transport,
        )
        self.server.expect(Generation(3))

    def _hello(self, hello: Hello) -> None:
        self._note(lambda: self.hellos.append(hello))

    def _message(self, generation: Generation, slot: SlotId, message: FromSlot) -> None:
        if self.fail_on is not None and message == self.fail_on:
            raise RuntimeError(f"choked on {message}")
        self._note(lambda: self.messages.append(message))

    def _lost(self, generation: Generation, slot: SlotId, reason: str) -> None:
        self._note(lambda: self.lost.append(reason))

    def _words(self, generation: Generation, slot: SlotId, words: str) -> None:
        self._note(lambda: self.words.append((slot, words)))

    def _note(self, change: Callable[[], None]) -> None:
        with self._news:
            change()
            self._news.notify_all()

    def wait(self, reached: Callable[[], bool]) -> bool:
        with self._news:
            return self._news.wait_for(reached, PATIENCE_S)

    def enter(self, hello: Hello = RIGHT, secret: bytes = SECRET) -> FramedSocket:
        sock = socket.create_connection(self.server.address, timeout=PATIENCE_S)
        try:
            seal = call(sock, hello, secret)
        except TransportError:
            sock.close()
            raise
        return FramedSocket(sock, seal)


def say(frames: FramedSocket, payload: bytes) -> None:
    frames.queue(FrameKind.CONTROL, 0, 0, 0, 0, payload)
    frames.send()


def hung_up(frames: FramedSocket) -> bool:
    """Whether the other side closed the connection, within a while."""
    frames.socket.settimeout(PATIENCE_S)
    try:
        return frames.socket.recv(1) == b""
    except ConnectionError:
        return True
