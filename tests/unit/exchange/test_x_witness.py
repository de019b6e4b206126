"""Who forked a slot's process tells the driver how it ended."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest
from control_desk import RIGHT, SECRET, Desk

from penstock.core.clock import SystemClock
from penstock.exchange.lines import PLAIN, Transport
from penstock.spark.transport import make
from penstock.spark.witness import Death
from tests.patience import PATIENCE_S

DAEMON = """
import json, os, signal, sys
from penstock.spark import witness

witness.install()
signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # as PySpark's daemon does
host, port, secret, transport, ends = json.loads(sys.argv[1])
for slot, end in enumerate(ends):
    if os.fork() == 0:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        witness.leave_will(witness.Will((host, port), secret, "job", 3, slot, transport))
        if os.fork() == 0:
            os._exit(9)  # a process of the user's own is no slot
        os.wait()
        if end == "done":
            witness.leave_will(None)
            os._exit(1)
        os.kill(os.getpid(), end) if end > 0 else os._exit(-end)
print("forked", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def desk() -> Iterator[Desk]:
    made = Desk()
    yield made
    made.server.close()


def watch(
    desk: Desk, *ends: int | str, secret: bytes = SECRET, transport: Transport = PLAIN
) -> subprocess.Popen[str]:
    arguments = json.dumps([*desk.server.address, secret.hex(), transport.packed(), ends])
    return subprocess.Popen(
        [sys.executable, "-c", DAEMON, arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_the_daemon_tells_signal_and_exit_status_of_slots(desk: Desk) -> None:
    daemon = watch(desk, 9, -3, "done")
    try:
        assert desk.wait(lambda: len(desk.words) == 2)
    finally:
        daemon.communicate("", PATIENCE_S)
    assert daemon.returncode == 0
    told = {slot: Death.from_text(words) for slot, words in desk.words}
    assert "killed by signal 9 (SIGKILL)" in str(told[0]) and told[0].peak_bytes > 1 << 20
    assert "exit status 3" in str(told[1])
    assert 2 not in told, "a slot that has ended withdraws its will"
    assert not desk.lost and not desk.hellos, "a witness is no slot"


def test_a_witness_without_the_secret_is_not_heard(desk: Desk) -> None:
    wrong = watch(desk, 9, secret=b"x" * 32)
    wrong.communicate("", PATIENCE_S)
    with desk.enter(RIGHT).socket:
        assert desk.wait(lambda: len(desk.hellos) == 1)
    assert not desk.words


def test_a_driver_that_is_gone_does_not_disturb_the_daemon(desk: Desk) -> None:
    daemon = watch(desk, 9, 9)
    desk.server.close()
    daemon.communicate("", PATIENCE_S)
    assert daemon.returncode == 0


def test_a_witness_calls_under_tls_where_slots_do() -> None:
    transport = Transport(make("job", SystemClock()), always=True)
    desk = Desk(transport)
    try:
        daemon = watch(desk, 9, transport=transport)
        assert desk.wait(lambda: len(desk.words) == 1)
        daemon.communicate("", PATIENCE_S)
    finally:
        desk.server.close()
    assert daemon.returncode == 0
