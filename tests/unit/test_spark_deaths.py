"""A lost worker has a cause: signal, exit status, memory, Spark's own reason.  No Spark is started."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from penstock.core.errors import ClusterError, ProcessLostError
from penstock.core.ids import SlotId
from penstock.spark import lost
from penstock.spark.failures import WorkerDiedError, translate
from penstock.spark.lost import LastSigns
from penstock.spark.witness import Death, Machine

MB = 1 << 20


def machine(tmp_path: Path, files: dict[str, str]) -> Machine:
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return Machine(tmp_path / "proc", tmp_path / "cgroup")


VERSION_2 = {
    "proc/self/cgroup": "0::/outer/inner\n",
    "proc/meminfo": "MemTotal:        4096 kB\nMemFree: 1 kB\n",
    "proc/vmstat": "nr_free_pages 1\noom_kill 7\n",
    "cgroup/memory.max": "max\n",
    "cgroup/outer/memory.max": "2097152\n",
    "cgroup/outer/inner/memory.max": "max\n",
    "cgroup/outer/inner/memory.events": "low 0\noom 4\noom_kill 2\noom_group_kill 0\n",
}
VERSION_1 = {
    "proc/self/cgroup": "5:cpu,cpuacct:/x\n4:memory:/docker/abc\n",
    "proc/vmstat": "oom_kill 7\n",
    "cgroup/memory/memory.limit_in_bytes": "1048576\n",
    "cgroup/memory/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n",
}
BOTH = {**VERSION_1, "proc/self/cgroup": "0::/user.slice\n4:memory:/docker/abc\n"}
CONTAINER = {
    "proc/self/cgroup": "0::/kubepods/of/the/host\n",
    "cgroup/memory.max": "2097152\n",
    "cgroup/memory.events": "oom_kill 2\n",
}


@pytest.mark.parametrize(
    ("files", "limit", "kills"),
    [
        (VERSION_2, 2 * MB, 2),
        (VERSION_1, MB, 3),
        (BOTH, MB, 3),
        (CONTAINER, 2 * MB, 2),
        ({"proc/vmstat": "oom_kill 7\n", "proc/meminfo": "MemTotal: 4096 kB\n"}, 4 * MB, 7),
        ({}, 0, 0),
    ],
)
def test_what_the_kernel_tells_of_memory(
    tmp_path: Path, files: dict[str, str], limit: int, kills: int
) -> None:
    here = machine(tmp_path, files)
    assert (here.limit_bytes(), here.oom_kills()) == (limit, kills)


def test_memory_of_this_process() -> None:
    assert Machine().used_bytes() > MB


@pytest.mark.parametrize(
    ("death", "words"),
    [
        (Death(7, 3 << 8), ["process (7)", "exit status 3", "os._exit()"]),
        (
            Death(7, signal.SIGKILL, 900 * MB, 1024 * MB, oom_kill=True),
            ["signal 9 (SIGKILL)", "the kernel's out-of-memory killer did that", "it used 900 MB of 1024 MB"],
        ),
        (Death(7, signal.SIGKILL, 90 * MB, 1024 * MB), ["SIGKILL", "90 MB of 1024 MB", "Somebody sent that"]),
        (Death(7, signal.SIGSEGV | 0x80), ["signal 11 (SIGSEGV)", "native code"]),
        (Death(7, signal.SIGTERM), ["signal 15 (SIGTERM)"]),
    ],
)
def test_how_a_process_died_in_words(death: Death, words: list[str]) -> None:
    text = str(Death.from_text(death.to_text()))
    for word in words:
        assert word in text
    assert ("out-of-memory killer did" in text) is death.oom_kill


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "ExecutorLostFailure (executor 1 exited caused by one of the running tasks) Reason: Command "
            "exited with code 137\nDriver stacktrace:",
            "Spark lost executor 1 of the job: Command exited with code 137. Signal 9 is what the kernel's "
            "out-of-memory killer sends",
        ),
        (
            "ExecutorLostFailure (executor 0 exited unrelated to the running tasks) Reason: Container marked "
            "as failed. Diagnostics: lost node\n",
            "executor 0 of the job: Container marked as failed. Diagnostics: lost node",
        ),
        (
            "Executor heartbeat timed out after 152 ms\n\tat org.apache",
            "Executor heartbeat timed out after 152 ms",
        ),
    ],
)
def test_sparks_own_reason_is_told(text: str, told: str) -> None:
    error = translate(RuntimeError(text), "python3")
    assert isinstance(error, ProcessLostError) and not isinstance(error, WorkerDiedError)
    assert told in str(error) and "\n" not in str(error)
    assert LastSigns(has_witness=True).explain(error) is error


CRASH = """org.apache.spark.SparkException: Python worker exited unexpectedly (crashed): Fatal Python error: \
Segmentation fault

Thread 0x00007f (most recent call first):
  File "/usr/lib/threading.py", line 331 in wait

Current thread 0x00007e (most recent call first):
  File "/job/mine.py", line 7 in crash
\tat org.apache
"""


def test_a_crash_says_where() -> None:
    signs = LastSigns(has_witness=True)
    signs.died(SlotId(1), Death(7, signal.SIGSEGV).to_text())
    text = str(signs.explain(translate(RuntimeError(CRASH), "python3")))
    assert "slot 1 was lost" in text and "SIGSEGV" in text
    assert 'Segmentation fault, File "/job/mine.py", line 7 in crash' in text and "threading" not in text


def died() -> Exception:
    return translate(RuntimeError("Python worker exited unexpectedly (crashed)\n\tat"), "python3")


def test_without_a_witness_the_last_memory_is_told_and_how_to_have_one() -> None:
    signs = LastSigns(has_witness=False)
    signs.registered(SlotId(1), "worker-7")
    signs.beat(SlotId(1), 512 * MB)
    assert "slot 1 on worker-7" in signs.lost(SlotId(1), "the peer closed the connection")
    error = signs.explain(died())
    assert isinstance(error, ProcessLostError)
    assert "it used 512 MB at its last heartbeat" in str(error)
    assert "spark.python.daemon.module" in str(error)


def test_a_witness_that_says_nothing_is_not_waited_for_forever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lost, "_WITNESS_S", 0.01)
    signs = LastSigns(has_witness=True)
    signs.died(SlotId(0), "words of another version")
    assert "a Python worker of the job died" in str(signs.explain(died()))
    other = ClusterError("the job's Spark job was cancelled")
    assert signs.explain(other) is other
