"""A driver's small ear for those who know its token: a socket in a directory that is its user's only.

Nobody else can reach it.  Where there are no such sockets (``AF_UNIX``) it is a port of the loopback address,
which everybody on the machine can call: who proves nothing then goes first when there is no room.

One exchange per connection, a JSON object per line::

    driver   {"challenge": c}
    client   {"request": r, "nonce": n, "proof": HMAC(token, "ask" c n r)}
    driver   {"answer": {...}, "proof": HMAC(token, "answer" c n answer)}

A request is a name, and behind a space its arguments as a JSON object, if it has any.  Both sides prove
that they know the token, and nobody sends it.  Whatever is too long, too slow, not JSON or without proof
ends the connection, without a word about why.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import secrets
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from penstock.coordinator.private import bind_private, connect_private, is_own
from penstock.core.accepting import Crowd, Guest, Standing, begin, callers
from penstock.core.clock import Clock, SystemClock
from penstock.core.discreet import log_of
from penstock.core.errors import PenstockError, TransportError

_log = log_of(__name__)

Answer = Callable[..., Mapping[str, Any]]
"""Called with a request's arguments, as keywords."""

MAX_LINE = 16 << 10
_MAX_ANSWER = 16 << 20
"""An answer may hold an error of any length, or all that stands still in a large job."""
_PIECE = 4096
_PATIENCE_S = 3.0
"""How long one exchange may take in all."""
_AT_ONCE = 16
_BACKLOG = 64
_LOOPBACK = "127.0.0.1"


class Listener:
    """Answers requests, each on a thread of its own, at the socket ``path`` or at a loopback port.

    Who comes while too many are there takes the place of one who has not proved anything.
    """

    def __init__(
        self,
        token: str,
        answers: Mapping[str, Answer],
        clock: Clock | None = None,
        path: Path | None = None,
    ) -> None:
        self._token = token
        self._answers = dict(answers)
        self._clock = clock or SystemClock()
        self._guests = Crowd(_AT_ONCE, _AT_ONCE)
        self._answering = 0
        self._answered = threading.Condition()
        self._path = path
        if path is not None:
            self._server = bind_private(path, _BACKLOG)
            self.port = 0
        else:
            self._server = socket.create_server((_LOOPBACK, 0), backlog=_BACKLOG)
            self.port = int(self._server.getsockname()[1])
        self._thread = threading.Thread(target=self._serve, daemon=True, name="penstock-registry")
        self._thread.start()

    def close(self) -> None:
        """Stop answering. An answer that is on its way is sent first: the process may end right after."""
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        if self._path is not None:
            self._path.unlink(missing_ok=True)
        self._guests.close()
        with self._answered:
            self._answered.wait_for(lambda: not self._answering, _PATIENCE_S)

    def _serve(self) -> None:
        for connection in callers(self._server, "penstock-registry"):
            guest = self._guests.enter(connection, "here", Standing.STRANGER) if is_own(connection) else None
            if guest is None:
                connection.close()
            elif not begin("penstock-registry-talk", partial(self._talk, guest), connection):
                guest.leave()

    def _talk(self, guest: Guest, connection: socket.socket) -> None:
        try:
            with connection, contextlib.suppress(OSError, TransportError):
                self._exchange(guest, _Lines(connection, self._clock))
        finally:
            guest.leave()

    def _exchange(self, guest: Guest, lines: _Lines) -> None:
        challenge = secrets.token_hex(16)
        lines.send({"challenge": challenge})
        message = lines.receive()
        request, nonce = _text(message, "request"), _text(message, "nonce")
        expected = _proof(self._token, "ask", challenge, nonce, request)
        if not _is_proven(message, expected) or not guest.stand(Standing.SERVED):
            return
        with self._busy():
            text = json.dumps(self._answer(request))
            lines.send({"answer": text, "proof": _proof(self._token, "answer", challenge, nonce, text)})

    @contextlib.contextmanager
    def _busy(self) -> Iterator[None]:
        with self._answered:
            self._answering += 1
        try:
            yield
        finally:
            with self._answered:
                self._answering -= 1
                self._answered.notify_all()

    def _answer(self, request: str) -> dict[str, Any]:
        name, _, text = request.partition(" ")
        answer = self._answers.get(name)
        if answer is None:
            return {"error": f"unknown request {name!r}"}
        try:
            arguments = json.loads(text) if text else {}
            return dict(answer(**arguments))
        except PenstockError as error:
            return {"error": str(error)}
        except (ValueError, TypeError) as error:
            return {"error": f"request {name!r} is malformed: {error}"}
        except Exception as error:
            _log.exception("a request %r to the job's driver failed", name)
            return {"error": f"the driver failed over the request {name!r}: {error!r}"}


