"""Somebody on the network puts a frame into a greeted line: nothing of it is unpickled."""

from __future__ import annotations

import pickle
import selectors
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from control_desk import SECRET, Desk
from eavesdropper import Between, Bomb

from penstock.core.batch import Batch
from penstock.core.errors import TransportError
from penstock.core.ids import ChannelId, EdgeId, SlotId, SubtaskIndex
from penstock.exchange.auth import Hello, call
from penstock.exchange.channel import InputChannel
from penstock.exchange.codec import ChannelEncoder
from penstock.exchange.frames import HEADER, MARK, Frame, FramedSocket, FrameKind, Seal
from penstock.exchange.network import TcpNetwork
from penstock.spark.worker import ControlLink, WorkerInfo
from tests.patience import PATIENCE_S

CHANNEL = ChannelId(EdgeId(0), SubtaskIndex(0), SubtaskIndex(1))


@pytest.fixture
def desk() -> Iterator[Desk]:
    made = Desk()
    yield made
    made.server.close()


def forged(kind: FrameKind, payload: bytes, *numbers: int) -> bytes:
    """A frame as anybody can write one; the mark is a guess."""
    a, b, c, d = numbers or (0, 0, 0, 0)
    return HEADER.pack(len(payload), kind, a, b, c, d) + payload + bytes(MARK)


def frames_until_error(frames: FramedSocket) -> tuple[list[Frame], str]:
    frames.socket.settimeout(PATIENCE_S)
    found = []
    try:
        while True:
            for frame in frames.receive():
                found.append(frame)
    except TransportError as error:
        return found, str(error)


def linked(desk: Desk) -> tuple[ControlLink, Between]:
    between = Between(desk.server.address)
    info = WorkerInfo("job", 3, SECRET, between.address, None, 0, 10.0, 60.0)
    link = ControlLink(info, 1, ("127.0.0.1", 1))
    assert desk.wait(lambda: len(desk.hellos) == 1)
    return link, between


def test_a_frame_put_into_the_line_to_the_driver_runs_nothing(desk: Desk, tmp_path: Path) -> None:
    link, between = linked(desk)
    assert between.callee is not None
    between.callee.sendall(forged(FrameKind.CONTROL, pickle.dumps(Bomb(tmp_path / "run"))))
    assert desk.wait(lambda: len(desk.lost) == 1)
    assert "not what the peer sent" in desk.lost[0]
    assert desk.messages == [] and not (tmp_path / "run").exists()
    link.frames.close()
    between.close()


def test_a_frame_put_into_the_line_to_a_slot_is_not_handed_out(desk: Desk, tmp_path: Path) -> None:
    link, between = linked(desk)
    assert between.caller is not None
    between.caller.sendall(forged(FrameKind.CONTROL, pickle.dumps(Bomb(tmp_path / "run"))))
    found, error = frames_until_error(link.frames)
    assert found == [] and "not what the peer sent" in error
    link.frames.close()
    between.close()


def test_a_frame_put_between_slots_runs_nothing(tmp_path: Path) -> None:
    selector = selectors.DefaultSelector()
    network = TcpNetwork(SlotId(1), "job", 3, SECRET, selector)
    between = Between(network.address)
    with socket.create_connection(between.address, timeout=PATIENCE_S) as sock:
        call(sock, Hello("job", 3, 0, "data"), SECRET)
        network.connect({SlotId(0): ("127.0.0.1", 9)}, timeout_s=PATIENCE_S)
        channel = InputChannel(CHANNEL)
        network.register(channel)
        rows = bytes(8) + pickle.dumps((0, None, [Bomb(tmp_path / "run")], None))
        assert between.callee is not None
        between.callee.sendall(forged(FrameKind.ROWS, rows, 0, 0, 1, 1))
        with pytest.raises(TransportError, match="slot 0: a frame is not what the peer sent"):
            while True:
                for key, events in selector.select(PATIENCE_S):
                    network.on_ready(key.data, events)
    assert not (tmp_path / "run").exists()
    network.close()
    selector.close()
    between.close()


# --- what else somebody in between can do with frames he has seen -----------------------------------


