"""What getters say in a program that has set nothing: PyFlink 2.3.0's answers, on OpenJDK 17, but for a few.

Recorded by calling every getter of these classes there.  Those that fail in PyFlink itself are left out.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.common import Duration, Types, WatermarkStrategy
from penstock.core.errors import ConfigError
from penstock.datastream import (
    EmbeddedRocksDBStateBackend,
    FileSystemCheckpointStorage,
    JobManagerCheckpointStorage,
    StreamExecutionEnvironment,
    _ported,
)
from penstock.datastream.connectors.number_seq import NumberSequenceSource
from penstock.datastream.slot_sharing_group import MemorySize, SlotSharingGroup
from penstock.testing.local import local_cluster

ENVIRONMENT = {
    "get_buffer_timeout": 100,
    "get_checkpoint_interval": -1,
    "get_default_local_parallelism": 2,
    "get_default_savepoint_directory": None,
    "get_max_parallelism": -1,
    "get_parallelism": 2,
    "is_chaining_enabled": True,
    "is_changelog_state_backend_enabled": None,
    "is_force_unaligned_checkpoints": False,
    "is_unaligned_checkpoints_enabled": False,
}
EXECUTION = {
    "get_auto_watermark_interval": 200,
    "get_global_job_parameters": {},
    "get_latency_tracking_interval": 0,
    "get_max_parallelism": -1,
    "get_task_cancellation_interval": 30000,
    "get_task_cancellation_timeout": 180000,
    "has_auto_generated_uids_enabled": True,
    "is_closure_cleaner_enabled": True,
    "is_object_reuse_enabled": False,
    "is_use_snapshot_compression": False,
}
CHECKPOINTS = {
    "get_checkpoint_interval": -1,
    "get_checkpoint_timeout": 600000,
    "get_externalized_checkpoint_retention": "NO_EXTERNALIZED_CHECKPOINTS",
    "get_max_concurrent_checkpoints": 1,
    "get_min_pause_between_checkpoints": 0,
    "get_tolerable_checkpoint_failure_number": 0,
    "is_checkpointing_enabled": False,
    "is_externalized_checkpoints_enabled": False,
    "is_fail_on_checkpointing_errors": True,
    "is_force_unaligned_checkpoints": False,
    "is_unaligned_checkpoints_enabled": False,
}
ROCKSDB = {"get_number_of_transfer_threads": 4, "get_options": None, "get_predefined_options": "DEFAULT"}
FILES = {"get_min_file_size_threshold": 20480, "get_savepoint_path": None, "get_write_buffer_size": 4096}
MEMORY = {"get_checkpoint_path": None, "get_max_state_size": 5242880, "get_savepoint_path": None}

OURS = {
    "get_checkpointing_mode": "EXACTLY_ONCE",  # Flink: AT_LEAST_ONCE while checkpointing is off, then this
    "is_incremental_checkpoints_enabled": True,  # Flink: False
    "is_chaining_of_operators_with_different_max_parallelism_enabled": False,  # Flink: True
}
"""Where Penstock behaves in another way, and says so."""


@pytest.fixture
def env() -> Iterator[StreamExecutionEnvironment]:
    with local_cluster(slots=2):
        yield StreamExecutionEnvironment.get_execution_environment()


def said(thing: Any, getters: dict[str, Any]) -> dict[str, Any]:
    answers = {getter: getattr(thing, getter)() for getter in getters}
    return {getter: getattr(answer, "name", answer) for getter, answer in answers.items()}


def test_getters_give_the_defaults_of_pyflink(env: StreamExecutionEnvironment) -> None:
    assert said(env, ENVIRONMENT) == ENVIRONMENT
    assert said(env.get_config(), EXECUTION) == EXECUTION
    assert said(env.get_checkpoint_config(), CHECKPOINTS) == CHECKPOINTS
    assert said(EmbeddedRocksDBStateBackend(), ROCKSDB) == ROCKSDB
    assert said(FileSystemCheckpointStorage("file:///tmp/x"), FILES) == FILES
    assert said(JobManagerCheckpointStorage(), MEMORY) == MEMORY


def test_where_getters_differ_they_say_what_holds_here(env: StreamExecutionEnvironment) -> None:
    things = (env.get_checkpoint_config(), EmbeddedRocksDBStateBackend(), env)
    found = [said(thing, {getter: None}) for thing, getter in zip(things, OURS, strict=True)]
    assert {getter: answer for each in found for getter, answer in each.items()} == OURS


@pytest.mark.parametrize(
    "ask",
    [
        lambda group: group.set_cpu_cores(1.0),
        lambda group: group.set_task_heap_memory_mb(10),
        lambda group: group.set_cpu_cores(1.0).set_task_off_heap_memory_mb(10),
        lambda group: group.set_managed_memory_mb(10),
        lambda group: group.set_external_resource("gpu", 1.0),
    ],
)
def test_a_slot_sharing_group_that_asks_for_anything_asks_for_cores_and_heap(ask: Any) -> None:
    with pytest.raises(ConfigError, match="cores and task heap memory must be among them"):
        ask(SlotSharingGroup.builder("a")).build()


def test_slot_sharing_groups_that_pyflink_takes_and_refuses() -> None:
    plain = SlotSharingGroup.builder("").build()
    assert plain.get_cpu_cores() is plain.get_task_heap_memory() is plain.get_managed_memory() is None
    whole = SlotSharingGroup.builder("a").set_cpu_cores(1.0).set_task_heap_memory_mb(10)
    built = whole.set_external_resource("gpu", 0.0).build()
    assert built.get_task_off_heap_memory() == built.get_managed_memory() == MemorySize(0)
    assert built.get_external_resources() == {"gpu": 0.0}
    for wrong in (lambda: whole.set_cpu_cores(0.0), lambda: whole.set_task_heap_memory_mb(0)):
        with pytest.raises(ConfigError, match="above 0"):
            wrong()


def test_collecting_keeps_the_order_of_a_collection(env: StreamExecutionEnvironment) -> None:
    """As in PyFlink, where one subtask reads it and one collects, whatever the parallelism."""
    wanted = list(range(3000))
    with env.from_collection(wanted, Types.INT()).execute_and_collect() as found:
        assert list(found) == wanted
    one = env.from_collection(wanted, Types.INT()).map(lambda n: n, Types.INT()).set_parallelism(1)
    assert one.execute_and_collect(limit=3000) == wanted


def test_an_assigner_that_pyflink_would_ignore_is_said_once(
    env: StreamExecutionEnvironment, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_ported, "_said", set())
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(1))
    with caplog.at_level(logging.INFO):
        env.from_source(NumberSequenceSource(1, 2), strategy, "none")
        env.from_source(NumberSequenceSource(1, 2), strategy.with_timestamp_column("ts"), "no PyFlink")
        assert not caplog.messages
        strategy.with_timestamp_assigner(lambda value, _: value)
        for name in ("one", "other"):
            env.from_source(NumberSequenceSource(1, 2), strategy, name)
    assert len(caplog.messages) == 1 and "assigner given to from_source(): used" in caplog.text
