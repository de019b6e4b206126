"""What the daemon keeps of its workers: their wills, and which of their deaths the kernel caused."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.core.clock import ManualClock
from penstock.core.ids import SlotId
from penstock.spark.failures import WorkerDiedError
from penstock.spark.lost import LastSigns
from penstock.spark.witness import Death, Kills, Machine, Will, Witness, _Page


class Kernel:
    """Counts kills in a group of version 2, as the real one does."""

    def __init__(self, tmp_path: Path) -> None:
        self.clock = ManualClock()
        self._path = tmp_path / "cgroup/job/memory.events"
        self._path.parent.mkdir(parents=True)
        (tmp_path / "proc/self").mkdir(parents=True)
        (tmp_path / "proc/self/cgroup").write_text("0::/job\n")
        self._count = 4
        self.kill(0)
        self.kills = Kills(Machine(tmp_path / "proc", tmp_path / "cgroup"), self.clock)

    def kill(self, count: int) -> None:
        self._count += count
        self._path.write_text(f"oom 9\noom_kill {self._count}\n")


@pytest.fixture
def kernel(tmp_path: Path) -> Kernel:
    return Kernel(tmp_path)


def test_what_the_kernel_did_before_the_daemon_began_explains_nothing(kernel: Kernel) -> None:
    assert not kernel.kills.explains_one()


def test_each_kill_explains_one_death(kernel: Kernel) -> None:
    """Two die in one moment: both were told apart only by the order in which they were waited for."""
    kernel.kill(2)
    assert [kernel.kills.explains_one() for _ in range(3)] == [True, True, False]


def test_a_worker_that_is_forked_before_the_dead_one_is_gone_hides_nothing(kernel: Kernel) -> None:
    kernel.kill(1)
    kernel.kills.look()
    assert kernel.kills.explains_one()


def test_a_kill_of_somebody_else_is_no_cause_of_what_dies_later(kernel: Kernel) -> None:
    kernel.kill(1)
    kernel.kills.look()
    kernel.clock.advance(60_000)
    assert not kernel.kills.explains_one()


def will(transport: str) -> Will:
    return Will(("127.0.0.1", 1), "00" * 32, "job", 3, 0, {"certificates": transport})


def test_a_will_with_a_long_chain_of_certificates_has_room() -> None:
    page, long = _Page(), will("x" * 50_000)
    page.write(7, long)
    assert page.read() == (7, long)
    page.write(7, None)
    assert page.read() == (7, None) and b"xxx" not in page._memory[:]


def test_a_worker_that_dies_while_it_writes_does_not_silence_the_others() -> None:
    """The kernel kills whoever asks for memory: that may be at this very moment."""
    page = _Page()
    page._memory[:9] = b'[7, {"dri'
    assert page.read() == (0, None)


def test_a_worker_does_not_see_the_wills_of_others() -> None:
    witness = Witness()
    witness._before_fork()
    witness._before_fork()
    pid = os.fork()
    if pid == 0:
        witness._in_child()
        os._exit(len(witness._pages))
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert [page.read()[0] for page in witness._pages] == [0, pid]


def test_pages_of_workers_that_died_before_they_wrote_do_not_stay() -> None:
    witness = Witness()
    for number in range(200):
        witness._before_fork()
        if number % 50 == 0:
            witness.leave(will(str(number)))
    owners = [page.read()[1] for page in witness._pages]
    assert [each.transport["certificates"] for each in owners if each] == ["0", "50", "100", "150"]
    assert len(owners) < 30


def test_only_a_worker_that_crashed_leaves_its_crash_log(tmp_path: Path) -> None:
    """Spark reads it. An idle one that ends, and one that Spark has killed, leave none."""
    program = """
import os, signal, sys, time
from pathlib import Path
from penstock.spark import witness
witness.install()
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
for end in ("is idle", "is destroyed", "crashes"):
    crash_logs, begins = Path(os.environ["PYTHON_FAULTHANDLER_DIR"]), os.pipe()
    pid = os.fork()
    if pid == 0:
        os.read(begins[0], 1)
        os._exit(0)
    (crash_logs / str(pid)).touch()
    if end == "is idle":
        os.write(begins[1], b"!")
    elif end == "is destroyed":
        os.kill(pid, signal.SIGKILL)
    else:
        os.system(f"kill -9 {pid}")
    while Path(f"/proc/{pid}").exists():
        time.sleep(0.01)
print(pid)
"""
    ended = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHON_FAULTHANDLER_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert [path.name for path in tmp_path.iterdir()] == [ended.stdout.strip()]


@pytest.mark.parametrize(
    ("causes", "words"),
    [
        ([Death(5, signal.SIGKILL), Death(7, signal.SIGKILL, oom_kill=True)], "out-of-memory killer did"),
        ([Death(5, signal.SIGKILL), Death(7, 3 << 8)], "exit status 3"),
        ([Death(5, signal.SIGSEGV), Death(7, signal.SIGKILL, oom_kill=True)], "out-of-memory killer did"),
    ],
)
def test_of_several_deaths_the_cause_is_told(causes: list[Death], words: str) -> None:
    """Spark kills the workers that are left of a gang."""
    signs = LastSigns(has_witness=True)
    for slot, death in enumerate(causes):
        signs.died(SlotId(slot), death.to_text())
    error = str(signs.explain(WorkerDiedError("a Python worker of the job died")))
    assert words in error and "slot 1 was lost" in error