def sealed() -> tuple[FramedSocket, FramedSocket, socket.socket, socket.socket]:
    """A sender, a receiver, and the two far ends of what is between them."""
    near, far = socket.socketpair()
    gate, end = socket.socketpair()
    far.settimeout(PATIENCE_S)
    ours, theirs = b"a" * 32, b"b" * 32
    return FramedSocket(near, Seal(ours, theirs)), FramedSocket(end, Seal(theirs, ours)), far, gate


def three_frames(sender: FramedSocket, far: socket.socket) -> list[bytes]:
    encoder = ChannelEncoder(CHANNEL, sender)
    frames = []
    for n in range(3):
        encoder.encode(Batch(rows=[n]))
        sender.send()
        frames.append(far.recv(1 << 16))
    return frames


TRICKS = {
    "repeated": lambda one, two, three: [one, one],
    "taken away": lambda one, two, three: [one, three],
    "out of order": lambda one, two, three: [one, three, two],
    "another length": lambda one, two, three: [
        one,
        struct.pack("<I", len(two) - HEADER.size - MARK - 1) + two[4:],
    ],
    "another channel": lambda one, two, three: [one, two[:5] + b"\7" + two[6:]],
    "another payload": lambda one, two, three: [one, two[: -MARK - 1] + b"\0" + two[-MARK:]],
    "another mark": lambda one, two, three: [one, two[:-1] + bytes([two[-1] ^ 1])],
}


@pytest.mark.parametrize("trick", TRICKS)
def test_frames_that_were_tampered_with_are_noticed(trick: str) -> None:
    sender, receiver, far, gate = sealed()
    gate.sendall(b"".join(TRICKS[trick](*three_frames(sender, far))))
    gate.shutdown(socket.SHUT_WR)
    found, error = frames_until_error(receiver)
    assert len(found) == 1 and "not what the peer sent" in error
    for end in (sender, receiver, far, gate):
        end.close()


def test_frames_as_they_were_sent_come_through() -> None:
    sender, receiver, far, gate = sealed()
    gate.sendall(b"".join(three_frames(sender, far)))
    gate.shutdown(socket.SHUT_WR)
    found, error = frames_until_error(receiver)
    assert len(found) == 3 and "closed the connection" in error
    for end in (sender, receiver, far, gate):
        end.close()


def test_a_frame_that_is_sent_back_to_its_sender_is_noticed() -> None:
    sender, receiver, far, gate = sealed()
    far.sendall(three_frames(sender, far)[0])
    assert frames_until_error(sender)[0] == []
    for end in (sender, receiver, far, gate):
        end.close()


@pytest.mark.parametrize("size", [0, 1, (1 << 18) - 1, 1 << 18, (1 << 18) + 1, 5_000_000])
@pytest.mark.parametrize("spoilt", [False, True])
def test_frames_of_every_size_are_checked(size: int, spoilt: bool) -> None:
    near, end = socket.socketpair()
    ours, theirs = b"a" * 32, b"b" * 32
    sender, receiver = FramedSocket(near, Seal(ours, theirs)), FramedSocket(end, Seal(theirs, ours))
    sender.queue(FrameKind.ROWS, 1, 2, 3, 4, b"x" * (size // 2), b"x" * (size - size // 2))
    if spoilt:
        sender._out[-1] = memoryview(bytes(MARK))
    found: list[Frame] = []

    def pump() -> Any:
        while sender.has_output or not found:
            sender.send()
            found.extend(receiver.receive())

    if spoilt:
        with pytest.raises(TransportError, match="not what the peer sent"):
            pump()
        assert found == []
    else:
        pump()
        assert found == [Frame(FrameKind.ROWS, 1, 2, 3, 4, bytearray(b"x" * size))]
    sender.close()
    receiver.close()


def test_every_line_has_keys_of_its_own() -> None:
    """What was seen on one line is of no use on another."""
    desk = Desk()
    first, between = linked(desk)
    other = desk.enter(Hello("job", 3, 2, "control"))
    before = len(between.to_server)
    first.report("mine")  # type: ignore[arg-type]
    assert desk.wait(lambda: desk.messages == ["mine"])
    other.socket.sendall(bytes(between.to_server[before:]))
    assert desk.wait(lambda: len(desk.lost) == 1)
    assert desk.messages == ["mine"]
    first.frames.close()
    other.close()
    between.close()
    desk.server.close()