def ask(where: int | Path, token: str, request: str, **arguments: Any) -> dict[str, Any]:
    """Ask a driver at its socket or port.

    Raises :class:`TransportError` if it is gone or is not the one that has the token.
    """
    if arguments:
        request = f"{request} {json.dumps(arguments)}"
    try:
        with _connected(where) as connection:
            lines = _Lines(connection, SystemClock(), _MAX_ANSWER)
            challenge = _text(lines.receive(), "challenge")
            nonce = secrets.token_hex(16)
            proof = _proof(token, "ask", challenge, nonce, request)
            lines.send({"request": request, "nonce": nonce, "proof": proof})
            message = lines.receive()
    except OSError as error:
        raise TransportError(f"the job's driver does not answer: {error}") from error
    text = _text(message, "answer")
    if not _is_proven(message, _proof(token, "answer", challenge, nonce, text)):
        raise TransportError("whoever listens on the job's port is not its driver")
    answer = json.loads(text)
    if not isinstance(answer, dict):
        raise TransportError("the job's driver answered with something that is no object")
    return answer


def _connected(where: int | Path) -> socket.socket:
    if isinstance(where, Path):
        return connect_private(where, _PATIENCE_S)
    return socket.create_connection((_LOOPBACK, where), timeout=_PATIENCE_S)


class _Lines:
    """JSON objects over a socket, with a deadline for all of them together."""

    def __init__(self, connection: socket.socket, clock: Clock, longest: int = MAX_LINE) -> None:
        self._connection = connection
        self._clock = clock
        self._longest = longest
        self._deadline = clock.monotonic() + _PATIENCE_S
        self._rest = bytearray()

    def send(self, message: Mapping[str, Any]) -> None:
        self._connection.settimeout(self._left())
        self._connection.sendall(json.dumps(message).encode() + b"\n")

    def receive(self) -> dict[str, Any]:
        searched = 0
        while (end := self._rest.find(b"\n", searched)) < 0:
            if len(self._rest) > self._longest:
                raise TransportError("a line is too long")
            searched = len(self._rest)
            self._connection.settimeout(self._left())
            data = self._connection.recv(_PIECE)
            if not data:
                raise TransportError("the other side hung up")
            self._rest += data
        line, self._rest = self._rest[:end], self._rest[end + 1 :]
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            raise TransportError("a line is not JSON") from None
        if not isinstance(message, dict):
            raise TransportError("a line is no JSON object")
        return message

    def _left(self) -> float:
        left = self._deadline - self._clock.monotonic()
        if left <= 0:
            raise TransportError("the other side is too slow")
        return left


def _text(message: Mapping[str, Any], name: str) -> str:
    value = message.get(name)
    if not isinstance(value, str):
        raise TransportError(f"a message lacks {name!r}")
    return value


def _is_proven(message: Mapping[str, Any], expected: str) -> bool:
    """Whether the proof is right; one with other characters than ASCII is wrong, not an error."""
    return hmac.compare_digest(expected.encode(), _text(message, "proof").encode("ascii", "replace"))


def _proof(token: str, role: str, *parts: str) -> str:
    data = json.dumps([role, *parts]).encode()
    return hmac.new(token.encode(), data, hashlib.sha256).hexdigest()
