"""A webhook: posts become records of a topic, and are confirmed when they are durable.

``POST /<topic>`` with JSON (an array is one record per element, anything else is one record) or with lines of
text.  200 means that the records are on disk and every job that reads the topic will see them, exactly once
from there on.  A number from 400 to 499 means that nothing was taken.  If the disk failed or the answer got
lost the sender cannot know; with an ``Idempotency-Key`` it may just send again.

The server is not a part of any job: it takes requests while a job restarts, is upgraded or not running at
all.  It listens on this machine only, and asks for a token, unless told otherwise.

What was posted is made durable in a topic of the embedded log.  A request's records
are appended to one partition as one frame, and waited for on the disk: all of them are there or none is.
Whoever sends an idempotency key may send the same request again: the key is stored beside the records, so a
server that is started again remembers the newest of them too.
"""

from __future__ import annotations

import hmac
import json
import math
import re
import secrets
import socket
import threading
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from itertools import count
from pathlib import Path
from typing import Any

from penstock.connectors.http.connection import Caller, Connection, Refused
from penstock.connectors.log.client import Producer
from penstock.connectors.log.source import LogSource
from penstock.connectors.log.topic import Log, Topic
from penstock.core.accepting import Crowd, Guest, Standing, address_of, begin, callers
from penstock.core.clock import Clock, SystemClock
from penstock.core.discreet import log_of
from penstock.core.errors import ConfigError, ConnectorError, PenstockError
from penstock.core.keygroups import hash_value
from penstock.formats.json_values import Json

_REMEMBERED = 100_000
_log = log_of(__name__)
_LOOPBACK = "127.0.0.1"
_AT_ONCE = 64
"""Bodies that are in memory, whole or in part."""
_CONNECTIONS = 256
_OF_ONE_ADDRESS = 64
_BACKLOG = 128
_LONGEST_NUMBER = 18
_LONGEST_KEY = 256
_MARK = secrets.token_hex(16)
_MARKED = re.compile(f'"{_MARK}([^"]*)"')


class Spool:
    """Appends requests to a topic. Safe to use from many threads."""

    def __init__(self, log: Log, topic: str, partitions: int, clock: Clock) -> None:
        if topic not in log.topics():
            log.create_topic(topic, partitions)
        self._topic = log.topic(topic)
        self._producer = Producer(self._topic, fsync=True, clock=clock)
        self._lock = threading.Lock()
        self._turn = count()
        self._seen: list[OrderedDict[bytes, int]] = [OrderedDict() for _ in range(self._topic.partitions)]
        """The keys of each partition."""
        self._is_in_doubt = True
        """Whether the log may hold keys that are not remembered."""
        self._look()

    def append(self, records: Sequence[bytes], key: bytes | None) -> bool:
        """Make the records durable; ``False`` if a request with this key has brought its own before."""
        with self._lock:
            if self._is_in_doubt:
                self._look()
            partition = (next(self._turn) if key is None else hash_value(key)) % self._topic.partitions
            if key is not None and key in self._seen[partition]:
                return False
            if records:
                self._is_in_doubt = True
                self._producer.send_many(list(records), [key] * len(records), partition=partition)
                self._is_in_doubt = False
            if key is not None:
                self._remember(partition, key)
            return True

    def close(self) -> None:
        """Close the files."""
        with self._lock:
            self._producer.close()

    def _look(self) -> None:
        """Remember what is in the log, durably: an append that failed may have left its records there."""
        self._producer.sync()
        for partition in range(self._topic.partitions):
            self._remember_partition(self._topic, partition)
        self._is_in_doubt = False

    def _remember(self, partition: int, key: bytes) -> None:
        seen = self._seen[partition]
        seen[key] = 1
        if len(seen) > _REMEMBERED:
            seen.popitem(last=False)

    def _remember_partition(self, topic: Topic, partition: int) -> None:
        reader = topic.reader(partition)
        try:
            end = reader.end_offset()
            at = max(reader.start_offset(), end - _REMEMBERED)
            while at < end:
                read = reader.read(at, 10_000)
                if read.num_rows == 0:
                    raise ConnectorError(f"partition {partition} of {topic.name!r} ends before offset {end}")
                for key in read.column(2).unique().to_pylist():
                    if key is not None:
                        self._remember(partition, key)
                at = read.column(0)[-1].as_py() + 1
        finally:
            reader.close()


