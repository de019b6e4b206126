"""Settings of Flink: all are known, those without a meaning are said once, a typing error is still one."""

from __future__ import annotations

import logging
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import penstock
import penstock.datastream._ported as ported
from penstock.common import Configuration
from penstock.core import options, security_options
from penstock.core.config import find
from penstock.core.errors import ConfigError
from penstock.core.flink_keys import INSTEAD, OPEN, flink_keys, instead_of, is_flinks
from penstock.core.options import OPTIONS
from penstock.datastream import MapFunction, RuntimeContext, StreamExecutionEnvironment
from penstock.testing.local import local_cluster

PACKAGE = Path(penstock.__file__).parent

TRIED = """
    akka.ask.timeout blob.server.port classloader.resolve-order client.timeout cluster.evenly-spread-out-slots
    env.java.opts.all execution.attached execution.batch-shuffle-mode execution.batch.speculative.enabled
    execution.buffer-timeout.enabled execution.checkpointing.cleaner.parallel-mode
    execution.checkpointing.file-merging.max-file-size execution.checkpointing.snapshot-compression
    execution.job-status-changed-listeners execution.sorted-inputs.enabled execution.target
    heartbeat.rpc-failure-threshold high-availability.type high-availability.zookeeper.quorum
    historyserver.web.port io.tmp.dirs jobmanager.memory.process.size jobmanager.rpc.address
    jobmanager.bind-host jobstore.cache-size kubernetes.cluster-id kubernetes.jobmanager.labels.app
    metrics.latency.interval metrics.reporter.prom.port metrics.reporters pekko.ask.timeout
    pipeline.auto-type-registration pipeline.cached-files pipeline.classpaths pipeline.closure-cleaner-level
    pipeline.force-kryo pipeline.generic-types pipeline.jobvertex-parallelism-overrides
    pipeline.serialization-config pipeline.time-characteristic pipeline.vertex-description-mode
    python.client.executable python.fn-execution.arrow.batch.size python.fn-execution.memory.managed
    python.map-state.read-cache-size python.metric.enabled python.operator-chaining.enabled
    python.profile.enabled python.systemenv.enabled queryable-state.enable resourcemanager.taskmanager-timeout
    rest.retry.delay rest.server.numThreads s3.access-key scheduler-mode security.kerberos.login.principal
    security.ssl.rest.truststore slot.request.timeout slotmanager.number-of-slots.max
    source.reader.element.queue.capacity state.backend.forst.memory.managed
    state.backend.rocksdb.block.cache-size state.backend.rocksdb.memory.managed
    state.backend.rocksdb.predefined-options state.backend.rocksdb.timer-service.factory
    state.changelog.enabled state.latency-track.keyed-state-enabled table.exec.state.ttl
    task.cancellation.interval taskmanager.memory.managed.fraction taskmanager.memory.process.size
    taskmanager.network.memory.buffers-per-channel taskmanager.numberOfTaskSlots web.submit.enable
    yarn.application.name zookeeper.sasl.disable
""".split()
"""From Flink's documentation, a few of every family."""


@pytest.fixture(autouse=True)
def _nothing_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ported, "_said", set())


def started_with(**settings: str) -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))


@pytest.mark.parametrize("key", TRIED)
def test_a_setting_without_a_meaning_is_taken_with_a_line_in_the_log(key: str, caplog: Any) -> None:
    with caplog.at_level(logging.WARNING, "penstock"):
        env = started_with(**{key: "1"})
        env.configuration()
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("settings of Flink that do nothing here: ") and key in line


def test_several_are_one_line_and_each_is_said_once(caplog: Any) -> None:
    with caplog.at_level(logging.WARNING, "penstock"):
        started_with(**{"rest.retry.delay": "1", "blob.server.port": "2"})
        started_with(
            **{"rest.retry.delay": "1", "taskmanager.numberOfTaskSlots": "2", "spark.ui.port": "4040"}
        )
    said = [record.getMessage().partition(": ")[2] for record in caplog.records]
    assert said == [
        "blob.server.port, rest.retry.delay (instead: rest.port, rest.bind-address)",
        "taskmanager.numberOfTaskSlots (instead: spark.executor.cores, or local[n] as penstock.spark.master)",
    ]


def test_of_ours_those_are_said_that_do_nothing(caplog: Any) -> None:
    with caplog.at_level(logging.WARNING, "penstock"):
        started_with(**{"python.fn-execution.bundle.size": "10", "parallelism.default": "2"})
    (record,) = caplog.records
    assert "python.fn-execution.bundle.size (instead: functions" in record.getMessage()
    assert "parallelism" not in record.getMessage()


def test_a_value_is_never_told(caplog: Any) -> None:
    with caplog.at_level(logging.WARNING, "penstock"):
        started_with(**{"s3.secret-key": "hush", "security.ssl.rest.keystore-password": "hush"})
    assert len(caplog.records) == 1 and "hush" not in caplog.text


@pytest.mark.parametrize(
    ("typo", "meant"),
    [
        ("paralelism.default", "parallelism.default"),
        ("taskmanager.memory.proces.size", "taskmanager.memory.process.size"),
        ("python.fn-execution.bundle.sise", "python.fn-execution.bundle.size"),
        ("execution.checkpointing.intervall", "execution.checkpointing.interval"),
        ("state.backend.rocksdb.local-dir", "state.backend.rocksdb.localdir"),
        ("rest.prt", "rest.port"),
        ("high-availability.typ", "high-availability.type"),
        ("restart-strategy.fixed-delay.attempt", "restart-strategy.fixed-delay.attempts"),
        ("pipeline.global-job-parameter", "pipeline.global-job-parameters"),
    ],
)
def test_a_typing_error_is_an_error_with_the_nearest_key(typo: str, meant: str) -> None:
    with pytest.raises(ConfigError, match="there is no setting") as error:
        started_with(**{typo: "1"})
    assert f"did you mean {meant!r}" in str(error.value)


