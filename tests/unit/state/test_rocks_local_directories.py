"""Nothing stays on disk: not after closing, not after forgetting, not after a killed process."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.core.errors import ConfigError
from penstock.state.keyed import KeyedState
from penstock.state.rocks.backend import RocksBackend
from penstock.state.rocks.database import PREFIX, RocksSettings, local_directory
from penstock.storage.work_place import default_base, sweep


def places(root: Path) -> list[Path]:
    return list(root.glob(f"{PREFIX}*"))


def opened(root: Path) -> KeyedState:
    state = KeyedState(RocksBackend(RocksSettings(str(root)), 128))
    state.table("t").put("k", 1)
    return state


def test_closed_or_forgotten_is_gone(tmp_path: Path) -> None:
    state = opened(tmp_path)
    assert len(places(tmp_path)) == 1
    state.close()
    assert not places(tmp_path)
    forgotten = opened(tmp_path)
    del forgotten
    gc.collect()
    assert not places(tmp_path)


def test_closing_needs_no_files(tmp_path: Path) -> None:
    state = opened(tmp_path)
    for key in range(1000):
        state.table("t").put(key, "x" * 100)
    state.table("t").flush()  # type: ignore[attr-defined]
    shutil.rmtree(places(tmp_path)[0])
    held = len(list(Path("/proc/self/fd").iterdir()))
    state.close()
    assert not places(tmp_path)
    assert len(list(Path("/proc/self/fd").iterdir())) < held, "the lock's file is closed all the same"


_CHILD = """
import sys
from penstock.state.rocks.backend import RocksBackend
from penstock.state.keyed import KeyedState
from penstock.state.rocks.database import RocksSettings
state = KeyedState(RocksBackend(RocksSettings(sys.argv[1]), 128))
state.table("t").put("k", 1)
state.checkpoint()
print("ready", flush=True)
sys.stdin.read()
"""


def test_what_a_killed_process_left_is_swept(tmp_path: Path) -> None:
    command, pipe = [sys.executable, "-c", _CHILD, str(tmp_path)], subprocess.PIPE
    child = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
    assert child.stdin is not None and child.stdout is not None and child.stdout.readline() == "ready\n"
    assert len(places(tmp_path)) == 1
    sweep(tmp_path, PREFIX)
    assert len(places(tmp_path)) == 1, "its process lives"
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    child.stdin.close()
    child.stdout.close()
    mine = local_directory(str(tmp_path))
    assert places(tmp_path) == [mine.path]
    mine.remove()
    assert not places(tmp_path)


def test_where_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path}/a,{tmp_path}/b")
    assert default_base() == tmp_path / "a"


def test_a_place_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="state.backend.rocksdb.localdir"):
        local_directory(str(tmp_path / "file"))