class WebhookServer:
    """Takes posts for one topic of the log in directory ``root``, which is made if it is not there.

    ``token``: senders must say ``Authorization: Bearer <token>``; a server without one must be asked for,
    with ``open_to_all``.  ``host``: where to listen, this machine's loopback by default; put a proxy that
    speaks TLS in front of anything else.  ``port`` 0 takes one that is free, see :attr:`url`.
    ``max_per_address``: connections that one address may have; raise it behind a proxy.
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
        max_per_address: int = _OF_ONE_ADDRESS,
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
        self._guests = Crowd(_CONNECTIONS, max_per_address)
        self._bodies = Crowd(_AT_ONCE, _AT_ONCE)
        try:
            self._listener = socket.create_server((host, port), backlog=_BACKLOG)
        except OSError as e:
            self._spool.close()
            raise ConfigError(f"a webhook cannot listen on {host}:{port}: {e}; choose another port") from e
        self._address: tuple[str, int] = self._listener.getsockname()
        self._thread = threading.Thread(target=self._accept, daemon=True, name="penstock-webhook")

    def __repr__(self) -> str:
        return f"WebhookServer({self.url})"

    @property
    def url(self) -> str:
        """Where to post."""
        host, port = self._address
        return f"http://{host}:{port}/{self._topic}"

    def start(self) -> WebhookServer:
        """Begin to listen; requests are served by other threads."""
        self._thread.start()
        return self

    def close(self) -> None:
        """Stop listening. What was confirmed stays in the log."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._guests.close()
        self._spool.close()

    def __enter__(self) -> WebhookServer:
        return self.start()

    def __exit__(self, *exception: object) -> None:
        self.close()

    def source(self, value_format: Any = None, **settings: Any) -> LogSource:
        """What a job reads the records with: as JSON, unless another format is given."""
        return LogSource(self._root, self._topic, value_format or Json(), **settings)

    # --- one connection ---------------------------------------------------------------------

    def _accept(self) -> None:
        for sock in callers(self._listener, "penstock-webhook"):
            guest = self._guest(sock)
            if guest is None:
                sock.close()
            elif not begin("penstock-webhook-talk", partial(self._serve, guest), sock):
                guest.leave()

    def _guest(self, sock: socket.socket) -> Guest | None:
        with suppress(OSError):
            return self._guests.enter(sock, address_of(sock))
        return None

    def _serve(self, guest: Guest, sock: socket.socket) -> None:
        try:
            with sock, suppress(OSError):
                Connection(sock, guest, self)
        finally:
            guest.leave()

    # --- one request ------------------------------------------------------------------------

    def answer(self, path: str, headers: Any, caller: Caller) -> tuple[HTTPStatus, dict[str, Any]]:
        """Make a request's records durable, and say so; or what is wrong."""
        try:
            return HTTPStatus.OK, self._take(path, headers, caller)
        except Refused as refused:
            return refused.status, {"error": str(refused)}
        except (PenstockError, OSError) as error:
            _log.warning("a webhook could not store a request: %s", error)
            return HTTPStatus.INTERNAL_SERVER_ERROR, {"error": "the records could not be stored"}

    def _take(self, path: str, headers: Any, caller: Caller) -> dict[str, Any]:
        self._check_token(headers.get("Authorization", ""))
        if path.strip("/") != self._topic:
            raise Refused(HTTPStatus.NOT_FOUND, f"this webhook takes posts at /{self._topic}")
        key = headers.get("Idempotency-Key")
        if key is not None and not 0 < len(key) <= _LONGEST_KEY:
            raise Refused(HTTPStatus.BAD_REQUEST, f"an Idempotency-Key has 1 to {_LONGEST_KEY} characters")
        length = self._length(headers)
        place = self._bodies.enter(caller.sock, caller.address, Standing.KNOWN)
        if place is None:
            raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, "too many requests at once; try again")
        caller.guests.append(place)
        try:
            records = self._records(headers.get("Content-Type", ""), length, caller)
            fresh = self._spool.append(records, None if key is None else key.encode())
        finally:
            caller.guests.remove(place)
            place.leave()
        return {"accepted": len(records), "repeated": not fresh}

    def _records(self, content_type: str, length: int, caller: Caller) -> list[bytes]:
        body = caller.body(length)
        if len(body) < length:
            raise Refused(HTTPStatus.BAD_REQUEST, f"the body ends after {len(body)} of {length} bytes")
        if not all([guest.stand(Standing.SERVED) for guest in caller.guests]):
            raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, "too many requests at once; try again")
        return parse(content_type, body)

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
    if "\\ud" in text:  # halves of characters: no job could write them anywhere
        json.dumps(value, ensure_ascii=False).encode()
    return (_MARKED.sub(r"\1", text) if _MARK in text else text).encode()


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")
