"""The greeting: who gets in, who does not, and strangers that try odd things."""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Callable
from typing import Any

import pytest

from penstock.core.errors import TransportError
from penstock.exchange import auth
from penstock.exchange.auth import Greeted, Hello, answer, call, new_secret
from penstock.exchange.frames import Seal
from penstock.exchange.tls import Patience
from tests.patience import PATIENCE_S

SECRET = new_secret()
HELLO = Hello("job", 3, 1, "data", ("host", 99))


def meet(client: Callable[[socket.socket], Any], server: Callable[[socket.socket], Any]) -> tuple[Any, Any]:
    """What either side returned or raised."""
    left, right = socket.socketpair()
    results: dict[str, Any] = {}

    def run(name: str, side: Callable[[socket.socket], Any], sock: socket.socket) -> None:
        try:
            results[name] = side(sock)
        except Exception as error:
            results[name] = error
        finally:
            sock.close()

    threads = [
        threading.Thread(target=run, args=("client", client, left)),
        threading.Thread(target=run, args=("server", server, right)),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    return results["client"], results["server"]


def caller(hello: Hello = HELLO, secret: bytes = SECRET) -> Callable[[socket.socket], Seal]:
    return lambda sock: call(sock, hello, secret)


def listener(
    job: str = "job", generation: int = 3, secret: bytes = SECRET
) -> Callable[[socket.socket], Greeted]:
    return lambda sock: answer(sock, job, generation, secret)


def says(*messages: Any) -> Callable[[socket.socket], None]:
    """A stranger that sends these, whatever it hears."""

    def talk(sock: socket.socket) -> None:
        sock.settimeout(PATIENCE_S)
        for message in messages:
            data = message if isinstance(message, bytes) else json.dumps(message).encode()
            sock.sendall(struct.pack("<H", len(data)) + data)
        while sock.recv(4096):
            pass

    return talk


def test_both_sides_are_convinced() -> None:
    client, server = meet(caller(), listener())
    assert isinstance(client, Seal) and server.hello == HELLO
    plain = Hello("job", 3, 0, "control")
    assert meet(caller(plain), listener())[1].hello == plain


def test_a_wrong_secret_is_noticed_by_the_caller_first() -> None:
    client, server = meet(caller(secret=new_secret()), listener())
    assert isinstance(client, TransportError) and "secret" in str(client)
    assert isinstance(server, TransportError)


def test_a_caller_that_does_not_check_is_refused_too() -> None:
    def careless(sock: socket.socket) -> Any:
        text = json.dumps({"job": "job", "generation": 3, "slot": 1, "role": "data"})
        auth._send(sock, {"hello": text, "nonce": "n"})
        nonce = auth._receive(sock, Patience(PATIENCE_S))["nonce"]
        auth._send(sock, {"proof": auth._proof(b"guess", b"client", nonce, text)})
        return auth._receive(sock, Patience(PATIENCE_S))

    client, server = meet(careless, listener())
    assert client == {"error": "wrong secret"}
    assert isinstance(server, TransportError)


def test_a_server_cannot_be_used_to_prove_oneself() -> None:
    def mirror(sock: socket.socket) -> Any:
        text = json.dumps({"job": "job", "generation": 3, "slot": 1, "role": "data"})
        auth._send(sock, {"hello": text, "nonce": "n"})
        auth._send(sock, {"proof": auth._receive(sock, Patience(PATIENCE_S))["proof"]})
        return auth._receive(sock, Patience(PATIENCE_S))

    assert meet(mirror, listener())[0] == {"error": "wrong secret"}


@pytest.mark.parametrize(
    ("job", "generation", "why"), [("other", 3, "another job"), ("job", 4, "generation 3")]
)
def test_other_jobs_and_old_generations_are_told_so(job: str, generation: int, why: str) -> None:
    client, server = meet(caller(), listener(job, generation))
    assert isinstance(client, TransportError) and why in str(client)
    assert isinstance(server, TransportError) and why in str(server)


GREETING = json.dumps({"job": "job", "generation": 3, "slot": 1, "role": "data"})
ODD: list[Any] = [
    b"",
    b"not json",
    b"[1,2]",
    b"[" * 4000,
    b'{"hello": 5, "nonce": "x"}',
    {"hello": GREETING},
    {"hello": "no json", "nonce": "x"},
    {"hello": "[]", "nonce": "x"},
    {"hello": "[" * 4000, "nonce": "x"},
    {"hello": json.dumps({"job": "job"}), "nonce": "x"},
    {"hello": '{"job":"job","generation":Infinity,"slot":1,"role":"data"}', "nonce": "x"},
    {"hello": '{"job":"job","generation":3,"slot":1,"role":"data","address":[]}', "nonce": "x"},
    {"hello": '{"job":"job","generation":3,"slot":1,"role":"data","address":"ab"}', "nonce": "x"},
    {"hello": GREETING, "nonce": "\ud800"},
    {"hello": GREETING + "\ud800", "nonce": "x"},
    b"x" * 5000,
]


@pytest.mark.parametrize("odd", ODD, ids=range(len(ODD)))
def test_strangers_are_refused_by_the_server(odd: Any) -> None:
    _, server = meet(says(odd), listener())
    assert isinstance(server, TransportError)


@pytest.mark.parametrize("proof", ["é", "", 5, None, "\ud800"])
def test_odd_proofs_are_refused_on_both_sides(proof: Any) -> None:
    _, server = meet(says({"hello": GREETING, "nonce": "x"}, {"proof": proof}), listener())
    assert isinstance(server, TransportError)
    client, _ = meet(caller(), says({"nonce": "x", "proof": proof}))
    assert isinstance(client, TransportError)


@pytest.mark.parametrize("odd", [b"", b"junk", {}, {"error": "go away"}, b"[" * 4000], ids=range(5))
def test_strangers_are_refused_by_the_caller(odd: Any) -> None:
    client, _ = meet(caller(), says(odd))
    assert isinstance(client, TransportError)


def test_silence_is_refused_on_both_sides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auth, "TIMEOUT_S", 0.05)

    def silent(sock: socket.socket) -> None:
        sock.settimeout(PATIENCE_S)
        while sock.recv(4096):
            pass

    assert isinstance(meet(silent, listener())[1], TransportError)
    assert isinstance(meet(caller(), silent)[0], TransportError)


def test_a_peer_that_hangs_up_is_an_error() -> None:
    assert isinstance(meet(lambda sock: None, listener())[1], TransportError)
    assert isinstance(meet(caller(), lambda sock: None)[0], TransportError)


def test_secrets_are_long_and_new() -> None:
    assert len(new_secret()) == 32 and new_secret() != new_secret()
