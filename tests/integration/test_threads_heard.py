"""Whatever ends a thread of ours, the job hears of it: a small test for each kind of thread."""

from __future__ import annotations

import asyncio
import errno
import socket
import sys
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from deciding_sink import DecidingSink
from local_jobs import environment, finish, until

from penstock.common import WatermarkStrategy
from penstock.connectors.sink import CommitOutcome
from penstock.connectors.source import FixedSplits, Source, Split
from penstock.coordinator.asking import ask
from penstock.coordinator.private import connect_private
from penstock.core import accepting
from penstock.core.errors import JobFailedError, TransportError
from penstock.core.ids import Subtask, SubtaskIndex, VertexId
from penstock.core.messages import Heartbeat, Opening
from penstock.datastream import AsyncDataStream, AsyncFunction
from penstock.exchange.acceptor import Door
from penstock.exchange.auth import Hello, answer, call, new_secret
from penstock.spark.worker import _beat, _FileThread, _Progress
from penstock.testing.local import LocalLauncher, local_cluster
from tests.paper_job import published
from tests.patience import PATIENCE_S


def failed(env: Any, why: str) -> None:
    with pytest.raises(JobFailedError, match=why):
        finish(env.execute_async(), PATIENCE_S)


def quits(*arguments: Any) -> Any:
    sys.exit("no way on")


# --- the driver's lanes ----------------------------------------------------------------------------


def test_a_committer_that_leaves_fails_the_job(tmp_path: Path) -> None:
    with local_cluster(1):
        env = environment(tmp_path / "chk", restart_strategy__type="none")
        env.from_collection([1, 2, 3]).sink_to(DecidingSink(quits))
        failed(env, "no way on")


class LeavingEnumerator(FixedSplits):
    def discover(self) -> Any:
        return quits()


class NoSplits(Source):
    def create_enumerator(self, parallelism: int) -> Any:
        return LeavingEnumerator([])

    def open_split(self, split: Split, position: Any, clock: Any) -> Any:
        raise AssertionError("there is none")


def test_an_enumerator_that_leaves_fails_the_job() -> None:
    with local_cluster(1):
        env = environment(restart_strategy__type="none")
        env.from_source(NoSplits(), WatermarkStrategy.no_watermarks(), "none").print()
        failed(env, "no way on")


# --- the brain -------------------------------------------------------------------------------------


def test_an_error_where_the_brain_only_asks_when_to_wake_ends_the_job(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(self: Any) -> int:
        raise RuntimeError("cannot tell when")

    monkeypatch.setattr("penstock.coordinator.coordinator.Coordinator.next_wake", broken)
    with local_cluster(1):
        env = environment()
        env.from_collection([1]).map(lambda i: i).sink_to(DecidingSink(lambda _: CommitOutcome.COMMITTED))
        failed(env, "cannot tell when")


def test_an_error_while_a_job_is_wound_up_does_not_keep_its_end_from_who_waits(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(self: Any) -> None:
        self._stop.set()
        raise RuntimeError("cannot close")

    monkeypatch.setattr("penstock.testing.local.LocalCluster.close", broken)
    with local_cluster(1) as launcher:
        env = environment()
        env.from_collection([1]).sink_to(DecidingSink(lambda _: CommitOutcome.COMMITTED))
        client = env.execute_async()
        finish(client, PATIENCE_S)
        asked = launcher.jobs[-1].trigger_savepoint("/nowhere")
        assert isinstance(asked.exception(PATIENCE_S), Exception), "nobody waits for a job that is gone"
    assert "cannot close" in caplog.text


def test_a_listener_that_fails_does_not_keep_the_end_from_who_waits() -> None:
    def broken(status: Any) -> None:
        raise RuntimeError("does not listen")

    go = threading.Event()
    with local_cluster(1) as launcher:
        env = environment()
        decide = lambda _: go.wait(PATIENCE_S) and CommitOutcome.COMMITTED  # noqa: E731
        env.from_collection([1]).sink_to(DecidingSink(decide))
        client = env.execute_async()
        launcher.jobs[-1].listeners.append(broken)
        go.set()
        finish(client, PATIENCE_S)


# --- gangs -----------------------------------------------------------------------------------------


def test_a_function_that_leaves_fails_the_job_in_one_process() -> None:
    with local_cluster(1):
        env = environment(restart_strategy__type="none")
        env.from_collection([1]).map(quits).print()
        failed(env, "no way on")


def test_a_function_that_leaves_fails_a_batch_job() -> None:
    with local_cluster(1):
        env = environment(execution__runtime_mode="BATCH")
        env.from_collection([1]).map(quits).print()
        failed(env, "no way on")


def test_a_gang_thread_that_fails_ends_the_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: LocalLauncher, *arguments: Any) -> Any:
        raise RuntimeError("no slots today")

    monkeypatch.setattr("penstock.testing.local.LocalCluster._environment", broken)
    with local_cluster(1):
        env = environment(restart_strategy__type="none")
        env.from_collection([1]).print()
        failed(env, "no slots today")


class Leaving(AsyncFunction[int, int]):
    async def async_invoke(self, value: int) -> list[int]:
        await asyncio.sleep(0)
        return quits()  # type: ignore[no-any-return]


def test_a_coroutine_that_leaves_fails_the_job() -> None:
    with local_cluster(1):
        env = environment(restart_strategy__type="none")
        AsyncDataStream.ordered_wait(env.from_collection([1]), Leaving(), 60_000, 10).print()
        failed(env, "no way on")


# --- a worker's threads ----------------------------------------------------------------------------


def test_a_write_of_state_that_leaves_is_an_error() -> None:
    found: list[Any] = []
    woken = threading.Event()
    files = _FileThread(woken.set)
    files.submit(quits, lambda result, error: found.append(error))
    assert woken.wait(PATIENCE_S)
    files.deliver()
    files.close()
    assert "no way on" in str(found[0])


def test_a_slot_that_cannot_send_signs_of_life_notices() -> None:
    class Link:
        broken: Exception | None = None

        def report(self, message: Heartbeat) -> None:
            raise RuntimeError("out of memory")

    link = Link()
    _beat(link, 0.0, threading.Event(), _Progress())  # type: ignore[arg-type]
    assert "out of memory" in str(link.broken)


# --- doors -----------------------------------------------------------------------------------------


class Tired(socket.socket):
    """A listening socket whose first calls cannot be taken."""

    refusals = 2

    def accept(self) -> Any:
        if self.refusals:
            self.refusals -= 1
            raise OSError(errno.EMFILE, "Too many open files")
        return super().accept()


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accepting, "_BREATH_S", 0.0)


