"""Settings that are members of a class, given as something else: refused at once, with what was meant."""

import pytest

from penstock.common import Time
from penstock.core.errors import ConfigError
from penstock.datastream import KeyedProcessFunction, ProcessFunction, StreamExecutionEnvironment
from penstock.datastream.connectors.file_system import FileSource, StreamFormat
from penstock.datastream.connectors.kafka import KafkaSink
from penstock.datastream.connectors.number_seq import NumberSequenceSource
from penstock.datastream.state import StateTtlConfig
from penstock.datastream.window import GlobalWindows


def environment():
    return StreamExecutionEnvironment.get_execution_environment()


def checkpoints():
    return environment().get_checkpoint_config()


def numbers():
    return environment().from_collection([1])


def expiry():
    return StateTtlConfig.new_builder(Time.seconds(1))


@pytest.mark.parametrize(
    ("setting", "meant"),
    [
        (lambda: checkpoints().set_checkpointing_mode("exactly_once"), "CheckpointingMode.EXACTLY_ONCE"),
        (lambda: environment().enable_checkpointing(10, "AT_LEAST_ONCE"), "CheckpointingMode.AT_LEAST_ONCE"),
        (
            lambda: checkpoints().set_externalized_checkpoint_retention("retain-on-cancellation"),
            "ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION",
        ),
        (lambda: checkpoints().set_externalized_checkpoint_cleanup("no"), "one of DELETE_ON_CANCELLATION"),
        (lambda: environment().set_runtime_mode("BATCH"), "RuntimeExecutionMode.BATCH"),
        (
            lambda: environment().set_stream_time_characteristic("EventTime"),
            "TimeCharacteristic.EventTime",
        ),
        (lambda: environment().set_state_backend("rocksdb"), "a StateBackend is wanted, not 'rocksdb'"),
        (lambda: environment().set_restart_strategy("none"), "a RestartStrategyConfiguration is wanted"),
        (lambda: expiry().set_update_type("OnReadAndWrite"), "UpdateType.OnReadAndWrite"),
        (lambda: expiry().set_state_visibility(None), "one of "),
        (lambda: expiry().set_ttl_time_characteristic("ProcessingTime"), "ProcessingTime"),
        (
            lambda: KafkaSink.builder().set_delivery_guarantee("exactly-once"),
            "DeliveryGuarantee.EXACTLY_ONCE",
        ),
    ],
)
def test_a_setting_of_the_wrong_class_is_refused_where_it_is_made(setting, meant):
    with pytest.raises(ConfigError) as refused:
        setting()
    assert "is wanted, not" in str(refused.value) and meant in str(refused.value)


@pytest.mark.parametrize(
    ("step", "kind"),
    [
        (lambda: environment().from_source(NumberSequenceSource(1, 2), None, "s"), "WatermarkStrategy"),
        (lambda: numbers().assign_timestamps_and_watermarks(lambda value, _: value), "WatermarkStrategy"),
        (lambda: numbers().key_by(str).window(Time.seconds(1)), "WindowAssigner"),
        (lambda: numbers().window_all(GlobalWindows), "WindowAssigner"),
        (lambda: numbers().union([numbers()]), "DataStream"),
        (lambda: numbers().connect(None), "DataStream"),
        (lambda: numbers().map(str).get_side_output("late"), "OutputTag"),
    ],
)
def test_an_argument_of_the_wrong_class_is_refused_where_the_step_is_written(step, kind):
    with pytest.raises(ConfigError, match=f"a {kind} is wanted"):
        step()


class _OfOneKey(KeyedProcessFunction):
    def process_element(self, value, ctx):
        yield value


class _OfAll(ProcessFunction):
    def process_element(self, value, ctx):
        yield value


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: environment().execute(5), "a str is wanted, not 5"),
        (lambda: numbers().name(5), "a str is wanted, not 5"),
        (lambda: numbers().uid(5), "a str is wanted, not 5"),
        (lambda: environment().from_collection(5), "a collection is wanted, not 5: give a list"),
        (lambda: numbers().process(_OfOneKey()), r"call key_by\(\) on the stream before"),
        (lambda: numbers().process(_OfAll), "the class; add brackets"),
        (
            lambda: FileSource.for_record_stream_format(StreamFormat.text_line_format(), ["a", "b"]),
            "give several as several arguments",
        ),
    ],
)
def test_arguments_of_another_class_are_refused_with_the_way_out(call, said):
    with pytest.raises(ConfigError, match=said):
        call()
