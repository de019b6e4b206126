"""A job under the widest umask: nothing that the engine writes can be read or changed by others."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from flow_graphs import GRAPHS, SINKS, Pace
from local_jobs import environment, finish, published, until, wait_for_snapshots

from penstock.state.rocks.database import PREFIX
from penstock.testing.local import local_cluster
from tests.patience import PATIENCE_S

COUNT, RATE = 900, 2500.0
GRAPH = "keyed"


@pytest.fixture(autouse=True)
def no_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def open_to_others(root: Path) -> list[str]:
    """What others could read or write. RocksDB makes its files itself, where nobody else gets in."""
    found: list[str] = []
    for directory, inner, names in os.walk(root):
        for path in (Path(directory) / name for name in [*inner, *names]):
            with suppress(FileNotFoundError):  # the job goes on
                mode = stat.S_IMODE(path.lstat().st_mode)
                found += [f"{mode:o} {path}"] if mode & 0o077 else []
        inner[:] = [name for name in inner if not name.startswith(PREFIX)]
    return found


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_checkpoints_savepoints_the_log_and_working_files(backend: str, tmp_path: Path) -> None:
    chosen = {
        "state__backend__type": backend,
        "state__backend__rocksdb__localdir": str(tmp_path / "disk"),
        "execution__checkpointing__externalized_checkpoint_retention": "RETAIN_ON_CANCELLATION",
    }
    gate = tmp_path / "gate"
    with local_cluster() as launcher:
        env = environment(tmp_path / "made" / "chk", **chosen).set_parallelism(2)
        GRAPHS[GRAPH][0](env, lambda: SINKS["log"][0](tmp_path / "log"), COUNT, Pace(RATE, gate))
        client = env.execute_async("private")
        wait_for_snapshots(launcher, 3)
        assert not open_to_others(tmp_path)
        if backend == "rocksdb":
            until(lambda: list((tmp_path / "disk").glob(f"{PREFIX}*")), "RocksDB works")
        client.trigger_savepoint(str(tmp_path / "elsewhere" / "savepoints")).result(PATIENCE_S)
        assert published(launcher) > 0 and not open_to_others(tmp_path)
        gate.touch(0o600)
        finish(client)
    assert not open_to_others(tmp_path)
    kept = {path.name for path in tmp_path.iterdir()}
    assert {"elsewhere", "log"} <= kept and len(list(tmp_path.rglob("*"))) > 10
