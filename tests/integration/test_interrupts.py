"""Ctrl-C and SIGTERM while a program waits for its job, in this very process."""

from __future__ import annotations

import logging
import os
import shlex
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from local_jobs import environment, published, until

from penstock.common import WatermarkStrategy
from penstock.core import interrupts
from penstock.core.errors import JobFailedError
from penstock.core.job import JobStatus
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.data_gen import DataGeneratorSource
from penstock.testing.local import LocalLauncher, local_cluster
from tests.patience import PATIENCE_S

ROOT = Path(__file__).parents[2]


@pytest.fixture
def launcher() -> Iterator[LocalLauncher]:
    with local_cluster(slots=2) as found:
        yield found


@pytest.fixture(autouse=True)
def own_handlers() -> Iterator[None]:
    """What the test run itself had."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def endless(checkpoints: Path | None) -> StreamExecutionEnvironment:
    env = environment(checkpoints)
    source = DataGeneratorSource(lambda i: i, None, 1000.0)
    env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers").print().uid("out")
    return env


def send(number: int, when: Callable[[], Any]) -> None:
    """Like a person at a keyboard: from outside, once something is so."""

    def wait() -> None:
        until(when, "it is time for the signal")
        os.kill(os.getpid(), number)

    threading.Thread(target=wait, daemon=True).start()


def running(launcher: LocalLauncher) -> Callable[[], bool]:
    return lambda: bool(launcher.jobs) and published(launcher) >= 2


def newest(checkpoints: Path) -> int:
    found = checkpoints.glob("*/chk-*/_metadata")
    return max((int(path.parent.name.partition("-")[2]) for path in found), default=0)


def test_ctrl_c_keeps_the_newest_checkpoint_and_says_how_to_go_on(
    launcher: LocalLauncher, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Also with the retention that deletes what a cancelled job has."""
    send(signal.SIGINT, running(launcher))
    with caplog.at_level(logging.WARNING), pytest.raises(KeyboardInterrupt) as caught:
        endless(tmp_path).execute("orders")
    assert type(caught.value) is KeyboardInterrupt, "a subclass ends a program with status 1"
    assert launcher.jobs[-1].status() is JobStatus.CANCELED
    assert newest(tmp_path) == published(launcher) >= 2
    (line,) = [record.getMessage() for record in caplog.records if "interrupted" in record.getMessage()]
    assert f"chk-{newest(tmp_path)}; go on with: " in line and "\n" not in line
    assert line.endswith(shlex.join(sys.orig_argv))
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_the_next_run_goes_on_from_there(launcher: LocalLauncher, tmp_path: Path) -> None:
    send(signal.SIGINT, running(launcher))
    with pytest.raises(KeyboardInterrupt):
        endless(tmp_path).execute("orders")
    kept = newest(tmp_path)
    client = endless(tmp_path).execute_async("orders")
    until(lambda: published(launcher) > kept, "a checkpoint behind the one that was kept")
    assert launcher.jobs[-1].coordinator._restored.epoch == kept
    client.cancel().result(PATIENCE_S)
    assert newest(tmp_path) == 0, "a job that is cancelled is over"


def test_sigterm_ends_the_program_with_143(launcher: LocalLauncher, tmp_path: Path) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    send(signal.SIGTERM, running(launcher))
    with pytest.raises(SystemExit) as caught:
        endless(tmp_path).execute("orders")
    assert caught.value.code == interrupts.TERMINATED == 143
    assert newest(tmp_path) == published(launcher)
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_a_host_that_handles_the_signal_itself_gets_it_when_the_job_has_ended(
    launcher: LocalLauncher, tmp_path: Path
) -> None:
    seen: list[tuple[int, JobStatus]] = []

    def handler(number: int, frame: object) -> None:
        seen.append((number, launcher.jobs[-1].status()))

    signal.signal(signal.SIGTERM, handler)
    send(signal.SIGTERM, running(launcher))
    with pytest.raises(JobFailedError, match="was cancelled"):
        endless(tmp_path).execute("orders")
    assert seen == [(signal.SIGTERM, JobStatus.CANCELED)] and newest(tmp_path) == published(launcher)
    assert signal.getsignal(signal.SIGTERM) is handler


