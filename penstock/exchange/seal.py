"""A mark on every frame: it is from the peer that was greeted, unaltered, and in its place.

The keys come from the greeting (``auth.py``): one per direction, new for every connection.  A mark covers the
frame's number, header and payload, so that a frame that was put in between, changed, left out, repeated or
sent back to its sender is noticed before anything in it is looked at.  A line under TLS (``tls.py``) needs
none.
"""

from __future__ import annotations

import hashlib
import hmac
import struct

from penstock.core.errors import TransportError

MARK = 16
"""Bytes of a mark."""
_NUMBER = struct.Struct("<Q")

Part = bytes | bytearray | memoryview


class Seal:
    """Marks the frames that go out and checks those that come in, each in order."""

    def __init__(self, ours: bytes, theirs: bytes) -> None:
        self._ours = hmac.new(ours, digestmod=hashlib.sha256)
        self._theirs = hmac.new(theirs, digestmod=hashlib.sha256)
        self._sent = self._heard = 0

    def mark(self, *parts: Part) -> bytes:
        """The mark of the next frame to be sent."""
        number = self._sent
        self._sent += 1
        return _mark(self._ours, number, parts)

    def check(self, mark: Part, *parts: Part) -> None:
        """Refuse the next frame that has come if it is not the one the peer sent next."""
        if not hmac.compare_digest(_mark(self._theirs, self._heard, parts), mark):
            raise TransportError(
                "a frame is not what the peer sent: somebody on the network has put it there, changed it, "
                "repeated it or taken one away; nothing of it was read, and the connection is given up"
            )
        self._heard += 1


def _mark(key: hmac.HMAC, number: int, parts: tuple[Part, ...]) -> bytes:
    state = key.copy()
    state.update(_NUMBER.pack(number))
    for part in parts:
        state.update(part)
    return state.digest()[:MARK]
