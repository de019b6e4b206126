"""A socket that carries frames, without blocking.

::

    frame := u32 payload length | u8 kind | 4 x u32 | payload | mark, if the line is sealed

Outgoing buffers are queued and sent by scatter-gather whenever the socket takes them; incoming bytes
are cut into frames.  A length beyond :data:`MAX_PAYLOAD` is refused before anything is allocated, and room
for a large payload is made as it arrives, not as it is promised.  On a sealed line nobody sees a frame whose
mark is wrong.

A mark says that a frame is from the peer that was greeted, unaltered, and in its place.  The keys come from
the greeting (``auth.py``): one per direction, new for every connection.  A mark covers the frame's number,
header and payload, so that a frame that was put in between, changed, left out, repeated or sent back to its
sender is noticed before anything in it is looked at.  A line under TLS (``tls.py``) needs none.

The mark is AES-256-GCM's tag over bytes that stay readable (GMAC).  The frame's number is its nonce: no two
frames under one key have the same, which is what GMAC's safety hangs on.
"""

from __future__ import annotations

import contextlib
import hmac
import selectors
import socket
import struct
from collections import deque
from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple

from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import GCM

from penstock.core.errors import TransportError
from penstock.exchange.tls import TlsSocket

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


HEADER = struct.Struct("<IBIIII")
MAX_PAYLOAD = 1 << 30
_READ = 1 << 18
_ROOM = 1 << 25
_GATHER = 64

Buffer = bytes | bytearray | memoryview


class FrameKind(IntEnum):
    """What a frame holds."""

    CONTROL = 1
    SCHEMA = 2
    COLUMNS = 3
    ROWS = 4
    SIGNAL = 5
    CREDIT = 6


class Frame(NamedTuple):
    """One frame as received. ``a`` to ``d`` mean what the kind says."""

    kind: FrameKind
    a: int
    b: int
    c: int
    d: int
    payload: bytes | bytearray


class FramedSocket:
    """Owns a connected socket. One call at a time.

    ``seal`` is left out under TLS, and where both ends are in one process.
    """

    def __init__(self, sock: socket.socket | TlsSocket, seal: Seal | None = None) -> None:
        sock.setblocking(False)
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self.socket = sock
        self._seal = seal
        self._behind = MARK if seal is not None else 0
        """Bytes behind each payload."""
        self._out: deque[memoryview] = deque()
        self._waits_for_room = False
        self._header = bytearray(HEADER.size)
        self._pending = bytearray()
        self._large: bytearray | None = None
        self._large_filled = 0
        self._large_head: tuple[int, int, int, int, int, int] = (0, 0, 0, 0, 0, 0)

    @property
    def has_output(self) -> bool:
        """Whether bytes wait to be sent."""
        return bool(self._out)

    def queue(self, kind: FrameKind, a: int, b: int, c: int, d: int, *payload: Buffer) -> int:
        """Queue a frame; its payload's size."""
        size = sum(memoryview(part).nbytes for part in payload)
        if size > MAX_PAYLOAD:
            raise TransportError(
                f"a batch of {size} bytes is larger than a frame may be ({MAX_PAYLOAD}); make the records "
                "smaller or lower the number of rows per batch"
            )
        parts = [memoryview(HEADER.pack(size, kind, a, b, c, d))]
        parts += [memoryview(part).cast("B") for part in payload if memoryview(part).nbytes]
        if self._seal is not None:
            parts.append(memoryview(self._seal.mark(*parts)))
        self._out += parts
        return size

    def send(self) -> None:
        """Send what the socket takes now."""
        out = self._out
        while out:
            try:
                sent = self.socket.sendmsg([out[i] for i in range(min(len(out), _GATHER))])
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                raise TransportError(f"the connection broke: {error}") from error
            while sent:
                first = out[0]
                if sent >= first.nbytes:
                    sent -= first.nbytes
                    out.popleft()
                else:
                    out[0] = first[sent:]
                    sent = 0

    def send_by(self, selector: selectors.BaseSelector, registered: object) -> None:
        """Send what the socket takes now; ``selector`` looks for room as long as something is left.

        The socket is registered there with ``registered``; it looks for input at any time.
        """
        self.send()
        waits = bool(self._out)
        if waits != self._waits_for_room:
            self._waits_for_room = waits
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if waits else 0)
            selector.modify(self.socket, events, registered)

    def receive(self) -> Iterator[Frame]:
        """The frames that have arrived completely. Raises at the end of the stream."""
        while True:
            if self._large is not None:
                if not self._fill_large():
                    return
                yield self._take_large()
                continue
            data = self._read()
            if data is None:
                return
            self._pending += data
            yield from self._cut()
            if len(data) < _READ and self._large is None:
                return

    def _read(self) -> bytes | None:
        try:
            data = self.socket.recv(_READ)
        except (BlockingIOError, InterruptedError):
            return None
        except OSError as error:
            raise TransportError(f"the connection broke: {error}") from error
        if not data:
            raise TransportError("the peer closed the connection")
        return data

    def _cut(self) -> Iterator[Frame]:
        pending, position = self._pending, 0
        while len(pending) - position >= HEADER.size:
            head = HEADER.unpack_from(pending, position)
            size = head[0]
            if size > MAX_PAYLOAD or head[1] not in FrameKind._value2member_map_:
                raise TransportError(f"a peer sent a frame that makes no sense ({size} bytes)")
            start = position + HEADER.size
            if len(pending) - start < size + self._behind:
                if size > _READ:
                    self._begin_large(head, pending[start:])
                    position = len(pending)
                break
            position = start + size + self._behind
            yield self._checked(head, pending[start:position])
        if position:
            self._pending = pending[position:]

    def _begin_large(self, head: tuple[int, int, int, int, int, int], first: bytearray) -> None:
        self._large = first
        self._large_filled = len(first)
        self._large_head = head

    def _fill_large(self) -> bool:
        """Read straight into the large payload; true when it is complete."""
        assert self._large is not None
        large, size = self._large, self._large_head[0] + self._behind
        while self._large_filled < size:
            if self._large_filled == len(large):
                large += bytes(min(size - len(large), max(len(large), _READ), _ROOM))
            try:
                with memoryview(large) as view, view[self._large_filled :] as rest:
                    count = self.socket.recv_into(rest)
            except (BlockingIOError, InterruptedError):
                return False
            except OSError as error:
                raise TransportError(f"the connection broke: {error}") from error
            if not count:
                raise TransportError("the peer closed the connection")
            self._large_filled += count
        return True

    def _take_large(self) -> Frame:
        assert self._large is not None
        body, self._large = self._large, None
        return self._checked(self._large_head, body)

    def _checked(self, head: tuple[int, int, int, int, int, int], body: bytearray) -> Frame:
        """The frame of a header and what came behind it, if it is the peer's."""
        if self._seal is not None:
            size = head[0]
            with memoryview(body) as view:
                self._seal.check(view[size:], HEADER.pack(*head), view[:size])
            del body[size:]
        return Frame(FrameKind(head[1]), head[2], head[3], head[4], head[5], body)

    def close(self) -> None:
        """Close the socket."""
        with contextlib.suppress(OSError):
            self.socket.close()
