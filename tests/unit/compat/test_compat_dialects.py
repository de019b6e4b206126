"""Both dialects: what 1.x programs say, what 2.x programs say, and what neither needs to say here."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from compat_rig import environment, results

import penstock.datastream._ported as ported
from penstock.common import Configuration, ExecutionMode, RestartStrategies, Time, WatermarkStrategy
from penstock.connectors.builtin.collection import CollectionSource
from penstock.connectors.builtin.driver_output import PrintSink
from penstock.core import options
from penstock.core.errors import ConfigError
from penstock.datastream import (
    CheckpointingMode,
    CustomCheckpointStorage,
    CustomStateBackend,
    EmbeddedRocksDBStateBackend,
    ExternalizedCheckpointCleanup,
    ExternalizedCheckpointRetention,
    FileSystemCheckpointStorage,
    FsStateBackend,
    HashMapStateBackend,
    JobManagerCheckpointStorage,
    MemorySize,
    MemoryStateBackend,
    RocksDBStateBackend,
    SinkFunction,
    SlotSharingGroup,
    SourceFunction,
    StreamExecutionEnvironment,
    TimeCharacteristic,
)
from penstock.testing.local import local_cluster


@pytest.fixture(autouse=True)
def _cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(ported, "_said", set())
    monkeypatch.setattr(ported.PortedSettings, "_local_parallelism", None)
    with local_cluster(slots=2):
        yield


def set_up(env: StreamExecutionEnvironment, option: Any) -> Any:
    return env.configuration().get(option)


# --- what is not needed -------------------------------------------------------------------------

SUPERFLUOUS: list[Any] = [
    lambda env: env.add_jars("file:///a.jar", "file:///b.jar"),
    lambda env: env.add_classpaths("file:///a.jar"),
    lambda env: env.register_cached_file("/a", "a"),
    lambda env: env.enable_changelog_state_backend(True),
    lambda env: env.register_slot_sharing_group(SlotSharingGroup.builder("g").build()),
    lambda env: env.register_type("a.B"),
    lambda env: env.register_type_with_kryo_serializer("a.B", "a.C"),
    lambda env: env.add_default_kryo_serializer("a.B", "a.C"),
]


@pytest.mark.parametrize("call", SUPERFLUOUS)
def test_what_is_not_needed_is_accepted_and_says_so_once(call: Any, caplog: Any) -> None:
    with caplog.at_level(logging.WARNING, "penstock"):
        call(environment())
        call(environment())
    assert len(caplog.records) == 1


def test_the_python_executable_is_a_setting() -> None:
    env = environment()
    env.set_python_executable("/opt/python")
    assert set_up(env, options.PYTHON_EXECUTABLE) == "/opt/python"


# --- settings: setters of both dialects, and keys -----------------------------------------------


def test_the_execution_config_and_the_environment_are_one() -> None:
    env = environment()
    env.get_config().set_parallelism(3).set_auto_watermark_interval(50)
    assert env.get_parallelism() == 3
    assert set_up(env, options.AUTO_WATERMARK_INTERVAL) == 50
    env.set_max_parallelism(64)
    assert env.get_config().get_max_parallelism() == 64


def test_time_characteristics_of_1x() -> None:
    env = environment()
    assert env.get_stream_time_characteristic() is TimeCharacteristic.EventTime
    env.set_stream_time_characteristic(TimeCharacteristic.ProcessingTime)
    assert env.get_stream_time_characteristic() is TimeCharacteristic.ProcessingTime
    assert env.get_config().get_auto_watermark_interval() == 0
    env.set_stream_time_characteristic(TimeCharacteristic.EventTime)
    assert env.get_config().get_auto_watermark_interval() == 200
    with pytest.raises(ConfigError, match="TimeCharacteristic is wanted"):
        env.set_stream_time_characteristic("EventTime")  # type: ignore[arg-type]


def test_checkpoint_retention_under_its_old_and_new_name() -> None:
    assert ExternalizedCheckpointCleanup is ExternalizedCheckpointRetention
    config = environment().enable_checkpointing(1000, CheckpointingMode.AT_LEAST_ONCE).get_checkpoint_config()
    keep = ExternalizedCheckpointCleanup.RETAIN_ON_CANCELLATION
    config.enable_externalized_checkpoints(keep)
    assert config.get_externalized_checkpoint_retention() is keep
    config.set_externalized_checkpoint_cleanup(ExternalizedCheckpointCleanup.DELETE_ON_CANCELLATION)
    assert config.get_externalized_checkpoint_cleanup().name == "DELETE_ON_CANCELLATION"


def test_checkpoint_storage_by_object_by_path_and_by_key() -> None:
    env = environment()
    config = env.get_checkpoint_config()
    assert isinstance(config.get_checkpoint_storage(), JobManagerCheckpointStorage)
    config.set_checkpoint_storage(FileSystemCheckpointStorage("file:///a"))
    config.set_checkpoint_storage_dir("file:///b")
    found = config.get_checkpoint_storage()
    assert isinstance(found, FileSystemCheckpointStorage) and found.get_checkpoint_path() == "file:///b"
    env.configure(Configuration.from_dict({"execution.checkpointing.dir": "file:///c"}))
    assert config.get_checkpoint_storage().get_checkpoint_path() == "file:///c"  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("backend", "kind", "directory"),
    [
        (MemoryStateBackend(savepoint_path="/s"), HashMapStateBackend, None),
        (FsStateBackend("/d", "/s"), HashMapStateBackend, "/d"),
        (RocksDBStateBackend("/d", True), EmbeddedRocksDBStateBackend, "/d"),
        (
            RocksDBStateBackend(checkpoint_stream_backend=FsStateBackend("/d")),
            EmbeddedRocksDBStateBackend,
            "/d",
        ),
    ],
)
def test_state_backends_of_1x_choose_backend_and_storage(backend: Any, kind: type, directory: Any) -> None:
    env = environment().set_state_backend(backend)
    assert isinstance(env.get_state_backend(), kind)
    assert set_up(env, options.CHECKPOINT_DIR) == directory


def test_restart_strategies_by_object_and_by_key() -> None:
    env = environment()
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(4, Time.seconds(2)))
    assert env.get_restart_strategy() == env.get_config().get_restart_strategy()
    assert set_up(env, options.RESTART_TYPE) == "fixed-delay"
    assert env.configuration().get_integer("restart-strategy.fixed-delay.attempts", 0) == 4
    env.set_restart_strategy(RestartStrategies.failure_rate_restart(2, timedelta(minutes=1), 500))
    assert set_up(env, options.RESTART_TYPE) == "failure-rate"


def test_savepoint_directory_and_local_parallelism() -> None:
    env = environment()
    env.set_default_savepoint_directory("file:///s")
    assert env.get_default_savepoint_directory() == "file:///s"
    assert env.get_default_local_parallelism() == 2, "as many as there are slots"
    env.set_default_local_parallelism(1)
    assert StreamExecutionEnvironment.get_execution_environment().get_parallelism() == 1


def test_old_execution_modes_are_kept() -> None:
    config = environment().get_config()
    assert config.get_execution_mode() is ExecutionMode.PIPELINED
    assert config.set_execution_mode(ExecutionMode.BATCH).get_execution_mode() is ExecutionMode.BATCH


# --- slots --------------------------------------------------------------------------------------


def test_slot_sharing_groups_and_memory_sizes() -> None:
    builder = SlotSharingGroup.builder("g").set_cpu_cores(1.5).set_task_heap_memory_mb(3)
    group = builder.set_managed_memory(MemorySize(2048)).set_external_resource("gpu", 1.0).build()
    assert group.get_name() == "g" and group.get_cpu_cores() == 1.5
    assert group.get_task_heap_memory() == MemorySize.of_mebi_bytes(3) > MemorySize(1)
    assert group.get_managed_memory().get_kibi_bytes() == 2  # type: ignore[union-attr]
    assert group.get_task_off_heap_memory() == MemorySize(0), "as PyFlink 2.3.0"
    assert group.get_external_resources() == {"gpu": 1.0}
    assert results(environment().from_collection([1]).map(str).slot_sharing_group(group)) == ["1"]


# --- sources and sinks of 1.x -------------------------------------------------------------------


@pytest.mark.parametrize("wrap", [lambda source: source, SourceFunction])
def test_add_source_takes_our_sources_wrapped_or_not(wrap: Any) -> None:
    assert results(environment().add_source(wrap(CollectionSource([1, 2])), "mine")) == [1, 2]


@pytest.mark.parametrize("wrap", [lambda sink: sink, SinkFunction])
def test_add_sink_takes_our_sinks_wrapped_or_not(wrap: Any, capsys: Any) -> None:
    env = environment()
    env.from_collection([1]).add_sink(wrap(PrintSink("mine")))
    env.execute()
    assert capsys.readouterr().out == "mine> 1\n"


def test_read_text_file(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    assert results(environment().read_text_file(str(tmp_path))) == ["one", "two"]


@pytest.mark.parametrize("kind", [SourceFunction, SinkFunction, CustomStateBackend, CustomCheckpointStorage])
def test_what_wraps_java_says_what_to_use_instead(kind: Any) -> None:
    with pytest.raises(ConfigError, match="Java"):
        kind("org.apache.flink.Something")


# --- modules ------------------------------------------------------------------------------------


def test_programs_find_names_in_submodules_as_in_packages() -> None:
    pairs = [
        ("common", "time", "Time"),
        ("common", "typeinfo", "Types"),
        ("common", "watermark_strategy", "WatermarkStrategy"),
        ("common", "serialization", "SimpleStringSchema"),
        ("datastream", "functions", "MapFunction"),
        ("datastream", "output_tag", "OutputTag"),
        ("datastream", "window", "TimeWindow"),
        ("datastream", "time_characteristic", "TimeCharacteristic"),
        ("datastream", "checkpoint_config", "ExternalizedCheckpointCleanup"),
    ]
    for package, module, name in pairs:
        outer = importlib.import_module(f"penstock.{package}")
        inner = importlib.import_module(f"penstock.{package}.{module}")
        assert getattr(outer, name) is getattr(inner, name)
    assert WatermarkStrategy.no_watermarks() is not None
