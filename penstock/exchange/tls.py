"""A socket under TLS that looks like a plain one to a loop that never waits.

TLS works on memory (``ssl.MemoryBIO``) and the socket beneath stays as it is: it can be watched, shut down
from another thread, and asked who is there.  Two things differ from a plain socket.  Bytes that ``sendmsg``
could not get rid of are kept enciphered; it raises ``BlockingIOError``, and must be called again with the
same bytes first.  And calls must not overlap, not even one that reads and one that writes.

Nothing readable may be left where a selector cannot see it.  So reading goes on until the socket has no
more; and until the socket is told not to wait, while nobody reads to the end, only single records are taken
from it: what the peer sends right behind a greeting stays in the socket.

A greeting, under TLS or not, has so much time in all (:class:`Patience`), however many small steps it has.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Sequence
from typing import cast

from penstock.core.clock import Clock, SystemClock
from penstock.core.errors import TransportError, UnansweredError


class Patience:
    """Runs out once, for everything that is done with it."""

    def __init__(self, seconds: float, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._end = self._clock.monotonic() + seconds

    def left(self) -> float:
        """Seconds that are left; raises :class:`TransportError` if there are none."""
        left = self._end - self._clock.monotonic()
        if left <= 0:
            raise TransportError("the peer takes too long to say who it is")
        return left


_RECORD = 1 << 14
"""Plain bytes enciphered in one go: what a TLS record holds, so that the buffers in between stay small."""
_RECORDS = 16
"""Records that are handed to the socket together."""
_HEAD = 5
"""Bytes before each record, the last two of which are its length."""
_FAREWELL_S = 1.0
_READ = 1 << 18
"""Enciphered bytes taken from the socket in one go."""


class TlsSocket:
    """Owns a connected socket."""

    def __init__(self, sock: socket.socket, context: ssl.SSLContext, server_side: bool) -> None:
        self._socket = sock
        self._arrived, self._leaving = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._arrived, self._leaving, server_side=server_side)
        self._room = memoryview(bytearray(_READ))
        self._plain = memoryview(bytearray(_RECORD))
        self._greedy = False
        self._head = bytearray()
        self._left = 0
        """Bytes of a record that are still in the socket, while single ones are taken."""
        self._unsent: list[memoryview] = []
        """Enciphered bytes that the socket did not take yet."""
        self._covers = 0
        """How many plain bytes they stand for."""

    def shake_hands(self, patience: Patience) -> None:
        """Prove who we are and see who is there; raises :class:`TransportError`."""
        done = False
        while not done:
            try:
                self._tls.do_handshake()
                done = True
            except ssl.SSLWantReadError:
                pass
            except ssl.SSLError as error:
                self._say(patience)
                self._part(patience)
                raise TransportError(in_words(error)) from error
            self._say(patience)
            if not done:
                self._hear(patience)

    def _say(self, patience: Patience) -> None:
        self._socket.settimeout(patience.left())
        try:
            self._socket.sendall(self._leaving.read())
        except OSError as error:
            raise UnansweredError(f"the connection broke while certificates were shown: {error}") from error

    def _hear(self, patience: Patience) -> None:
        self._socket.settimeout(patience.left())
        try:
            if not self._feed():
                raise UnansweredError("the peer closed the connection while certificates were shown")
        except OSError as error:
            raise UnansweredError(f"the connection broke while certificates were shown: {error}") from error

    def _part(self, patience: Patience) -> None:
        """Let the peer read why: closing over unread bytes would take that away from it."""
        with contextlib.suppress(OSError, TransportError):
            self._socket.shutdown(socket.SHUT_WR)
            while True:
                self._socket.settimeout(min(_FAREWELL_S, patience.left()))
                if not self._socket.recv_into(self._room):
                    return

    def certificate(self) -> bytes:
        """The certificate that the peer has shown, as DER."""
        return self._tls.getpeercert(binary_form=True) or b""

    # --- as a socket ------------------------------------------------------------------------

    def sendmsg(self, buffers: Sequence[memoryview]) -> int:
        """Send the beginning of these bytes; how many of them."""
        if not self._unsent:
            self._encipher(buffers)
        while self._unsent:
            sent = self._socket.sendmsg(self._unsent)
            while sent:
                first = self._unsent[0]
                if sent < first.nbytes:
                    self._unsent[0] = first[sent:]
                    break
                sent -= first.nbytes
                del self._unsent[0]
        covers, self._covers = self._covers, 0
        return covers

    def _encipher(self, buffers: Sequence[memoryview]) -> None:
        """Fill a few records; small buffers share one."""
        record = bytearray()
        for buffer in buffers:
            start = 0
            while start < buffer.nbytes and len(self._unsent) < _RECORDS:
                if not record and buffer.nbytes - start >= _RECORD:
                    self._seal(buffer[start : start + _RECORD])
                    start += _RECORD
                    continue
                part = buffer[start : start + _RECORD - len(record)]
                record += part
                start += part.nbytes
                if len(record) == _RECORD:
                    self._seal(record)
                    record = bytearray()
        if record:
            self._seal(record)

    def _seal(self, plain: bytearray | memoryview) -> None:
        self._tls.write(plain)
        self._unsent.append(memoryview(self._leaving.read()))
        self._covers += len(plain)

    def sendall(self, data: bytes) -> None:
        """Send all of it; on a socket that waits."""
        rest = memoryview(data)
        while rest:
            rest = rest[self.sendmsg([rest]) :]

    def recv(self, count: int) -> bytes:
        """Up to so many bytes; none at the end of the stream."""
        if self._plain.nbytes < count:
            self._plain = memoryview(bytearray(count))
        return bytes(self._plain[: self.recv_into(self._plain[:count])])

    def recv_into(self, room: memoryview) -> int:
        """Fill the room with what is there; 0 at the end of the stream."""
        filled = 0
        while filled < room.nbytes:
            try:
                got = cast(int, self._tls.read(room.nbytes - filled, room[filled:]))
            except ssl.SSLWantReadError:
                if not self._more(filled):
                    break
                continue
            except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                break
            except ssl.SSLError as error:
                raise TransportError(in_words(error)) from error
            if not got:
                break
            filled += got
        return filled

    def _more(self, filled: int) -> bool:
        """Take more from the socket; false if what was read already has to do."""
        if filled and self._socket.gettimeout() != 0:
            return False
        try:
            self._feed()
        except (BlockingIOError, InterruptedError):
            if filled:
                return False
            raise
        return True

    def _feed(self) -> int:
        wanted = _READ if self._greedy else self._left or _HEAD - len(self._head)
        count = self._socket.recv_into(self._room[:wanted])
        if not self._greedy:
            self._follow(count)
        if count:
            self._arrived.write(self._room[:count])
        else:
            self._arrived.write_eof()
        return count

    def _follow(self, count: int) -> None:
        """Keep count of what belongs to the record that is being taken."""
        if self._left:
            self._left -= count
            return
        self._head += self._room[:count]
        if len(self._head) == _HEAD:
            self._left = int.from_bytes(self._head[3:], "big")
            self._head.clear()

    def fileno(self) -> int:
        """The descriptor, for selectors."""
        return self._socket.fileno()

    def setblocking(self, flag: bool) -> None:
        """As of the socket. Who does not wait reads to the end, from now on."""
        self._greedy = self._greedy or not flag
        self._socket.setblocking(flag)

    def settimeout(self, seconds: float | None) -> None:
        """As of the socket."""
        self._socket.settimeout(seconds)

    def setsockopt(self, level: int, name: int, value: int) -> None:
        """As of the socket."""
        self._socket.setsockopt(level, name, value)

    def getsockopt(self, level: int, name: int) -> int:
        """As of the socket."""
        return self._socket.getsockopt(level, name)

    def close(self) -> None:
        """As of the socket."""
        self._socket.close()


_EXPIRED, _NOT_YET = 10, 9
_RENEW = (
    "put a new one into security.ssl.internal.keystore, or leave the setting out and the job makes its own"
)
_STRANGE = "it belongs to another job, or was not signed by what {} security.ssl.internal.truststore holds"
_REASONS = {
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "the peer asks for a certificate and this process showed none",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the peer showed no certificate",
    "TLSV1_ALERT_UNKNOWN_CA": f"the peer does not accept our certificate: {_STRANGE.format('its')}",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": f"our certificate has expired; {_RENEW}",
}


def in_words(error: ssl.SSLError) -> str:
    """What is wrong between two peers, and what to do."""
    if isinstance(error, ssl.SSLCertVerificationError):
        if error.verify_code == _EXPIRED:
            return f"the peer's certificate has expired; {_RENEW}"
        if error.verify_code == _NOT_YET:
            return "the peer's certificate is not valid yet; set the clocks of the machines right"
        strange = _STRANGE.format("our")
        return f"the peer's certificate is not one of this job ({error.verify_message}): {strange}"
    reason = error.reason or str(error)
    return _REASONS.get(reason, f"no connection under TLS with the peer: {reason}")
