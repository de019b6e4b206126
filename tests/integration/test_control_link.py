"""The control connection under load: large messages, slow readers, last words."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest

from penstock.core.clock import SystemClock
from penstock.core.ids import Generation, SlotId, Subtask, SubtaskIndex, VertexId
from penstock.core.messages import DriverMessage, FromSlot, TaskFailed
from penstock.exchange.auth import Hello, new_secret
from penstock.spark.control import ControlServer
from penstock.spark.worker import ControlLink, WorkerInfo
from tests.patience import PATIENCE_S

LARGE = b"x" * 40_000_000


class Desk:
    """A control server and what it heard; its thread is slow to take messages."""

    def __init__(self) -> None:
        self.heard: list[FromSlot] = []
        self.lost = threading.Event()
        self.secret = new_secret()
        self.server = ControlServer(
            "job", self.secret, "127.0.0.1", SystemClock(), 60.0, self._hello, self._message, self._lost
        )
        self.server.expect(Generation(1))

    def _hello(self, hello: Hello) -> None:
        time.sleep(0.3)

    def _message(self, generation: Generation, slot: SlotId, message: FromSlot) -> None:
        self.heard.append(message)

    def _lost(self, generation: Generation, slot: SlotId, reason: str) -> None:
        self.lost.set()

    def link(self, generation: int = 1) -> ControlLink:
        info = WorkerInfo("job", generation, self.secret, self.server.address, None, 0, 10.0, 60.0)
        return ControlLink(info, 0, ("127.0.0.1", 1))


@pytest.fixture
def desk() -> Iterator[Desk]:
    made = Desk()
    yield made
    made.server.close()


def test_last_words_arrive_behind_a_large_message(desk: Desk) -> None:
    """A slot that fails right after sending much still says why."""
    link = desk.link()
    link.report(DriverMessage("sink", LARGE))  # type: ignore[arg-type]
    failure = TaskFailed(Subtask(VertexId("v"), SubtaskIndex(0)), ValueError("the reason"))
    link.report(failure)
    assert link.flush(), "the socket cannot have taken all of it"
    link.drain(30.0)
    link.frames.close()
    assert desk.lost.wait(PATIENCE_S)
    assert [type(message) for message in desk.heard] == [DriverMessage, TaskFailed]
    assert desk.heard[0].payload == LARGE  # type: ignore[union-attr]


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="only Linux can")
def test_a_slot_does_not_talk_into_a_dead_line_for_longer_than_the_driver_waits(desk: Desk) -> None:
    link = desk.link()
    assert link.frames.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 60_000
    link.frames.close()


def test_old_generation_is_refused(desk: Desk) -> None:
    from penstock.core.errors import TransportError

    with pytest.raises(TransportError, match="generation 0 is not the current one"):
        desk.link(generation=0)
