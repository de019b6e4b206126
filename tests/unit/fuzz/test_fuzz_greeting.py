"""What a stranger can say to a slot, to the driver, or to its HTTP server: refused, and nothing else.

These protocols speak before anybody has proven anything, so nothing here is ever unpickled.
"""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fuzz_tools import FUZZ, bounded, mutated, pair, pieces_of
from hypothesis import given
from hypothesis import strategies as st

from penstock.coordinator.asking import ask
from penstock.coordinator.private import connect_private
from penstock.core.errors import TransportError
from penstock.exchange.auth import Hello, answer, call
from tests.paper_job import Published, published
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


# --- the driver's server ------------------------------------------------------------------------

ANSWER = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"
LINES = st.one_of(
    st.binary(max_size=200),
    mutated(ANSWER),
    st.lists(MESSAGES, max_size=2).map(lambda some: b"".join(json.dumps(m).encode() + b"\n" for m in some)),
)


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Published]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PENSTOCK_HOME", str(tmp_path_factory.mktemp("home")))
        with published("orders") as made:
            yield made


@pytest.fixture(scope="module")
def thread_errors() -> Iterator[list[Any]]:
    """What threads died of; they must not."""
    found: list[Any] = []
    before = threading.excepthook
    threading.excepthook = lambda args: found.append(args)
    yield found
    threading.excepthook = before


def door(driver: Published) -> Path:
    return driver.entry.path.parent / driver.entry.socket


STRANGE = st.one_of(
    st.binary(max_size=200),
    mutated(
        b"PATCH /jobs/JOB?mode=cancel HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer 0\r\n\r\n",
        b"DELETE /cluster HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5\r\n\r\n{}",
    ),
)


@FUZZ
@given(data=STRANGE)
def test_the_driver_does_nothing_for_strangers(
    driver: Published, thread_errors: list[Any], data: bytes
) -> None:
    said = data.replace(b"JOB", driver.entry.id.encode())
    with bounded(), connect_private(door(driver), PATIENCE_S) as connection:
        try:
            connection.sendall(said)
            connection.shutdown(socket.SHUT_WR)
            heard = connection.makefile("rb").read(1000)
        except ConnectionError:
            heard = b""
        assert heard[:13] in (b"", b"HTTP/1.1 400 ", b"HTTP/1.1 401 ")
    assert driver.job.cancelled == 0 and thread_errors == []


def test_the_driver_still_answers_afterwards(driver: Published) -> None:
    facts = driver.entry.status()
    assert facts is not None and facts["status"] == "RUNNING"


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
@given(data=LINES)
def test_who_asks_is_told_nothing_or_an_object_by_whoever_answers(impostor: Impostor, data: bytes) -> None:
    """At a port there may be anybody; whatever it says, there is one kind of error."""
    impostor.says = data
    with bounded():
        try:
            said = ask(impostor.port, "token", "GET", "/jobs")
        except TransportError:
            return
    assert isinstance(said.body, dict) and isinstance(said.why_not, str)


@pytest.mark.parametrize(
    "says",
    [
        b"",
        ANSWER[:-1],
        ANSWER.replace(b"{}", b"[]"),
        ANSWER.replace(b"{}", b"{["),
        ANSWER.replace(b"200 OK", b"401 Unauthorized"),
        b"HTTP/1.1 200 OK\r\n\r\n" + b"[" * 200_000,
        b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 1000,
    ],
)
def test_an_answer_that_is_none_is_a_refusal(impostor: Impostor, says: bytes) -> None:
    impostor.says = says
    with pytest.raises(TransportError):
        ask(impostor.port, "token", "GET", "/jobs")


def test_a_token_that_is_none_is_a_refusal(impostor: Impostor) -> None:
    for token in ("a\r\nX: y", "tök€n"):
        with pytest.raises(TransportError):
            ask(impostor.port, token, "GET", "/jobs")
