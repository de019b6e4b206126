"""What a stranger can say to a slot, to the driver, or to a registry listener: refused, and nothing else.

These protocols speak before anybody has proven anything, so nothing here is ever unpickled.
"""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from fuzz_tools import FUZZ, bounded, mutated, pair, pieces_of
from hypothesis import given
from hypothesis import strategies as st

from penstock.coordinator.listener import Listener, ask
from penstock.core.errors import TransportError
from penstock.exchange.auth import Hello, answer, call
from tests.patience import PATIENCE_S

SECRET = b"s" * 32
HELLO = Hello("job", 3, 1, "data", ("host", 99))
TEXT = json.dumps({"job": "job", "generation": 3, "slot": 1, "role": "data", "address": ["h", 9]})

JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8), st.just("\ud800")),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=6,
)
FIELDS = st.sampled_from(["hello", "nonce", "proof", "ok", "error", "challenge", "request", "answer"])
MESSAGES = st.dictionaries(FIELDS, st.one_of(JSON, st.just(TEXT), JSON.map(json.dumps)), max_size=4)


def prefixed(message: Any) -> bytes:
    data = message if isinstance(message, bytes) else json.dumps(message).encode()
    return struct.pack("<H", len(data) & 0xFFFF) + data


GREETINGS = st.one_of(
    st.binary(max_size=200),
    mutated(
        prefixed({"hello": TEXT, "nonce": "n"}) + prefixed({"proof": "0" * 64}),
        prefixed({"nonce": "n", "proof": "0" * 64}) + prefixed({"ok": True}),
    ),
    st.lists(MESSAGES, max_size=3).map(lambda messages: b"".join(map(prefixed, messages))),
)


def refused(side: Callable[[socket.socket], Any], data: bytes, cuts: list[int]) -> None:
    """``side`` hears ``data`` and then silence for good."""
    with bounded(), pair() as (left, right):
        for piece in pieces_of(data, cuts):
            left.sendall(piece)
        left.shutdown(socket.SHUT_WR)
        with pytest.raises(TransportError):
            side(right)


@FUZZ
@given(GREETINGS, st.lists(st.integers(0, 400), max_size=3))
def test_a_server_refuses_every_stranger(data: bytes, cuts: list[int]) -> None:
    refused(lambda sock: answer(sock, "job", 3, SECRET), data, cuts)


@FUZZ
@given(GREETINGS, st.lists(st.integers(0, 400), max_size=3))
def test_a_caller_refuses_every_stranger(data: bytes, cuts: list[int]) -> None:
    refused(lambda sock: call(sock, HELLO, SECRET), data, cuts)


@FUZZ
@given(MESSAGES)
def test_a_hello_of_any_shape_is_refused_even_with_the_secret_at_hand(fields: dict[str, Any]) -> None:
    """The one who sends it has no proof, whatever the hello says."""
    text = json.dumps(fields)
    refused(
        lambda sock: answer(sock, "job", 3, SECRET),
        prefixed({"hello": text, "nonce": "x"}) + prefixed({"proof": "0" * 64}),
        [],
    )


# --- the registry's listener --------------------------------------------------------------------

LINES = st.one_of(
    st.binary(max_size=200),
    mutated(b'{"request": "cancel", "nonce": "n", "proof": "' + b"0" * 64 + b'"}\n'),
    st.lists(MESSAGES, max_size=2).map(lambda some: b"".join(json.dumps(m).encode() + b"\n" for m in some)),
)


class Counting(Listener):
    """Counts what it was made to do, and what went wrong in its threads."""

    def __init__(self) -> None:
        self.calls: list[int] = []
        super().__init__("token", {"cancel": self._cancel, "status": lambda: {"status": "RUNNING"}})

    def _cancel(self) -> dict[str, Any]:
        self.calls.append(1)
        return {}


@pytest.fixture(scope="module")
def listener() -> Iterator[Counting]:
    made = Counting()
    yield made
    made.close()


@pytest.fixture(scope="module")
def thread_errors() -> Iterator[list[Any]]:
    """What threads died of; they must not."""
    found: list[Any] = []
    before = threading.excepthook
    threading.excepthook = lambda args: found.append(args)
    yield found
    threading.excepthook = before


@FUZZ
@given(data=LINES)
def test_a_listener_does_nothing_for_strangers(
    listener: Counting, thread_errors: list[Any], data: bytes
) -> None:
    with bounded(), socket.create_connection(("127.0.0.1", listener.port), timeout=PATIENCE_S) as connection:
        stream = connection.makefile("rb")
        assert "challenge" in json.loads(stream.readline())
        try:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            assert stream.read() == b""
        except ConnectionError:
            pass
    assert listener.calls == [] and thread_errors == []


def test_a_listener_still_answers_afterwards(listener: Counting) -> None:
    assert ask(listener.port, "token", "status") == {"status": "RUNNING"}


class Impostor:
    """Says fixed lines to each caller, and hears nothing."""

    def __init__(self) -> None:
        self.says = b""
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            with connection:
                try:
                    connection.sendall(self.says)
                    connection.shutdown(socket.SHUT_WR)
                    while connection.recv(4096):
                        pass
                except OSError:
                    pass

    def close(self) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()


@pytest.fixture(scope="module")
def impostor() -> Iterator[Impostor]:
    made = Impostor()
    yield made
    made.close()


@FUZZ
@given(data=st.one_of(LINES, LINES.map(lambda rest: b'{"challenge": "c"}\n' + rest)))
def test_who_asks_refuses_every_impostor(impostor: Impostor, data: bytes) -> None:
    impostor.says = data
    with bounded(), pytest.raises(TransportError):
        ask(impostor.port, "token", "status")


def test_a_proof_that_is_no_ascii_is_a_refusal(impostor: Impostor) -> None:
    impostor.says = '{"challenge": "c"}\n{"answer": "{}", "proof": "é"}\n'.encode()
    with pytest.raises(TransportError, match="not its driver"):
        ask(impostor.port, "token", "status")
