"""A webhook: posts become records of a topic, and are confirmed when they are durable.

``POST /<topic>`` with JSON (an array is one record per element, anything else is one record) or with lines of
text.  200 means that the records are on disk and every job that reads the topic will see them, exactly once
from there on.  A number from 400 to 499 means that nothing was taken.  If the disk failed or the answer got
lost the sender cannot know; with an ``Idempotency-Key`` it may just send again.

The server is not a part of any job: it takes requests while a job restarts, is upgraded or not running at
all.  It listens on this machine only, and asks for a token, unless told otherwise.
"""

from __future__ import annotations

import hmac
import json
import logging
import math
import re
import secrets
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any

from penstock.connectors.http.spool import Spool
from penstock.connectors.log.json_format import Json
from penstock.connectors.log.source import LogSource
from penstock.connectors.log.topic import Log
from penstock.core.clock import Clock, SystemClock
from penstock.core.errors import ConfigError, PenstockError

_log = logging.getLogger("penstock")

_LOOPBACK = "127.0.0.1"
_TIMEOUT_S = 30.0
_AT_ONCE = 64
_CONNECTIONS = 256
_PIECE = 1 << 16
_LINGER_S = 5.0
_LINGER_PIECES = 1024
_LONGEST_NUMBER = 18
_LONGEST_KEY = 256
_MARK = secrets.token_hex(16)
_MARKED = re.compile(f'"{_MARK}([^"]*)"')


class Refused(Exception):
    """A request that is answered with an error."""

    def __init__(self, status: HTTPStatus, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class WebhookServer:
    """Takes posts for one topic of the log in directory ``root``, which is made if it is not there.

    ``token``: senders must say ``Authorization: Bearer <token>``; a server without one must be asked for,
    with ``open_to_all``.  ``host``: where to listen, this machine's loopback by default; put a proxy that
    speaks TLS in front of anything else.  ``port`` 0 takes one that is free, see :attr:`url`.
    """

    def __init__(
        self,
        root: str | Path,
        topic: str,
        token: str | None = None,
        port: int = 0,
        host: str = _LOOPBACK,
        open_to_all: bool = False,
        partitions: int = 1,
        max_body_bytes: int = 1 << 20,
        clock: Clock | None = None,
    ) -> None:
        if not token and not open_to_all:
            raise ConfigError(
                "a webhook takes records from whoever knows its token; give token=..., or open_to_all=True "
                "if really everybody who reaches it may send"
            )
        self._root = root
        self._topic = topic
        self._token = token or None
        self.max_body_bytes = max_body_bytes
        self.clock = clock or SystemClock()
        self._spool = Spool(Log(root), topic, partitions, self.clock)
        self._room = threading.BoundedSemaphore(_AT_ONCE)
        try:
            self._server = _Server((host, port), self)
        except OSError as e:
            self._spool.close()
            raise ConfigError(f"a webhook cannot listen on {host}:{port}: {e}; choose another port") from e
        self._thread = threading.Thread(
            target=self._server.serve_forever, daemon=True, name="penstock-webhook"
        )

    def __repr__(self) -> str:
        return f"WebhookServer({self.url})"

    @property
    def url(self) -> str:
        """Where to post."""
        host, port = self._server.server_address[:2]
        return f"http://{host!s}:{port}/{self._topic}"

    def start(self) -> WebhookServer:
        """Begin to listen; requests are served by other threads."""
        self._thread.start()
        return self

    def close(self) -> None:
        """Stop listening. What was confirmed stays in the log."""
        if self._thread.is_alive():
            self._server.shutdown()
        self._server.server_close()
        self._spool.close()

    def __enter__(self) -> WebhookServer:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def source(self, value_format: Any = None, **settings: Any) -> LogSource:
        """What a job reads the records with: as JSON, unless another format is given."""
        return LogSource(self._root, self._topic, value_format or Json(), **settings)

    # --- one request ------------------------------------------------------------------------

    def take(self, path: str, headers: Any, read: Callable[[int], bytes]) -> dict[str, Any]:
        """Make a request's records durable; what to answer."""
        self._check_token(headers.get("Authorization", ""))
        if path.strip("/") != self._topic:
            raise Refused(HTTPStatus.NOT_FOUND, f"this webhook takes posts at /{self._topic}")
        key = headers.get("Idempotency-Key")
        if key is not None and not 0 < len(key) <= _LONGEST_KEY:
            raise Refused(HTTPStatus.BAD_REQUEST, f"an Idempotency-Key has 1 to {_LONGEST_KEY} characters")
        length = self._length(headers)
        if not self._room.acquire(blocking=False):
            raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, "too many requests at once; try again")
        try:
            body = read(length)
            if len(body) < length:
                raise Refused(HTTPStatus.BAD_REQUEST, f"the body ends after {len(body)} of {length} bytes")
            records = parse(headers.get("Content-Type", ""), body)
            fresh = self._spool.append(records, None if key is None else key.encode())
        finally:
            self._room.release()
        return {"accepted": len(records), "repeated": not fresh}

    def _check_token(self, said: str) -> None:
        expected = f"Bearer {self._token}"
        if self._token is not None and not hmac.compare_digest(said.encode("latin-1"), expected.encode()):
            raise Refused(HTTPStatus.UNAUTHORIZED, "say Authorization: Bearer and the token")

    def _length(self, headers: Any) -> int:
        said = headers.get_all("Content-Length", [])
        text = said[0] if len(said) == 1 and "Transfer-Encoding" not in headers else ""
        if not (text.isascii() and text.isdigit()):
            raise Refused(HTTPStatus.LENGTH_REQUIRED, "say how long the body is: Content-Length, no chunks")
        if len(text) > _LONGEST_NUMBER or int(text) > self.max_body_bytes:
            most = self.max_body_bytes
            raise Refused(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a body has at most {most} bytes; send several"
            )
        return int(text)


