"""Senders that come in crowds, speak slowly, or say nothing: everybody else is served all the same."""

from __future__ import annotations

import errno
import http.client
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from penstock.connectors.http.connection import HEAD_S
from penstock.connectors.http.server import WebhookServer
from penstock.core import accepting
from penstock.core.clock import ManualClock
from tests.patience import PATIENCE_S
from tests.unit.connectors.test_webhook import TOKEN, post, stored

HEAD = f"POST /orders HTTP/1.1\r\nAuthorization: Bearer {TOKEN}\r\nContent-Type: text/plain\r\n"
TRICKLES = {
    "nothing": "",
    "half a line": "POST /or",
    "half a head": "POST /orders HTTP/1.1\r\nX-Slow: ",
    "half a body, unknown": "POST /orders HTTP/1.1\r\nContent-Length: 100\r\n\r\nhalf",
    "half a body": f"{HEAD}Content-Length: 100\r\n\r\nhalf",
}


def call(server: WebhookServer, said: str = "", host: str = "127.0.0.1") -> socket.socket:
    address = (urlsplit(server.url).hostname or "", urlsplit(server.url).port or 0)
    made = socket.create_connection(address, timeout=PATIENCE_S, source_address=(host, 0))
    made.sendall(said.encode())
    return made


def ended(sock: socket.socket) -> bytes:
    """All that a sender is told until its connection ends."""
    found = b""
    with suppress(ConnectionError):
        while piece := sock.recv(1000):
            found += piece
    return found


@pytest.mark.parametrize("trickle", TRICKLES.values(), ids=TRICKLES)
def test_a_crowd_shuts_nobody_out(trickle: str, tmp_path: Path) -> None:
    with WebhookServer(tmp_path, "orders", TOKEN) as server, ExitStack() as stack:
        for _ in range(300):
            stack.enter_context(call(server, trickle))
        assert [post(server, str(number))[0] for number in range(3)] == [200, 200, 200]
    assert stored(tmp_path) == [b"0", b"1", b"2"]


def test_bodies_of_a_crowd_do_not_keep_others_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.connectors.http.server._AT_ONCE", 2)
    with WebhookServer(tmp_path, "orders", TOKEN) as server, ExitStack() as stack:
        slow = stack.enter_context(call(server, TRICKLES["half a body"]))
        wait_for_bodies(server, 1)
        stack.enter_context(call(server, TRICKLES["half a body"]))
        wait_for_bodies(server, 2)
        assert post(server, "1")[0] == 200
        assert b" 408 " in ended(slow), "the longest there had to go"
    assert stored(tmp_path) == [b"1"]


def wait_for_bodies(server: WebhookServer, count: int) -> None:
    while len(server._bodies._guests) < count:
        threading.Event().wait(0.01)


def test_one_address_has_its_share_only(tmp_path: Path) -> None:
    """Those of others stay, though they are as idle."""
    with WebhookServer(tmp_path, "orders", TOKEN, max_per_address=3) as server, ExitStack() as stack:
        other = stack.enter_context(call(server, host="127.0.0.2"))
        mine = [stack.enter_context(call(server)) for _ in range(5)]
        assert [ended(sock) for sock in mine[:2]] == [b"", b""]
        other.sendall(f"{HEAD}Content-Length: 1\r\n\r\n1".encode())
        assert b" 200 " in other.recv(1000)
        mine[4].sendall(f"{HEAD}Content-Length: 1\r\n\r\n2".encode())
        assert b" 200 " in mine[4].recv(1000)


def test_who_knows_the_token_stays_before_strangers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.connectors.http.server._CONNECTIONS", 2)
    with WebhookServer(tmp_path, "orders", TOKEN) as server, ExitStack() as stack:
        slow = stack.enter_context(call(server, f"{HEAD}Content-Length: 2\r\n\r\n1"))
        wait_for_bodies(server, 1)
        strangers = [stack.enter_context(call(server)) for _ in range(5)]
        assert [ended(sock) for sock in strangers[:4]] == [b""] * 4
        slow.sendall(b"2")
        assert b" 200 " in slow.recv(1000)
    assert stored(tmp_path) == [b"12"]


def test_every_byte_in_time_is_not_in_time(tmp_path: Path) -> None:
    clock = ManualClock()
    with WebhookServer(tmp_path, "orders", TOKEN, clock=clock) as server, call(server, "POST /or") as slow:
        slow.settimeout(0.05)
        while not is_over(slow):
            clock.advance(HEAD_S * 400)
        assert post(server, "1")[0] == 200


def is_over(sock: socket.socket) -> bool:
    try:
        sock.sendall(b"x")
        return sock.recv(1) == b""
    except TimeoutError:
        return False
    except ConnectionError:
        return True


class Broken:
    """A listening socket that cannot take calls for a while."""

    def __init__(self, sock: socket.socket, errors: Iterator[int]) -> None:
        self._sock, self._errors = sock, errors

    def accept(self) -> tuple[socket.socket, object]:
        for number in self._errors:
            raise OSError(number, "not now")
        return self._sock.accept()

    def __getattr__(self, name: str) -> object:
        return getattr(self._sock, name)


def test_the_door_survives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accepting, "_BREATH_S", 0.0)
    server = WebhookServer(tmp_path, "orders", TOKEN)
    server._listener = Broken(server._listener, iter([errno.EMFILE, errno.ENOMEM, errno.ECONNABORTED]))  # type: ignore[assignment]
    with server:
        assert post(server, "1")[0] == 200


def test_a_thread_that_cannot_start_costs_no_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accepting, "_BREATH_S", 0.0)
    with WebhookServer(tmp_path, "orders", TOKEN) as server:

        def exhausted(thread: threading.Thread) -> None:
            raise RuntimeError("can't start new thread")

        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", exhausted)
            for _ in range(3):
                with pytest.raises((ConnectionError, http.client.HTTPException)):
                    post(server, "1")
        while server._guests._guests:  # left behind they would be there for ever
            threading.Event().wait(0.01)
        assert post(server, "2")[0] == 200
