"""Options, configuration, execution config and restart strategies."""

import datetime as dt
import threading
from copy import deepcopy

import pytest

from penstock.common import ConfigOptions, Configuration, ExecutionConfig, RestartStrategies
from penstock.core import options
from penstock.core.config import find, resolve
from penstock.core.errors import ConfigError
from penstock.core.options import OPTIONS
from penstock.core.restart import ExponentialDelay, FailureRate, FixedDelay, NoRestart, restart_from_config

# --- options ---


def test_every_default_can_be_read():
    for option in OPTIONS.values():
        assert option.default is None or option.default_value() is not None
        assert option.doc.endswith(".")


def test_no_key_means_two_options():
    keys = [key for option in OPTIONS.values() for key in (option.key, *option.fallback_keys)]
    assert len(keys) == len(set(keys))


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("execution.checkpointing.interval", "10 s", 10_000),
        ("execution.checkpointing.interval", "1500", 1500),
        ("execution.checkpointing.mode", "at-least-once", "AT_LEAST_ONCE"),
        ("execution.checkpointing.unaligned", "TRUE", True),
        ("execution.checkpointing.data-inline-threshold", "1 mb", 1 << 20),
        ("restart-strategy.exponential-delay.jitter-factor", "0.5", 0.5),
        ("parallelism.default", "4", 4),
        ("pipeline.name", "job", "job"),
        ("spark.executor.memory", "4g", "4g"),
        ("table.exec.state.ttl", "1 h", "1 h"),
    ],
)
def test_resolve(key, text, value):
    assert resolve(key, text) == value


def test_the_longest_time_there_is_means_never():
    """As programs write it that want no periodic checkpoints; no clock of Python counts so far."""
    assert 0 < resolve("execution.checkpointing.interval", 2**63 - 1) / 1000 < threading.TIMEOUT_MAX
    assert resolve("pipeline.max-parallelism", "-1") == -1


@pytest.mark.parametrize(
    ("key", "text", "match"),
    [
        ("execution.checkpointing.mode", "twice", "EXACTLY_ONCE, AT_LEAST_ONCE"),
        ("execution.checkpointing.timeout", "soon", "execution.checkpointing.timeout.*'10 s'"),
        ("parallelism.default", "many", "whole number"),
        ("pipeline.operator-chaining", "yes", "true or false"),
        ("restart-strategy.exponential-delay.jitter-factor", "x", "not a number"),
        ("execution.checkpointing.intervall", "1 s", "did you mean 'execution.checkpointing.interval'"),
        ("zzz", "1", "docs/configuration.md"),
        ("parallelism.default", "-3", "'parallelism.default': -3 will not do; it is at least 1 and at most"),
        ("parallelism.default", "0", "at least 1"),
        ("pipeline.max-parallelism", "-7", "at most 32768, or -1 for none"),
        ("pipeline.max-parallelism", "100000", "at most 32768"),
        ("penstock.batch.max-rows", "0", "at least 1"),
        ("execution.checkpointing.max-concurrent-checkpoints", "0", "at least 1"),
        ("execution.checkpointing.num-retained", "0", "at least 1"),
        ("state.checkpoints.num-retained", "-1", "at least 1"),
        ("execution.checkpointing.interval", "0", "0 ms will not do; it is at least 1 ms"),
        ("execution.checkpointing.timeout", "0 s", "at least 1 ms"),
        ("execution.checkpointing.min-pause", -5, "-5 ms will not do; it is at least 0 ms"),
        ("penstock.channel.bytes", -1, "-1 bytes will not do"),
        ("penstock.slots.timeout", "0", "at least"),
        ("penstock.deploy.timeout", "0", "at least"),
        ("heartbeat.timeout", "0", "at least"),
        ("restart-strategy.exponential-delay.backoff-multiplier", "-2", "at least 1"),
        ("restart-strategy.exponential-delay.backoff-multiplier", "inf", "at most"),
        ("restart-strategy.exponential-delay.jitter-factor", "nan", "at least 0 and at most 1"),
    ],
)
def test_resolve_explains(key, text, match):
    with pytest.raises(ConfigError, match=match):
        resolve(key, text)


def test_defaults_of_the_engine():
    config = Configuration()
    assert config.get(options.HEARTBEAT_INTERVAL) == 10_000
    assert config.get(options.HEARTBEAT_TIMEOUT) == 50_000
    assert config.get(options.BATCH_MAX_ROWS) == 8192
    assert config.get(options.CHANNEL_BYTES) == 8 << 20
    assert config.get(options.SPARK_MASTER) is None
    assert config.get(options.SLOTS_TIMEOUT) == 120_000
    assert config.get(options.AUTO_WATERMARK_INTERVAL) == 200
    assert config.get(options.CHECKPOINT_INTERVAL) is None
    assert config.get(options.INLINE_THRESHOLD) == 20 << 10