OLDER = {
    "state.backend.fs.checkpointdir": options.CHECKPOINT_DIR,
    "state.checkpoints.dir": options.CHECKPOINT_DIR,
    "savepoints.state.backend.fs.dir": options.SAVEPOINT_DIR,
    "state.backend": options.STATE_BACKEND,
    "state.backend.incremental": options.CHECKPOINT_INCREMENTAL,
    "state.backend.fs.memory-threshold": options.INLINE_THRESHOLD,
    "restart-strategy": options.RESTART_TYPE,
    "execution.savepoint.path": options.RECOVERY_PATH,
    "execution.checkpointing.unaligned": options.UNALIGNED,
    "taskmanager.network.memory.max": options.NETWORK_MEMORY,
    "security.ssl.keystore": security_options.TLS_KEYSTORE,
    "security.ssl.truststore-password": security_options.TLS_TRUSTSTORE_PASSWORD,
}


@pytest.mark.parametrize("key", OLDER)
def test_an_older_key_of_flink_is_the_setting_that_replaced_it(key: str) -> None:
    assert is_flinks(key), "Flink itself still knows it"
    assert find(key) is OLDER[key]


def test_the_list_has_all_that_is_ours_from_flink() -> None:
    own = {"pipeline.watermark-stall-timeout", "pipeline.late-records-interval"}
    ours = {key for key in OPTIONS if not key.startswith("penstock.")}
    assert {key for key in ours - own if not key.startswith(OPEN)} <= flink_keys()
    assert len(flink_keys()) > 1000


def test_the_list_is_in_order_and_packaged() -> None:
    lines = (PACKAGE / "core" / "flink_keys.txt").read_text().splitlines()
    assert lines == sorted(set(lines))
    project = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text())
    patterns = project["tool"]["setuptools"]["package-data"]["penstock"]
    packed = {path for pattern in patterns for path in PACKAGE.glob(pattern)}
    assert [path for path in data_files() if path not in packed] == []
    assert PACKAGE / "core" / "flink_keys.txt" in packed


def data_files() -> Iterator[Path]:
    for path in PACKAGE.rglob("*"):
        if path.is_file() and path.suffix not in (".py", ".pyc"):
            yield path


def test_what_stands_instead_is_known_and_the_longest_beginning_counts() -> None:
    assert instead_of("taskmanager.memory.process.size") == INSTEAD["taskmanager.memory."]
    assert instead_of("taskmanager.memory.network.fraction") == "taskmanager.memory.network.max"
    assert instead_of("blob.server.port") is None
    named = {word.strip(",") for hint in INSTEAD.values() for word in hint.split() if "." in word}
    engines = {word for word in named if not word.startswith("spark.") and not word.endswith(".*")}
    assert [word for word in engines if find(word) is None] == []
    assert [word for word in INSTEAD if not any(key.startswith(word) for key in [*flink_keys(), *OPEN])] == []


# --- settings that do mean something ------------------------------------------------------------


@pytest.mark.parametrize("value", ["filesystem", "jobmanager", "HASHMAP", "hashmap"])
def test_backends_of_1x_by_name(value: str) -> None:
    assert started_with(**{"state.backend": value}).configuration().get(options.STATE_BACKEND) == "hashmap"


def test_a_backend_that_is_not_there_is_an_error() -> None:
    with pytest.raises(ConfigError, match="'forst' is none of hashmap, rocksdb"):
        started_with(**{"state.backend.type": "forst"})


class Greet(MapFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.parameter = runtime_context.get_job_parameter

    def map(self, value: int) -> str:
        return f"{self.parameter('a', '-')}{self.parameter('b', '-')}{self.parameter('c', '-')}"


@pytest.mark.parametrize(
    "settings",
    [
        {"pipeline.global-job-parameters": "a:1, b:x:y"},
        {"pipeline.global-job-parameters.a": "1", "pipeline.global-job-parameters.b": "x:y"},
        {"pipeline.global-job-parameters": "a:1,b:0", "pipeline.global-job-parameters.b": "x:y"},
    ],
)
def test_job_parameters_may_come_from_the_settings(settings: dict[str, str], caplog: Any) -> None:
    with local_cluster(slots=1), caplog.at_level(logging.WARNING, "penstock"):
        env = started_with(**settings)
        assert env.get_config().get_global_job_parameters() == {"a": "1", "b": "x:y"}
        assert list(env.from_collection([0]).map(Greet()).execute_and_collect()) == ["1x:y-"]
    assert not caplog.records


def test_job_parameters_of_the_program_replace_those_before() -> None:
    env = started_with(**{"pipeline.global-job-parameters": "a:1,b:2"})
    env.get_config().set_global_job_parameters({"b": True, "c": 3})
    assert env.get_config().get_global_job_parameters() == {"b": "True", "c": "3"}


def test_job_parameters_that_are_no_map_are_an_error() -> None:
    with pytest.raises(ConfigError, match="'a=1' is not a map; write a:1,b:2"):
        started_with(**{"pipeline.global-job-parameters": "a=1"})
