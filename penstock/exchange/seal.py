"""A mark on every frame: it is from the peer that was greeted, unaltered, and in its place.

The keys come from the greeting (``auth.py``): one per direction, new for every connection.  A mark covers the
frame's number, header and payload, so that a frame that was put in between, changed, left out, repeated or
sent back to its sender is noticed before anything in it is looked at.  A line under TLS (``tls.py``) needs
none.

The mark is AES-256-GCM's tag over bytes that stay readable (GMAC).  The frame's number is its nonce: no two
frames under one key have the same, which is what GMAC's safety hangs on.
"""

from __future__ import annotations

import hmac

from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import GCM

from penstock.core.errors import TransportError

MARK = 16
"""Bytes of a mark."""
_NONCE = 12

Part = bytes | bytearray | memoryview


class Seal:
    """Marks the frames that go out and checks those that come in, each in order."""

    def __init__(self, ours: bytes, theirs: bytes) -> None:
        self._ours, self._theirs = AES256(ours), AES256(theirs)
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


def _mark(key: AES256, number: int, parts: tuple[Part, ...]) -> bytes:
    state = Cipher(key, GCM(number.to_bytes(_NONCE, "little"))).encryptor()
    for part in parts:
        state.authenticate_additional_data(part)
    state.finalize()
    return state.tag