def hung_up(sock: socket.socket) -> bool:
    try:
        return sock.recv(1) == b""
    except ConnectionError:
        return True


def tired() -> Tired:
    listener = Tired(socket.AF_INET, socket.SOCK_STREAM)
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    return listener


@pytest.mark.usefixtures("quick")
def test_a_door_opens_again_when_there_are_descriptors_again() -> None:
    secret = new_secret()
    inside = threading.Semaphore(0)
    threads = threading.active_count()
    listener = tired()
    Door(
        listener,
        "house",
        lambda s: answer(s, "job", 1, secret),
        lambda hello, s: (s.close(), inside.release())[1],
    )
    with socket.create_connection(listener.getsockname(), timeout=PATIENCE_S) as sock:
        call(sock, Hello("job", 1, 0, "data"), secret)
    assert inside.acquire(timeout=PATIENCE_S)
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    until(lambda: threading.active_count() <= threads, "the door's threads are gone")


@pytest.mark.usefixtures("quick")
def test_a_caller_that_no_thread_can_greet_is_sent_away_and_the_next_comes_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    secret = new_secret()
    inside = threading.Semaphore(0)
    listener = socket.create_server(("127.0.0.1", 0))
    Door(
        listener,
        "house",
        lambda s: answer(s, "job", 1, secret),
        lambda hello, s: (s.close(), inside.release())[1],
    )
    start = threading.Thread.start

    def no_more(self: threading.Thread) -> None:
        if self.name == "house-greet":
            raise RuntimeError("can't start new thread")
        start(self)

    monkeypatch.setattr(threading.Thread, "start", no_more)
    with socket.create_connection(listener.getsockname(), timeout=PATIENCE_S) as sock:
        sock.sendall(b"?")
        assert hung_up(sock)
    monkeypatch.setattr(threading.Thread, "start", start)
    with socket.create_connection(listener.getsockname(), timeout=PATIENCE_S) as sock:
        call(sock, Hello("job", 1, 0, "data"), secret)
    assert inside.acquire(timeout=PATIENCE_S)
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()


def test_a_greeting_that_fails_in_an_odd_way_sends_the_caller_away() -> None:
    def greet(sock: socket.socket) -> Hello:
        raise ValueError("odd")

    listener = socket.create_server(("127.0.0.1", 0))
    Door(listener, "house", greet, lambda hello, sock: None)
    with socket.create_connection(listener.getsockname(), timeout=PATIENCE_S) as sock:
        sock.sendall(b"?")
        assert hung_up(sock)
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()


def test_the_driver_says_what_is_wrong_when_it_cannot_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path))

    def broken() -> Any:
        raise RuntimeError("the books are open")

    with published("orders", broken) as made:
        entry = made.entry
        where = entry.path.parent / entry.socket
        said = ask(where, entry.token, "GET", f"/jobs/{entry.id}/facts")
        assert said.status == 500 and "the books are open" in said.why_not
        assert ask(where, entry.token, "GET", "/openapi.json").is_good
    with pytest.raises(TransportError):
        ask(where, entry.token, "GET", "/jobs")


def test_two_hundred_silent_callers_do_not_keep_people_from_asking_the_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path))
    with published("orders") as made, ExitStack() as strangers:
        for _ in range(200):
            strangers.enter_context(connect_private(made.entry.path.parent / made.entry.socket, PATIENCE_S))
        until(lambda: made.entry.status() is not None, "the driver answers")


def test_a_slot_whose_own_thread_is_stuck_tells_which_step_it_opens() -> None:
    """Once for each step; heartbeats go on."""
    said: list[Any] = []
    stop, progress = threading.Event(), _Progress()

    class Link:
        broken = None

        def report(self, message: Any) -> None:
            said.append(message)
            if len(said) == 3:
                progress.opening(Opening(Subtask(VertexId("b"), SubtaskIndex(0)), "second"))
            if len(said) == 6:
                stop.set()

    progress.opening(Opening(Subtask(VertexId("a"), SubtaskIndex(0)), "first"))
    _beat(Link(), 0.0, stop, progress)  # type: ignore[arg-type]
    shown = [item.step if isinstance(item, Opening) else "alive" for item in said]
    assert shown == ["first", "alive", "alive", "second", "alive", "alive"]
