"""Who can talk to a driver: its own user, whatever others do."""

from __future__ import annotations

import json
import socket
import stat
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from penstock.coordinator import listener as listening
from penstock.coordinator import private, registry
from penstock.coordinator.listener import Listener, ask
from penstock.coordinator.private import bind_private, check_own, connect_private, is_own, make_private
from penstock.core.errors import ConfigError, TransportError
from tests.patience import PATIENCE_S

ANSWERS = {"status": lambda: {"status": "RUNNING"}}


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture(params=["socket", "port"])
def door(request, tmp_path):
    path = make_private(tmp_path / "door") / "1.sock" if request.param == "socket" else None
    made = Listener("secret", ANSWERS, path=path)
    yield path or made.port
    made.close()
    assert path is None or not path.exists()


def call(door: int | Path) -> socket.socket:
    return connect_private(door, PATIENCE_S) if isinstance(door, Path) else _by_port(door)


def _by_port(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), PATIENCE_S)


@pytest.mark.parametrize("said", [b"", b'{"request": "sta'])
def test_a_crowd_keeps_nobody_from_asking(door, said):
    with ExitStack() as stack:
        for _ in range(40):
            stack.enter_context(call(door)).sendall(said)
        assert [ask(door, "secret", "status") for _ in range(3)] == [{"status": "RUNNING"}] * 3


def test_a_door_is_closed_without_complaint(tmp_path, caplog):
    made = Listener("secret", ANSWERS, path=make_private(tmp_path / "door") / "1.sock")
    made._server.shutdown(socket.SHUT_RDWR)  # and some time later
    made._thread.join(PATIENCE_S)
    assert not made._thread.is_alive() and caplog.text == ""
    made.close()


def test_who_is_being_served_is_not_sent_away(tmp_path, monkeypatch):
    monkeypatch.setattr(listening, "_AT_ONCE", 1)
    answers = {}
    made = Listener("secret", answers)

    def slow():
        with call(made.port) as other:
            assert other.recv(1000) == b"", "no room for another"
        return {"done": True}

    made._answers["slow"] = slow
    assert ask(made.port, "secret", "slow") == {"done": True}
    made.close()


def test_another_user_is_not_spoken_to(tmp_path, monkeypatch):
    path = make_private(tmp_path / "door") / "1.sock"
    made = Listener("secret", ANSWERS, path=path)
    assert ask(path, "secret", "status") == {"status": "RUNNING"}
    monkeypatch.setattr(private, "_ROOT", -1)
    monkeypatch.setattr(private.os, "getuid", lambda: 12345)
    with pytest.raises(TransportError):
        ask(path, "secret", "status")
    made.close()


def test_what_is_not_ours_is_not_believed(home, monkeypatch):
    made = registry.register("0" * 32, "orders", dict, dict)
    assert made is not None and len(registry.entries()) == 1
    with monkeypatch.context() as patch:
        patch.setattr(private, "_ROOT", -1)
        patch.setattr(private.os, "getuid", lambda: 12345)
        with pytest.raises(ConfigError, match="belongs to another user; set PENSTOCK_HOME"):
            registry.entries()
        assert registry.register("1" * 32, "mine", dict, dict) is None
    made.close()


def test_a_link_is_not_followed(tmp_path):
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(PermissionError):
        make_private(tmp_path / "link")
    with pytest.raises(PermissionError):
        check_own(tmp_path / "link")


def test_a_directory_that_others_can_see_into_is_closed(home):
    (home / "jobs").mkdir(parents=True)
    (home / "jobs").chmod(0o755)
    made = registry.register("0" * 32, "orders", dict, dict)
    assert made is not None and stat.S_IMODE((home / "jobs").stat().st_mode) == 0o700
    made.close()


def test_a_home_may_be_as_deep_as_it_likes(tmp_path, monkeypatch):
    """The address of a socket holds about a hundred bytes."""
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path / ("d" * 100) / ("e" * 100)))
    made = registry.register("0" * 32, "orders", ANSWERS["status"], dict)
    assert made is not None and made.entry.socket
    (entry,) = registry.entries()
    assert entry.status() == {"status": "RUNNING"}
    made.close()


def test_without_such_sockets_there_is_a_port(monkeypatch):
    for patched in ({"HAS_SOCKETS": False}, {"Listener": _refusing}):
        with monkeypatch.context() as patch:
            for name, value in patched.items():
                patch.setattr(registry, name, value)
            made = registry.register("0" * 32, "orders", ANSWERS["status"], dict)
        assert made is not None and made.entry.port and not made.entry.socket
        assert registry.find("orders").status() == {"status": "RUNNING"}
        made.close()
    assert registry.entries() == []


def _refusing(token, answers, path=None):
    if path is not None:
        raise OSError("this file system has no sockets")
    return Listener(token, answers)


def test_sockets_of_the_dead_are_removed_and_those_of_the_living_stay(home):
    alive = registry.register("0" * 32, "alive", ANSWERS["status"], dict)
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    dead = home / "jobs" / f"{process.pid}-00000000.sock"
    bind_private(dead, 1).close()
    strange = home / "jobs" / "mine.sock"
    strange.write_text("")
    assert [entry.name for entry in registry.entries()] == ["alive"]
    assert not dead.exists() and strange.exists()
    assert registry.find("alive").status() == {"status": "RUNNING"}
    alive.close()


@pytest.mark.parametrize("name", ["../../elsewhere.sock", 7, None])
def test_a_file_cannot_send_us_elsewhere(home, name):
    made = registry.register("0" * 32, "orders", dict, dict)
    facts = json.loads(made.entry.path.read_text())
    made.entry.path.write_text(json.dumps(facts | {"socket": name}))
    assert registry.entries() == []
    made.close()


def test_only_named_sockets_know_their_callers(tmp_path):
    server = socket.create_server(("127.0.0.1", 0))
    with server, _by_port(server.getsockname()[1]) as client:
        assert is_own(client)
