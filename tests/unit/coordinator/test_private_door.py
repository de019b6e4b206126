"""Who can talk to a driver as the command line does: its own user, whatever others do."""

from __future__ import annotations

import json
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from penstock.coordinator import private, registry
from penstock.coordinator.asking import ask
from penstock.coordinator.private import bind_private, check_own, connect_private, is_own, make_private
from penstock.coordinator.registry import Registration
from penstock.core.errors import ConfigError, TransportError
from penstock.rest.share import Share
from tests.paper_job import Published, published
from tests.patience import PATIENCE_S


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture(params=["socket", "port"])
def driver(request: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Published]:
    """One with a socket, and one where there are no such sockets."""
    monkeypatch.setattr(registry, "HAS_SOCKETS", request.param == "socket")
    with published("orders") as made:
        assert bool(made.entry.socket) == (request.param == "socket") == (made.entry.port == 0)
        yield made


def door(driver: Published) -> int | Path:
    entry = driver.entry
    return entry.path.parent / entry.socket if entry.socket else entry.port


def call(driver: Published) -> socket.socket:
    where = door(driver)
    return connect_private(where, PATIENCE_S) if isinstance(where, Path) else _by_port(where)


def _by_port(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), PATIENCE_S)


def registered(name: str = "orders") -> Registration:
    made = registry.register("0" * 32, name)
    assert made is not None
    made.publish()
    return made


def gone(made: Registration) -> None:
    made.close()
    made.socket.close()


def test_who_has_the_token_is_answered(driver: Published) -> None:
    (entry,) = registry.entries()
    facts = entry.status()
    assert facts is not None and facts["status"] == "RUNNING"
    assert ask(door(driver), entry.token, "GET", "/v1/jobs").body["jobs"][0]["id"] == entry.id


@pytest.mark.parametrize("token", ["", "guess", "0" * 64])
def test_a_wrong_token_is_refused_without_effect(driver: Published, token: str) -> None:
    for method, path in [("PATCH", f"/jobs/{driver.entry.id}?mode=cancel"), ("POST", "/page-link")]:
        with pytest.raises(TransportError):
            ask(door(driver), token, method, path, {})
    with pytest.raises(TransportError, match="does not know the job's token"):
        ask(door(driver), token, "GET", "/jobs")
    assert driver.job.cancelled == 0 and driver.entry.status() is not None


def test_the_token_of_the_page_opens_nothing_here() -> None:
    """It may have been given to tools that only look."""
    with published("orders", settings={"rest.port": "0", "penstock.rest.read-only": "true"}) as made:
        assert made.serving.token and made.serving.token != made.entry.token
        with pytest.raises(TransportError):
            ask(door(made), made.serving.token, "GET", "/jobs")