def test_older_keys_are_read_and_replaced():
    config = Configuration.from_dict({"state.backend": "rocksdb"})
    assert config.get(options.STATE_BACKEND) == "rocksdb"
    assert config.has(options.STATE_BACKEND)
    config.set(options.STATE_BACKEND, "hashmap")
    assert config.to_dict() == {"state.backend.type": "hashmap"}


def test_check_names_what_was_let_pass_and_refuses_the_rest():
    given = {"spark.master": "x", "python.job-options.foo": "y", "heartbeat.interval": "1 s"}
    assert Configuration.from_dict(given).check() == {"python.job-options.foo"}
    assert find("blob.server.port") is None
    with pytest.raises(ConfigError, match="heartbeat.interval"):
        Configuration.from_dict({"heartbeat.intervals": "1 s"}).check()


# --- Configuration ---


def test_getters_and_setters():
    config = Configuration()
    config.set_string("s", "v").set_integer("i", 2).set_boolean("b", True).set_float("f", 0.5)
    config.set_bytearray("y", bytearray([1, 2]))
    assert config.get_string("s", "") == "v"
    assert config.get_integer("i", 0) == 2
    assert config.get_boolean("b", False) is True
    assert config.get_float("f", 0) == 0.5
    assert config.get_bytearray("y", bytearray()) == bytearray([1, 2])
    assert config.get_integer("none", 9) == 9
    assert config.get_string("i", "") == "2"
    assert config.key_set() == {"s", "i", "b", "f", "y"}
    with pytest.raises(ConfigError, match="'s'"):
        config.get_integer("s", 0)


def test_copies_dicts_and_equality():
    config = (
        Configuration.from_dict({"k1": "v1"})
        .set_integer("k2", 1)
        .set_float("k3", 1.2)
        .set_boolean("k4", True)
    )
    assert config.to_dict() == {"k1": "v1", "k2": "1", "k3": "1.2", "k4": "true"}
    target = {}
    config.add_all_to_dict(target)
    assert target == {"k1": "v1", "k2": 1, "k3": 1.2, "k4": True}
    for other in (Configuration(config), deepcopy(config)):
        assert other == config and hash(other) == hash(config)
        other.set_string("k1", "v2")
        assert other != config
    assert str(Configuration.from_dict({"k2": 1, "k1": "v1"})) == "{k1=v1, k2=1}"


def test_add_all_contains_and_remove():
    config = Configuration.from_dict({"a": "1"})
    config.add_all(Configuration.from_dict({"b": "2"}), "x_")
    assert config.contains_key("x_b") and not config.contains_key("b")
    assert config.remove_config("a") and not config.remove_config("a")


@pytest.mark.parametrize(
    ("text", "items"),
    [(None, []), ("", []), ("a;b;c", ["a", "b", "c"]), ("[a, b]", ["a", "b"]), ("- a\n- b", ["a", "b"])],
)
def test_parse_list_value(text, items):
    assert Configuration.parse_list_value(text) == items


def test_config_options_of_ones_own():
    count = ConfigOptions.key("my.count").int_type().default_value(3)
    name = ConfigOptions.key("my.name").string_type().no_default_value()
    config = Configuration()
    assert (config.get(count), config.get(name)) == (3, None)
    config.set_string("my.count", "5")
    assert config.get(count) == 5
    assert config.get(ConfigOptions.key("b").boolean_type().default_value(True)) is True


# --- ExecutionConfig ---


def test_execution_config_writes_settings():
    config = Configuration()
    execution = ExecutionConfig(config)
    assert (execution.get_parallelism(), execution.get_max_parallelism()) == (-1, -1)
    execution.set_parallelism(4).set_max_parallelism(256).set_auto_watermark_interval(50)
    execution.disable_auto_generated_uids()
    assert config.get(options.DEFAULT_PARALLELISM) == execution.get_parallelism() == 4
    assert config.get(options.MAX_PARALLELISM) == execution.get_max_parallelism() == 256
    assert config.get(options.AUTO_WATERMARK_INTERVAL) == execution.get_auto_watermark_interval() == 50
    assert config.get(options.AUTO_GENERATE_UIDS) is execution.has_auto_generated_uids_enabled() is False
    assert execution.set_parallelism(-1).get_parallelism() == -1
    for wrong in (0, -3):
        with pytest.raises(ConfigError):
            execution.set_parallelism(wrong)
    with pytest.raises(ConfigError, match="32768"):
        execution.set_max_parallelism(40_000)