def parse(content_type: str, body: bytes) -> list[bytes]:
    """The records in a body: the elements of a JSON array, one JSON value, or lines of text."""
    kind = content_type.partition(";")[0].strip().lower()
    try:
        if kind == "application/json":
            value = _loads(body)
            values = value if isinstance(value, list) else [value]
            return [_compact(item) for item in values]
        if kind in ("application/x-ndjson", "application/jsonl"):
            return [_compact(_loads(line)) for line in body.splitlines() if line.strip()]
        if kind == "text/plain":
            body.decode()
            return [line for line in body.splitlines() if line]
    except (ValueError, RecursionError) as e:
        raise Refused(HTTPStatus.BAD_REQUEST, f"the body is no {kind}: {e}") from e
    raise Refused(
        HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
        "say Content-Type: application/json, application/x-ndjson or text/plain",
    )


def _loads(text: bytes) -> Any:
    return json.loads(text, parse_constant=_no_number, parse_float=_as_written)


def _as_written(number: str) -> str:
    """A number that may have more digits than a float: text behind a mark, for :func:`_compact`."""
    if not math.isfinite(float(number)):
        raise ValueError(f"{number} is too large for a number that jobs could read")
    return _MARK + number


def _compact(value: Any) -> bytes:
    text = json.dumps(value, separators=(",", ":"))
    return (_MARKED.sub(r"\1", text) if _MARK in text else text).encode()


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


class _Server(ThreadingHTTPServer):
    """A thread for each connection, up to a number of them; more are closed at once."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], webhook: WebhookServer) -> None:
        self.webhook = webhook
        self._free = threading.BoundedSemaphore(_CONNECTIONS)
        super().__init__(address, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        _log.debug("a webhook's connection broke", exc_info=True)


class _Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    server_version = "penstock"
    sys_version = ""
    timeout = _TIMEOUT_S
    server: _Server

    def finish(self) -> None:
        """End the connection so that the last answer arrives, also at a sender that has not finished."""
        super().finish()
        with suppress(OSError):
            self._linger()

    def _linger(self) -> None:
        """Say that nothing more comes, and read on for a while, as other HTTP servers do.

        A socket that is closed with something unread breaks the sender's connection, and with it the
        answer that is on its way.
        """
        clock = self.server.webhook.clock
        deadline = clock.monotonic() + _LINGER_S
        self.connection.shutdown(socket.SHUT_WR)
        self.connection.settimeout(_LINGER_S)
        for _ in range(_LINGER_PIECES):
            if not self.connection.recv(_PIECE) or clock.monotonic() > deadline:
                return

    def do_POST(self) -> None:
        """Take a request."""
        status, said = self._taken()
        if status is not HTTPStatus.OK:
            self.close_connection = True  # the body may not have been read
        with suppress(OSError):  # a sender that is gone is told nothing; what was stored stays
            self._answer(status, said)

    def _taken(self) -> tuple[HTTPStatus, dict[str, Any]]:
        try:
            return HTTPStatus.OK, self.server.webhook.take(self.path, self.headers, self._body)
        except Refused as refused:
            return refused.status, {"error": str(refused)}
        except (PenstockError, OSError) as error:
            _log.warning("a webhook could not store a request: %s", error)
            return HTTPStatus.INTERNAL_SERVER_ERROR, {"error": "the records could not be stored"}

    def _body(self, length: int) -> bytes:
        """As much of the body as comes; one that trickles is given up, for it takes up room."""
        body, clock = bytearray(), self.server.webhook.clock
        deadline = clock.monotonic() + _TIMEOUT_S
        while len(body) < length:
            try:
                piece = self.rfile.read1(min(length - len(body), _PIECE))
            except TimeoutError:
                raise Refused(HTTPStatus.REQUEST_TIMEOUT, "the body came too slowly") from None
            if not piece:
                break
            body += piece
            if clock.monotonic() > deadline:
                raise Refused(HTTPStatus.REQUEST_TIMEOUT, "the body came too slowly")
        return bytes(body)

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
