"""One connection of a webhook: its requests, each within its time, and how it ends.

A request has so long to arrive, however many pieces it comes in; and whoever keeps the server waiting stands
back for others (see ``core/accepting.py``).
"""

from __future__ import annotations

import io
import json
import socket
from contextlib import suppress
from http import HTTPStatus
from http.client import HTTPException
from http.server import BaseHTTPRequestHandler
from typing import Any, Protocol

from penstock.core.accepting import Guest, Standing
from penstock.core.clock import Clock

IDLE_S = 30.0
"""How long a connection may be without a request."""
HEAD_S = 10.0
"""How long the lines before a body may take."""
BODY_S = 30.0
_HEAD_BYTES = 1 << 17
"""How much may stand before a body: strangers could fill the memory with it."""
_SEND_S = 30.0
_PIECE = 1 << 16
_LINGER_S = 5.0
_LINGER_PIECES = 1024


class Refused(Exception):
    """A request that is answered with an error."""

    def __init__(self, status: HTTPStatus, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class Taker(Protocol):
    """Who makes something of a request."""

    clock: Clock

    def answer(self, path: str, headers: Any, caller: Caller) -> tuple[HTTPStatus, dict[str, Any]]:
        """What to tell the sender."""
        ...


class Caller(io.RawIOBase):
    """What a sender says, until its time is over or it is sent away; both end as a ``TimeoutError``.

    A head without end is an ``HTTPException``, which the base class answers.
    """

    def __init__(self, sock: socket.socket, guest: Guest, clock: Clock) -> None:
        super().__init__()
        self.sock = sock
        self.guests = [guest]
        """The places it has: at the door, and among those whose bodies are read."""
        self.words = io.BufferedReader(self)
        self._clock = clock
        self._deadline = 0.0
        self._heard = 0

    @property
    def address(self) -> str:
        """Where it calls from."""
        return self.guests[0].address

    def expect(self, standing: Standing, seconds: float) -> None:
        """What comes now, and for how long it is waited for."""
        self.guests[0].stand(standing)
        self._deadline = self._clock.monotonic() + seconds
        self._heard = 0

    def body(self, length: int) -> bytes:
        """As much of a body as comes; one that trickles is given up, for it takes up room."""
        self.expect(Standing.KNOWN, BODY_S)
        body = bytearray()
        while len(body) < length:
            try:
                piece = self.words.read1(min(length - len(body), _PIECE))
            except TimeoutError:
                raise Refused(HTTPStatus.REQUEST_TIMEOUT, "the body came too slowly") from None
            if not piece:
                break
            body += piece
        return bytes(body)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left = self._deadline - self._clock.monotonic()
        if left <= 0 or self.is_out:
            raise TimeoutError
        self.sock.settimeout(left)
        count = self.sock.recv_into(buffer)
        if self.is_out:
            raise TimeoutError
        if count and self.guests[0].standing is Standing.IDLE:
            self.expect(Standing.STRANGER, HEAD_S)
        self._heard += count
        if self.guests[0].standing is Standing.STRANGER and self._heard > _HEAD_BYTES:
            raise HTTPException("more than a head may have")
        return count

    @property
    def is_out(self) -> bool:
        """Whether somebody else got one of its places."""
        return any(guest.is_out for guest in self.guests)


class Connection(BaseHTTPRequestHandler):
    """Requests of one sender, one after the other; made, it serves them all."""

    protocol_version = "HTTP/1.1"
    server_version = "penstock"
    sys_version = ""

    def __init__(self, sock: socket.socket, guest: Guest, taker: Taker) -> None:
        self._caller = Caller(sock, guest, taker.clock)
        self._taker = taker
        super().__init__(sock, (guest.address, 0), None)  # type: ignore[arg-type]

    def setup(self) -> None:
        """As the base does it, but read through the caller."""
        super().setup()
        self.rfile.close()
        self.rfile = self._caller.words

    def handle_one_request(self) -> None:
        """Wait for a request, and serve it."""
        self._caller.expect(Standing.IDLE, IDLE_S)
        super().handle_one_request()

    def flush_headers(self) -> None:
        """Send them; the time that was left for reading says nothing about sending."""
        self.connection.settimeout(_SEND_S)
        super().flush_headers()

    def finish(self) -> None:
        """End the connection so that the last answer arrives, also at a sender that has not finished."""
        self._caller.expect(Standing.IDLE, 0)
        super().finish()
        if not self._caller.is_out:  # its place, and so its thread, belong to another
            with suppress(OSError):
                self._linger()

    def _linger(self) -> None:
        """Say that nothing more comes, and read on for a while, as other HTTP servers do.

        A socket that is closed with something unread breaks the sender's connection, and with it the
        answer that is on its way.
        """
        clock = self._taker.clock
        deadline = clock.monotonic() + _LINGER_S
        self.connection.shutdown(socket.SHUT_WR)
        self.connection.settimeout(_LINGER_S)
        for _ in range(_LINGER_PIECES):
            if not self.connection.recv(_PIECE) or clock.monotonic() > deadline:
                return

    def do_POST(self) -> None:
        """Take a request."""
        status, said = self._taker.answer(self.path, self.headers, self._caller)
        if status is not HTTPStatus.OK:
            self.close_connection = True  # the body may not have been read
        with suppress(OSError):  # a sender that is gone is told nothing; what was stored stays
            self._answer(status, said)

    def _answer(self, status: HTTPStatus, said: dict[str, Any]) -> None:
        body = json.dumps(said).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are no news."""