@pytest.mark.parametrize(
    ("on", "off", "ask", "initially"),
    [
        ("enable_closure_cleaner", "disable_closure_cleaner", "is_closure_cleaner_enabled", True),
        ("enable_force_kryo", "disable_force_kryo", "is_force_kryo_enabled", False),
        ("enable_force_avro", "disable_force_avro", "is_force_avro_enabled", False),
        ("enable_object_reuse", "disable_object_reuse", "is_object_reuse_enabled", False),
        ("disable_generic_types", "enable_generic_types", "has_generic_types_disabled", False),
    ],
)
def test_kept_switches(on, off, ask, initially):
    execution = ExecutionConfig()
    assert getattr(execution, ask)() is initially
    assert getattr(getattr(execution, on)(), ask)() is True
    assert getattr(getattr(execution, off)(), ask)() is False


def test_kept_values_parameters_and_equality():
    execution = ExecutionConfig()
    assert execution.get_task_cancellation_interval() == 30_000
    assert execution.get_task_cancellation_timeout() == 180_000
    execution.set_task_cancellation_interval(1).set_task_cancellation_timeout(2)
    execution.set_latency_tracking_interval(3).set_use_snapshot_compression(True)
    assert execution.get_task_cancellation_interval() == 1
    assert execution.get_task_cancellation_timeout() == 2
    assert execution.get_latency_tracking_interval() == 3
    assert execution.is_use_snapshot_compression()
    execution.set_global_job_parameters({"hello": 1})
    assert execution.get_global_job_parameters() == {"hello": "1"}
    one, two = ExecutionConfig().set_parallelism(12), ExecutionConfig().set_parallelism(11)
    assert one != two and one == two.set_parallelism(12) and hash(one) == hash(two)


# --- restart strategies ---


def test_restart_defaults():
    assert restart_from_config(Configuration(), False) == NoRestart()
    assert restart_from_config(Configuration(), True) == ExponentialDelay(1000, 60_000, 1.5, 3_600_000, 0.1)


@pytest.mark.parametrize(
    ("settings", "policy"),
    [
        ({"restart-strategy.type": "off"}, NoRestart()),
        ({"restart-strategy": "fixed-delay"}, FixedDelay(1, 1000)),
        (
            {"restart-strategy.type": "fixeddelay", "restart-strategy.fixed-delay.attempts": 7},
            FixedDelay(7, 1000),
        ),
        ({"restart-strategy.type": "failure-rate"}, FailureRate(1, 60_000, 1000)),
        (
            {
                "restart-strategy.type": "exponential-delay",
                "restart-strategy.exponential-delay.attempts-before-reset-backoff": "8",
            },
            ExponentialDelay(1000, 60_000, 1.5, 3_600_000, 0.1, 8),
        ),
    ],
)
def test_restart_from_settings(settings, policy):
    assert restart_from_config(Configuration.from_dict(settings), True) == policy


@pytest.mark.parametrize(
    ("strategy", "policy"),
    [
        (RestartStrategies.no_restart(), NoRestart()),
        (RestartStrategies.fixed_delay_restart(4, 10_000), FixedDelay(4, 10_000)),
        (
            RestartStrategies.failure_rate_restart(5, dt.timedelta(seconds=10), "5 s"),
            FailureRate(5, 10_000, 5000),
        ),
        (
            RestartStrategies.exponential_delay_restart("1 s", "2 min", 2.0, "1 h", 0.2),
            ExponentialDelay(1000, 120_000, 2.0, 3_600_000, 0.2),
        ),
    ],
)
def test_strategy_survives_the_configuration(strategy, policy):
    config = Configuration()
    execution = ExecutionConfig(config).set_restart_strategy(strategy)
    config.check()
    assert restart_from_config(config, False) == policy
    assert execution.get_restart_strategy() == strategy
    assert strategy.get_description()


def test_fallback_restores_the_default():
    execution = ExecutionConfig().set_restart_strategy(RestartStrategies.no_restart())
    execution.set_restart_strategy(RestartStrategies.fall_back_restart())
    assert execution.get_restart_strategy() == RestartStrategies.fall_back_restart()
    fixed = RestartStrategies.fixed_delay_restart(4, 10_000)
    assert fixed.get_restart_attempts() == 4
    assert fixed.get_delay_between_attempts_interval() == dt.timedelta(seconds=10)
