"""Control messages of any size, and a control thread that no error ends unheard."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from control_desk import Desk, hung_up, say

from penstock.core.ids import SlotId
from penstock.core.messages import AssignSplits, DriverMessage
from penstock.core.pickling import dumps
from penstock.exchange import frames as wire
from penstock.exchange.auth import Hello
from penstock.exchange.control_frames import PIECE, Pieces, from_bytes, queue_message
from penstock.exchange.frames import FramedSocket
from penstock.spark.worker import ControlLink, WorkerInfo
from tests.patience import PATIENCE_S

SMALL = 1000
LARGE = bytes(range(256)) * 40


@pytest.fixture
def desk() -> Iterator[Desk]:
    made = Desk()
    yield made
    made.server.close()


@pytest.fixture
def small_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    """Frames of a kilobyte, instead of a gigabyte."""
    monkeypatch.setattr(wire, "MAX_PAYLOAD", SMALL)
    monkeypatch.setattr("penstock.exchange.control_frames.PIECE", SMALL - 1)


def heard(frames: FramedSocket, count: int) -> list[Any]:
    """The next messages a slot gets."""
    frames.socket.settimeout(PATIENCE_S)
    pieces, found = Pieces(), []
    while len(found) < count:
        for frame in frames.receive():
            message = pieces.take(frame)
            if message is not None:
                found.append(from_bytes(message))
    return found


def test_a_piece_fits_a_frame() -> None:
    assert PIECE <= wire.MAX_PAYLOAD


@pytest.mark.usefixtures("small_frames")
def test_a_message_larger_than_a_frame_gets_to_the_slot(desk: Desk) -> None:
    slot = desk.enter()
    assert desk.wait(lambda: len(desk.hellos) == 1)
    message = AssignSplits(None, (LARGE, "last"), True)  # type: ignore[arg-type]
    desk.server.send(SlotId(1), message)
    desk.server.send(SlotId(1), "behind it")  # type: ignore[arg-type]
    assert heard(slot, 2) == [message, "behind it"]
    slot.close()


@pytest.mark.usefixtures("small_frames")
def test_a_message_larger_than_a_frame_gets_to_the_driver(desk: Desk) -> None:
    info = WorkerInfo("job", 3, desk.secret, desk.server.address, None, 0, 10.0, 60.0)
    link = ControlLink(info, 1, ("127.0.0.1", 1))
    message = DriverMessage("sink", LARGE)  # type: ignore[arg-type]
    link.report(message)
    link.report("behind it")  # type: ignore[arg-type]
    link.drain(10)
    assert desk.wait(lambda: desk.messages == [message, "behind it"])
    link.frames.close()


def test_every_size_is_cut_and_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.exchange.control_frames.PIECE", 4)

    class Queued(FramedSocket):
        def __init__(self) -> None:
            self.frames: list[wire.Frame] = []

        def queue(self, kind: Any, a: int, b: int, c: int, d: int, *payload: Any) -> int:
            self.frames.append(wire.Frame(kind, a, b, c, d, b"".join(payload)))
            return 0

    for size in range(14):
        out, pieces = Queued(), Pieces()
        queue_message(out, bytes(range(size)))
        *before, last = [pieces.take(frame) for frame in out.frames]
        assert before == [None] * len(before) and last == bytes(range(size)), size
        assert all(len(frame.payload) <= 4 for frame in out.frames)


def test_an_error_of_a_callback_costs_its_slot_and_not_the_thread(desk: Desk) -> None:
    first, second = desk.enter(), desk.enter(Hello("job", 3, 2, "control"))
    desk.fail_on = "poison"
    say(first, dumps("poison"))
    assert desk.wait(lambda: len(desk.lost) == 1)
    assert "poison" in desk.lost[0]
    say(second, dumps("well"))
    assert desk.wait(lambda: desk.messages == ["well"])
    first.close()
    second.close()


def test_an_error_where_nobody_expects_one_costs_the_slots_and_not_the_thread(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    slot = desk.enter()
    assert desk.wait(lambda: len(desk.hellos) == 1)

    def broken(*arguments: Any) -> None:
        raise RuntimeError("no room in the selector")

    monkeypatch.setattr(FramedSocket, "send_by", broken)
    desk.server.send(SlotId(1), "x")  # type: ignore[arg-type]
    assert desk.wait(lambda: len(desk.lost) == 1) and "no room in the selector" in desk.lost[0]
    monkeypatch.undo()
    slot.close()
    again = desk.enter()
    assert desk.wait(lambda: len(desk.hellos) == 2), "it still serves"
    say(again, dumps("well"))
    assert desk.wait(lambda: desk.messages == ["well"])
    again.close()


def test_a_slot_that_calls_again_is_not_lost_with_its_first_line(desk: Desk) -> None:
    first = desk.enter()
    assert desk.wait(lambda: len(desk.hellos) == 1)
    again = desk.enter()
    assert desk.wait(lambda: len(desk.hellos) == 2)
    assert hung_up(first)
    first.close()
    say(again, dumps("well"))
    assert desk.wait(lambda: desk.messages == ["well"])
    desk.server.send(SlotId(1), "and here")  # type: ignore[arg-type]
    assert heard(again, 1) == ["and here"] and not desk.lost
    again.close()
    assert desk.wait(lambda: len(desk.lost) == 1), "its end is told"
