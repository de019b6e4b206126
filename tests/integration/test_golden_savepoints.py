"""Savepoints of every format version ever written are restored, at any parallelism, to the golden output."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from penstock.common import Configuration
from penstock.datastream import StreamExecutionEnvironment
from penstock.snapshot.manifest import FORMAT_VERSION
from penstock.snapshot.recovery import read_manifest, verify_files
from penstock.snapshot.store import open_store
from penstock.testing.local import local_cluster

GOLDEN = Path(__file__).parents[1] / "golden"
sys.path.insert(0, str(GOLDEN))

from golden_job import build, read_lines  # noqa: E402

VERSIONS = range(1, FORMAT_VERSION + 1)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("parallelism", "backend"), [(1, "hashmap"), (2, "rocksdb"), (3, "hashmap")])
def test_every_format_is_restored(version: int, parallelism: int, backend: str, tmp_path: Path) -> None:
    golden = GOLDEN / f"format-{version}"
    shutil.copytree(golden / "savepoint", tmp_path / "savepoint")
    config = Configuration()
    config.set_string("execution.state-recovery.path", str(tmp_path / "savepoint"))
    config.set_string("state.backend.type", backend)
    config.set_string("pipeline.auto-watermark-interval", "5 ms")
    env = StreamExecutionEnvironment.get_execution_environment(config)
    build(env.set_parallelism(parallelism), tmp_path / "out", None)
    with local_cluster(slots=parallelism):
        env.execute("golden")
    assert read_lines(tmp_path / "out") == (golden / "expected.txt").read_text().splitlines()


@pytest.mark.parametrize("version", VERSIONS)
def test_the_golden_files_are_what_they_were(version: int) -> None:
    found = read_manifest(str(GOLDEN / f"format-{version}" / "savepoint"))
    assert found.manifest.format_version == version
    assert found.manifest.files(), "some state must be in files, not all inline"
    verify_files(open_store(found.location.root, create=False), found.manifest, checksums=True)
