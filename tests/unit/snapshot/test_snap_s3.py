"""Snapshots on an S3 server: the store contract, what is refused, and a whole job with a crash."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest
from flow_graphs import GRAPHS, SINKS, Pace, sink_of
from s3_server import s3_server

from penstock.common import Configuration
from penstock.coordinator.job_directory import job_directory
from penstock.core.clock import SystemClock
from penstock.core.errors import ConfigError
from penstock.datastream import StreamExecutionEnvironment
from penstock.snapshot.storage import SnapshotStore
from penstock.snapshot.store import open_store
from penstock.snapshot.verification import check_snapshot
from penstock.storage import remote
from penstock.storage.exclusive import create_remote
from penstock.testing.conformance.store_suite import StoreSuite
from penstock.testing.local import local_cluster
from tests.patience import PATIENCE_S
from tests.servers import skip_without


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    skip_without()
    with s3_server() as url:
        yield url


class TestSnapS3(StoreSuite):
    @pytest.fixture(autouse=True)
    def _use(self, bucket: str) -> None:
        self._bucket = bucket

    def new_store(self) -> SnapshotStore:
        return open_store(f"{self._bucket}/{uuid.uuid4().hex}")


def test_snap_s3_creation_is_exclusive_without_looking_first(bucket: str) -> None:
    """Two drivers that both saw no file: the server decides, and the first one's bytes stay."""
    place = f"{bucket}/race"
    fs, root = fsspec.url_to_fs(place)
    for name, first in (("journal/0000000001.json", b"first"), ("empty", b"")):
        assert create_remote(fs, f"{root}/{name}", first)
        assert not create_remote(fs, f"{root}/{name}", b"second")
        assert SnapshotStore(place).read(name) == first


def test_snap_s3_probe_leaves_nothing_behind(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "_proven", set())
    open_store(f"{bucket}/probed")
    fs, root = fsspec.url_to_fs(f"{bucket}/probed")
    assert fs.find(root) == []
    assert remote._proven


def test_snap_s3_server_that_ignores_the_condition_is_refused(
    bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client sends If-None-Match; a server that overlooks it overwrites. Here it is not sent."""
    import s3fs

    real = s3fs.S3FileSystem._call_s3

    async def without_condition(self, method, *args, **kwargs):
        kwargs.pop("IfNoneMatch", None)
        return await real(self, method, *args, **kwargs)

    monkeypatch.setattr(remote, "_proven", set())
    monkeypatch.setattr(s3fs.S3FileSystem, "_call_s3", without_condition)
    with pytest.raises(ConfigError, match="If-None-Match"):
        open_store(f"{bucket}/careless")


def test_snap_s3_missing_bucket_is_named_and_not_made(bucket: str) -> None:
    with pytest.raises(ConfigError, match="bucket"):
        open_store("s3://penstock-no-such-bucket/chk")
    import s3fs

    assert not s3fs.S3FileSystem().exists("penstock-no-such-bucket")


def test_snap_s3_job_survives_a_crash(bucket: str, tmp_path: Path) -> None:
    """State files and journal on S3; a slot is killed; the output is exact and the bucket empty."""
    settings = {
        "execution.checkpointing.interval": "100 ms",
        "execution.checkpointing.dir": f"{bucket}/chk",
        "execution.checkpointing.data-inline-threshold": "0 b",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "5",
        "restart-strategy.fixed-delay.delay": "5 ms",
    }
    count, gate = 600, tmp_path / "gate"
    with local_cluster(slots=2) as launcher:
        env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
        env.set_parallelism(2)
        build, golden = GRAPHS["keyed"]
        make_sink, read = SINKS[sink_of("keyed")]
        build(env, lambda: make_sink(tmp_path / "out"), count, Pace(4000.0, gate))
        client = env.execute_async("on s3")
        (job,) = launcher.jobs
        clock = SystemClock()
        deadline = clock.monotonic() + PATIENCE_S
        while job.facts()["checkpoints"] < 2:
            assert clock.monotonic() < deadline
            time.sleep(0.01)
        checked = list(check_snapshot(f"{bucket}/chk/{job_directory('on s3')}"))
        assert any(file.name.endswith(".state") for file in checked)
        launcher.clusters[-1].kill(1)
        gate.touch()
        client.get_job_execution_result().result(PATIENCE_S)
        assert job.driver.restarts == 1
        assert job.coordinator._restored is not None
    assert read(tmp_path / "out") == golden(count)
    assert open_store(f"{bucket}/chk", create=False).list() == []