def test_a_signal_that_the_process_ignores_stays_ignored(launcher: LocalLauncher, tmp_path: Path) -> None:
    """As under nohup, or in the background of a shell."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os_kill = threading.Event()

    def both() -> bool:
        if running(launcher)() and not os_kill.is_set():
            os.kill(os.getpid(), signal.SIGINT)
            os_kill.set()
        return os_kill.is_set()

    send(signal.SIGTERM, both)
    with pytest.raises(SystemExit):
        endless(tmp_path).execute("orders")
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_another_thread_may_execute_and_the_signals_are_not_touched(
    launcher: LocalLauncher, tmp_path: Path
) -> None:
    ended: list[BaseException] = []
    handler = signal.getsignal(signal.SIGINT)

    def program() -> None:
        try:
            endless(tmp_path).execute("orders")
        except BaseException as error:
            ended.append(error)

    thread = threading.Thread(target=program)
    thread.start()
    until(running(launcher), "the job runs")
    assert signal.getsignal(signal.SIGINT) is handler
    launcher.jobs[-1].cancel().result(PATIENCE_S)
    thread.join(PATIENCE_S)
    assert [type(error) for error in ended] == [JobFailedError]


def test_a_signal_before_the_job_is_there_ends_it_as_soon_as_it_is(
    launcher: LocalLauncher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch = launcher.launch

    def slowly(spec: Any) -> Any:
        os.kill(os.getpid(), signal.SIGINT)
        assert interrupts.pending()
        return launch(spec)

    monkeypatch.setattr(launcher, "launch", slowly)
    with pytest.raises(KeyboardInterrupt):
        endless(tmp_path).execute("orders")
    assert launcher.jobs[-1].status() is JobStatus.CANCELED and not interrupts.pending()


def test_a_start_that_fails_because_it_was_interrupted_is_an_interrupt(
    launcher: LocalLauncher, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(spec: Any) -> Any:
        with interrupts.breaking(lambda: broke.append(1)):
            os.kill(os.getpid(), signal.SIGINT)
        raise OSError("the JVM is gone")

    broke: list[int] = []
    monkeypatch.setattr(launcher, "launch", broken)
    with caplog.at_level(logging.WARNING), pytest.raises(KeyboardInterrupt):
        endless(None).execute("orders")
    assert broke == [1] and "before the job began: nothing was changed; go on with: " in caplog.text


def test_a_job_that_had_finished_is_not_told_to_go_on(
    launcher: LocalLauncher, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Run again it would write everything a second time."""
    launch = launcher.launch

    def heard_late(spec: Any) -> Any:
        job = launch(spec)
        job.result().result(PATIENCE_S)
        os.kill(os.getpid(), signal.SIGINT)
        return job

    monkeypatch.setattr(launcher, "launch", heard_late)
    env = environment()
    env.from_collection([1, 2]).print()
    with caplog.at_level(logging.WARNING), pytest.raises(KeyboardInterrupt):
        env.execute("orders")
    assert "go on with: " not in caplog.text


def test_results_that_are_left_by_ctrl_c_keep_the_checkpoints(
    launcher: LocalLauncher, tmp_path: Path
) -> None:
    env = environment(tmp_path)
    source = DataGeneratorSource(lambda i: i, None, 1000.0)
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    send(signal.SIGINT, running(launcher))
    with pytest.raises(KeyboardInterrupt), stream.execute_and_collect("orders") as records:
        for _ in records:
            pass
    assert launcher.jobs[-1].status() is JobStatus.CANCELED
    assert newest(tmp_path) == published(launcher) >= 2


BLOCKED = """
import sys, threading
from penstock.connectors.sink import Sink
from penstock.testing.local import local_cluster
sys.path.insert(0, {helpers!r})
from local_jobs import environment


class Stuck(Sink):
    def create_writer(self, context):
        print("stuck", flush=True)
        threading.Event().wait()


with local_cluster(slots=1):
    env = environment()
    env.from_collection([1]).sink_to(Stuck())
    env.execute("stuck")
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_ends_a_program_at_once(tmp_path: Path, number: int) -> None:
    """Whatever hangs: here the job cannot end, because a sink does not come up."""
    script = tmp_path / "program.py"
    script.write_text(textwrap.dedent(BLOCKED.format(helpers=str(Path(__file__).parent))))
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests" / "spark" / "jobs")])
    process = subprocess.Popen(
        [sys.executable, str(script)],
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    with process:
        assert process.stdout is not None and "stuck" in process.stdout.readline()
        until(lambda: process.send_signal(number) or process.poll() is not None, "it has ended")
        assert process.returncode == -number
