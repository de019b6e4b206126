"""Who may speak: mutual proof of the job's secret before the first frame.

::

    client ─ hello: job, generation, slot, role, nonce ─▶ server
    client ◀─ nonce, proof over (client nonce, hello) ──── server
    client ─ proof over (server nonce, hello) ──────────▶ server
    client ◀─ "ok", or why not ─────────────────────────── server

Messages are length-prefixed JSON of at most 4 KiB: nothing is unpickled before both sides are proven.
The secret never travels.  A peer of another job or an older generation is told so and dropped.  Out of the
secret, the two nonces and the hello come the keys that seal the frames behind it (``frames.py``).
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import socket
import struct
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from penstock.core.errors import TransportError, UnansweredError
from penstock.exchange.frames import Seal
from penstock.exchange.tls import Patience, TlsSocket

Wire = socket.socket | TlsSocket

_LENGTH = struct.Struct("<H")
_LIMIT = 4096
TIMEOUT_S = 10.0
"""What a whole greeting may take."""
TLS_FIRST = 0x16
"""The first byte of a line under TLS; never that of a greeting (see ``_send``)."""


@dataclass(frozen=True, slots=True)
class Hello:
    """Who is calling."""

    job: str
    generation: int
    slot: int
    role: str
    address: tuple[str, int] | None = None
    """Where other slots reach the caller."""
    words: str | None = None
    """All that a caller has to say who only comes to say it: of a slot that died, why."""


class Greeted(NamedTuple):
    """A caller that is proven, and the seal of the line to it."""

    hello: Hello
    seal: Seal


def new_secret() -> bytes:
    """A fresh secret for one run of a job."""
    return secrets.token_bytes(32)


def call(sock: Wire, hello: Hello, secret: bytes, patience: Patience | None = None) -> Seal:
    """The client's side: the seal of the line. :class:`TransportError` if either side is not convinced."""
    patience = patience or Patience(TIMEOUT_S)
    sock.settimeout(patience.left())
    text = json.dumps(asdict(hello), sort_keys=True)
    nonce = secrets.token_hex(16)
    _send(sock, {"hello": text, "nonce": nonce})
    answer = _receive(sock, patience)
    if "error" in answer:
        raise TransportError(f"the peer refused the connection: {answer['error']}")
    if not hmac.compare_digest(_text(answer, "proof"), _proof(secret, b"server", nonce, text)):
        raise TransportError("the peer does not know the job's secret")
    theirs = _text(answer, "nonce")
    _send(sock, {"proof": _proof(secret, b"client", theirs, text)})
    answer = _receive(sock, patience)
    if answer.get("ok") is not True:
        raise TransportError(f"the peer refused the connection: {answer.get('error')}")
    sent, heard = _frame_keys(secret, nonce, theirs, text)
    return Seal(sent, heard)


def answer(sock: Wire, job: str, generation: int, secret: bytes, patience: Patience | None = None) -> Greeted:
    """The server's side: the caller, proven to be of this job and generation."""
    patience = patience or Patience(TIMEOUT_S)
    sock.settimeout(patience.left())
    first = _receive(sock, patience)
    text = _text(first, "hello")
    hello = _parse_hello(text)
    nonce, theirs = secrets.token_hex(16), _text(first, "nonce")
    proof = _proof(secret, b"server", theirs, text)
    _send(sock, {"nonce": nonce, "proof": proof})
    reply = _receive(sock, patience)
    problem = None
    if not hmac.compare_digest(_text(reply, "proof"), _proof(secret, b"client", nonce, text)):
        problem = "wrong secret"
    elif hello.job != job:
        problem = "another job listens here"
    elif hello.generation != generation:
        problem = f"generation {hello.generation} is not the current one, {generation}"
    if problem is not None:
        raise refuse(sock, problem)
    _send(sock, {"ok": True})
    heard, sent = _frame_keys(secret, theirs, nonce, text)
    return Greeted(hello, Seal(sent, heard))


def _proof(secret: bytes, side: bytes, nonce: str, hello: str) -> str:
    return hmac.new(secret, b"|".join((side, nonce.encode(), hello.encode())), hashlib.sha256).hexdigest()


def _frame_keys(secret: bytes, caller: str, server: str, hello: str) -> tuple[bytes, bytes]:
    """What the caller's frames are sealed with, and what the server's are."""
    session = json.dumps([caller, server, hello]).encode()
    sides = (b"frames of the caller|", b"frames of the server|")
    return hmac.digest(secret, sides[0] + session, "sha256"), hmac.digest(
        secret, sides[1] + session, "sha256"
    )


def _parse_hello(text: str) -> Hello:
    try:
        raw = json.loads(text)
        address, words = raw.get("address"), raw.get("words")
        return Hello(
            str(raw["job"]),
            int(raw["generation"]),
            int(raw["slot"]),
            str(raw["role"]),
            None if address is None else (str(address[0]), int(address[1])),
            None if words is None else str(words),
        )
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
        raise TransportError(f"a peer sent a greeting that makes no sense: {error}") from error


def _text(message: dict[str, Any], name: str) -> str:
    value = message.get(name)
    if not isinstance(value, str) or not value.isascii():
        raise TransportError(f"a peer's message lacks {name!r}")
    return value


def refuse(sock: Wire, problem: str) -> TransportError:
    """Tell a caller why it must not come in; what to raise."""
    _send(sock, {"error": problem})
    return TransportError(f"refused a connection: {problem}")


def _send(sock: Wire, message: dict[str, Any]) -> None:
    data = json.dumps(message).encode()
    if len(data) & 0xFF == TLS_FIRST:
        data += b" "
    try:
        sock.sendall(_LENGTH.pack(len(data)) + data)
    except OSError as error:
        raise UnansweredError(f"the connection broke while greeting: {error}") from error


def _receive(sock: Wire, patience: Patience) -> dict[str, Any]:
    (length,) = _LENGTH.unpack(_exactly(sock, _LENGTH.size, patience))
    if length > _LIMIT:
        raise TransportError(f"a peer's greeting is too long ({length} bytes)")
    try:
        message = json.loads(_exactly(sock, length, patience))
    except (ValueError, RecursionError) as error:
        raise TransportError("a peer does not speak this protocol") from error
    if not isinstance(message, dict):
        raise TransportError("a peer does not speak this protocol")
    return message


def _exactly(sock: Wire, count: int, patience: Patience) -> bytes:
    data = b""
    while len(data) < count:
        sock.settimeout(patience.left())
        try:
            part = sock.recv(count - len(data))
        except ConnectionError as error:
            raise UnansweredError(f"the connection broke while greeting: {error}") from error
        except OSError as error:
            raise TransportError(f"the connection broke while greeting: {error}") from error
        if not part:
            raise UnansweredError("the peer closed the connection while greeting")
        data += part
    return data
