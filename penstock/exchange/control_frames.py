"""Control messages of any size: cut into pieces that fit a frame, and joined again.

All pieces of a message are queued in one go, so they follow each other; ``a`` of each but the last is 1.
Every piece that arrives is a sign of life of its sender.
"""

from __future__ import annotations

from penstock.exchange.frames import Frame, FramedSocket, FrameKind

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
