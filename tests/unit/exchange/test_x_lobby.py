"""The lobby: who is silent waits without a thread, not for ever, and gives its place up first."""

from __future__ import annotations

import contextlib
import errno
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.core import accepting
from penstock.core.clock import ManualClock
from penstock.exchange import acceptor
from penstock.exchange.acceptor import Lobby
from tests.patience import PATIENCE_S


class Listener(socket.socket):
    """Has no descriptors left for the next few calls, if told so."""

    refusals = 0

    def accept(self) -> tuple[socket.socket, Any]:
        if self.refusals:
            self.refusals -= 1
            raise OSError(errno.EMFILE, "Too many open files")
        return super().accept()


@pytest.fixture
def listener(monkeypatch: pytest.MonkeyPatch) -> Iterator[Listener]:
    monkeypatch.setattr(accepting, "_BREATH_S", 0.0)
    with Listener(socket.AF_INET, socket.SOCK_STREAM) as made:
        made.bind(("127.0.0.1", 0))
        made.listen(512)
        yield made


def caller(listener: socket.socket, word: bytes = b"") -> socket.socket:
    sock = socket.create_connection(listener.getsockname(), timeout=PATIENCE_S)
    sock.sendall(word)
    return sock


def hung_up(sock: socket.socket) -> bool:
    try:
        return sock.recv(1) == b""
    except ConnectionError:
        return True


def test_who_speaks_gets_on_past_all_who_are_silent(listener: Listener) -> None:
    silent = [caller(listener) for _ in range(200)]
    speaker = caller(listener, b"hello")
    sock, host = next(Lobby(listener, "lobby").speakers())
    assert sock.recv(5) == b"hello" and host == "127.0.0.1"
    for one in (*silent, speaker, sock):
        one.close()


def test_the_longest_silent_one_goes_when_there_are_too_many(
    listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    for cap in ("SILENT_PER_ADDRESS", "SILENT_IN_ALL"):
        with monkeypatch.context() as patch:
            patch.setattr(acceptor, cap, 3)
            silent = [caller(listener) for _ in range(4)]
            speaker = caller(listener, b"x")
            speakers = Lobby(listener, "lobby").speakers()
            sock, _ = next(speakers)
            assert hung_up(silent[0])
            speakers.close()  # type: ignore[attr-defined]
            for one in (*silent, speaker, sock):
                one.close()
    assert acceptor.SILENT_PER_ADDRESS < acceptor.SILENT_IN_ALL < 1024, "of a usual process's descriptors"


def test_who_is_silent_for_too_long_goes(listener: Listener) -> None:
    clock = ManualClock()
    silent = caller(listener)
    speakers = Lobby(listener, "lobby", clock).speakers()
    first = caller(listener, b"x")
    inside = [next(speakers)[0]]
    clock.advance(acceptor.SILENCE_S * 1000 + 1)
    second = caller(listener, b"x")
    inside.append(next(speakers)[0])
    third = caller(listener, b"x")
    inside.append(next(speakers)[0])
    assert hung_up(silent)
    for one in (silent, first, second, third, *inside):
        one.close()


def test_a_shortage_of_descriptors_is_paid_by_who_is_silent_and_ends_nothing(listener: Listener) -> None:
    silent = [caller(listener) for _ in range(3)]
    first = caller(listener, b"x")
    speakers = Lobby(listener, "lobby").speakers()
    inside = [next(speakers)[0]]
    listener.refusals = 5
    second = caller(listener, b"y")
    inside.append(next(speakers)[0])
    assert inside[1].recv(1) == b"y" and listener.refusals == 0
    assert all(map(hung_up, silent))
    for one in (*silent, first, second, *inside):
        one.close()


def test_it_ends_with_its_listener_and_leaves_nobody_waiting(listener: Listener) -> None:
    silent = caller(listener)
    first = caller(listener, b"x")
    speakers = Lobby(listener, "lobby").speakers()
    inside = next(speakers)[0]
    with contextlib.suppress(OSError):
        listener.shutdown(socket.SHUT_RDWR)
    assert list(speakers) == [] and hung_up(silent)
    for one in (silent, first, inside):
        one.close()
