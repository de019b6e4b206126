"""Control messages as bytes, cut into pieces that fit a frame, and joined again.

Most messages are made of Penstock's own plain data and are in the data format
(:mod:`penstock.core.plain_data`).  What a program hands over (a sink's words to its driver side, an error of
a function, splits and operator state of classes of its own) makes its message a pickle, which peers of the
job load: they have proved that they know its secret, and run its code anyway.

All pieces of a message are queued in one go, so they follow each other; ``a`` of each but the last is 1.
Every piece that arrives counts as a heartbeat of its sender.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

from penstock.core.documents import MARK
from penstock.core.messages import DriverMessage, TaskFailed
from penstock.core.pickling import dumps
from penstock.core.plain_data import Codec
from penstock.core.plain_scalars import UnfitError
from penstock.exchange.frames import Frame, FramedSocket, FrameKind

_DATA = Codec()
_OF_THE_PROGRAM = (DriverMessage, TaskFailed)
"""Messages whose contents are the program's, and may be many: pickle is the quickest for them."""


def to_bytes(message: Any, dumps: Callable[[Any], bytes] = dumps) -> bytes:
    """The bytes of a message; ``dumps`` pickles one that is no data."""
    if not isinstance(message, _OF_THE_PROGRAM):
        try:
            return MARK + _DATA.encode(message)
        except UnfitError:
            pass
    return dumps(message)


def from_bytes(data: bytes | bytearray) -> Any:
    """The message. Raises anything on bytes that are none."""
    return _DATA.decode(bytes(data[1:])) if data[:1] == MARK else pickle.loads(data)


PIECE = 1 << 26
_MORE = 1


def queue_message(frames: FramedSocket, data: bytes) -> None:
    """Queue one message."""
    rest = memoryview(data)
    while len(rest) > PIECE:
        frames.queue(FrameKind.CONTROL, _MORE, 0, 0, 0, rest[:PIECE])
        rest = rest[PIECE:]
    frames.queue(FrameKind.CONTROL, 0, 0, 0, 0, rest)


class Pieces:
    """Joins the pieces that arrive on one connection."""

    def __init__(self) -> None:
        self._before = bytearray()

    def take(self, frame: Frame) -> bytes | bytearray | None:
        """The message, if this frame completes it."""
        if frame.a == _MORE:
            self._before += frame.payload
            return None
        if not self._before:
            return frame.payload
        whole, self._before = self._before + frame.payload, bytearray()
        return whole