def test_the_token_is_in_no_log(driver: Published, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    assert driver.entry.status() is not None and driver.entry.cancel()
    with pytest.raises(TransportError):
        ask(door(driver), "s3cret-guess", "GET", "/jobs")
    driver.serving.close()
    assert driver.entry.token not in caplog.text and "s3cret-guess" not in caplog.text
    assert driver.entry.token not in repr(driver.entry)


@pytest.mark.parametrize("said", [b"", b"GET /jobs HT"])
def test_a_crowd_keeps_nobody_from_asking(driver: Published, said: bytes) -> None:
    with ExitStack() as stack:
        for _ in range(40):
            stack.enter_context(call(driver)).sendall(said)
        assert all([driver.entry.status() is not None for _ in range(3)])


def test_a_door_is_closed_without_complaint(driver: Published, caplog: pytest.LogCaptureFixture) -> None:
    where = door(driver)
    driver.serving.close()
    driver.serving.close()
    assert not driver.entry.path.exists() and not (isinstance(where, Path) and where.exists())
    assert caplog.text == "" and driver.serving.failed is None
    with pytest.raises(TransportError):
        ask(where, driver.entry.token, "GET", "/jobs")


def test_another_user_is_not_spoken_to(monkeypatch: pytest.MonkeyPatch) -> None:
    with published("orders") as made:
        assert made.entry.status() is not None
        with monkeypatch.context() as patch:
            patch.setattr(private, "_ROOT", -1)
            patch.setattr(private.os, "getuid", lambda: 12345)
            assert made.entry.status() is None


def test_what_is_not_ours_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    made = registered()
    assert len(registry.entries()) == 1
    with monkeypatch.context() as patch:
        patch.setattr(private, "_ROOT", -1)
        patch.setattr(private.os, "getuid", lambda: 12345)
        with pytest.raises(ConfigError, match="belongs to another user; set PENSTOCK_HOME"):
            registry.entries()
        assert registry.register("1" * 32, "mine") is None
    gone(made)


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(PermissionError):
        make_private(tmp_path / "link")
    with pytest.raises(PermissionError):
        check_own(tmp_path / "link")


def test_a_directory_that_others_can_see_into_is_closed(home: Path) -> None:
    (home / "jobs").mkdir(parents=True)
    (home / "jobs").chmod(0o755)
    made = registered()
    assert stat.S_IMODE((home / "jobs").stat().st_mode) == 0o700
    gone(made)


def test_a_home_may_be_as_deep_as_it_likes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The address of a socket holds about a hundred bytes."""
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path / ("d" * 100) / ("e" * 100)))
    with published("orders") as made:
        assert made.entry.socket
        (entry,) = registry.entries()
        assert entry.status() is not None


def test_a_file_system_without_sockets_gives_a_port(monkeypatch: pytest.MonkeyPatch) -> None:
    def refusing(path: Path, backlog: int) -> socket.socket:
        raise OSError("this file system has no sockets")

    monkeypatch.setattr(registry, "bind_private", refusing)
    with published("orders") as made:
        assert made.entry.port and not made.entry.socket
        assert registry.find("orders").status() is not None
    assert registry.entries() == []


def test_sockets_of_the_dead_are_removed_and_those_of_the_living_stay(home: Path) -> None:
    with published("alive"):
        process = subprocess.Popen([sys.executable, "-c", ""])
        process.wait()
        dead = home / "jobs" / f"{process.pid}-00000000.sock"
        bind_private(dead, 1).close()
        strange = home / "jobs" / "mine.sock"
        strange.write_text("")
        assert [entry.name for entry in registry.entries()] == ["alive"]
        assert not dead.exists() and strange.exists()
        assert registry.find("alive").status() is not None


@pytest.mark.parametrize("name", ["../../elsewhere.sock", 7, None])
def test_a_file_cannot_send_us_elsewhere(name: object) -> None:
    made = registered()
    facts = json.loads(made.entry.path.read_text())
    made.entry.path.write_text(json.dumps(facts | {"socket": name}))
    assert registry.entries() == []
    gone(made)


@pytest.mark.parametrize("change", [{"id": "../cluster"}, {"id": "a b"}, {"token": "a\r\nb"}])
def test_a_file_with_other_words_is_no_answer(change: dict[str, str]) -> None:
    with published("orders") as made:
        strange = registry.Entry(**{**json.loads(made.entry.path.read_text()), **change})
        assert strange.status() is None and not strange.cancel() and made.job.cancelled == 0


def test_only_named_sockets_know_their_callers() -> None:
    server = socket.create_server(("127.0.0.1", 0))
    with server, _by_port(server.getsockname()[1]) as client:
        assert is_own(client)


def test_a_crowd_at_the_page_does_not_keep_the_command_line_waiting(
    driver: Published, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where it asks by a port: whoever shows the private token there has no page in front of him."""

    async def never(self: Share, known: bool = True) -> None:
        raise AssertionError("it stands in the line of the page")

    monkeypatch.setattr(Share, "turn", never)
    assert driver.entry.status() is not None
    assert driver.entry.cancel()
