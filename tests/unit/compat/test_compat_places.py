"""Import lines as programs write them, of 1.x and 2.x, and what the names of 1.x do."""

from __future__ import annotations

import importlib
from importlib import metadata

import pytest
from compat_rig import environment

import penstock
import penstock.common
import penstock.datastream.connectors as connectors
from penstock.common import Configuration, Types
from penstock.core import options
from penstock.core.errors import ConfigError, JobFailedError
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors import file_system, jdbc, kafka
from penstock.datastream.connectors.file_system import FileCompactStrategy, OutputFileConfig
from penstock.datastream.formats.json import JsonRowDeserializationSchema
from penstock.java_gateway import get_gateway
from penstock.testing.local import local_cluster
from penstock.util import java_utils
from penstock.util.api_stability_decorators import Deprecated, Public
from penstock.util.exceptions import JavaException

LINES = """
from pyflink.common import JsonRowDeserializationSchema, CsvRowSerializationSchema
from pyflink.common import Encoder, Types, WatermarkStrategy, SimpleStringSchema, RestartStrategies
from pyflink.common.serialization import JsonRowDeserializationSchema, JsonRowSerializationSchema
from pyflink.common.serialization import SimpleStringSchema, AvroRowSerializationSchema, Encoder
from pyflink.common.watermark_strategy import TimestampAssigner, WatermarkStrategy, Duration
from pyflink.common.constants import MAX_LONG_VALUE, MIN_LONG_VALUE
from pyflink.datastream import StreamExecutionEnvironment, TimeCharacteristic, MemoryStateBackend
from pyflink.datastream.stream_execution_environment import StreamExecutionEnvironment, RuntimeExecutionMode
from pyflink.datastream.stream_execution_environment import TimeCharacteristic, RestartStrategies
from pyflink.datastream.data_stream import DataStream, WatermarkStrategy, MapFunction, CloseableIterator
from pyflink.datastream.functions import RuntimeContext, ValueState, ValueStateDescriptor, MapStateDescriptor
from pyflink.datastream.functions import KeyedProcessFunction, TimeDomain, MetricGroup
from pyflink.datastream.window import TumblingEventTimeWindows, Time, Trigger, ReducingStateDescriptor
from pyflink.datastream.state import StateTtlConfig, Time, Types, ValueStateDescriptor
from pyflink.datastream.connectors import FlinkKafkaConsumer, FlinkKafkaProducer, Semantic, KafkaSource
from pyflink.datastream.connectors import FileSource, FileSink, StreamFormat, StreamingFileSink, RollingPolicy
from pyflink.datastream.connectors import JdbcSink, JdbcConnectionOptions, JdbcExecutionOptions
from pyflink.datastream.connectors import DeliveryGuarantee, NumberSequenceSource, OutputFileConfig, Encoder
from pyflink.datastream.connectors.kafka import DeliveryGuarantee, KafkaSource, KafkaSink, Types, Row
from pyflink.datastream.connectors.file_system import FileSink, Encoder, Duration, StreamingFileSink
from pyflink.datastream.connectors.number_seq import NumberSequenceSource, Source
from pyflink.datastream.formats.csv import CsvSchema, StreamFormat, BulkWriterFactory
from pyflink.datastream.async_retry_strategies import NO_RETRY_STRATEGY, AsyncRetryStrategy
from pyflink.java_gateway import get_gateway
from pyflink.util import java_utils
from pyflink.util.java_utils import get_j_env_configuration, to_jarray, load_java_class
from pyflink.util.exceptions import JavaException
from pyflink.util.api_stability_decorators import Public, PublicEvolving, Experimental, Internal, Deprecated
from pyflink.version import __version__
from pyflink.metrics import Counter, Meter, MetricGroup
""".strip().splitlines()


@pytest.mark.parametrize("line", LINES)
def test_an_import_line_runs_with_another_package(line: str) -> None:
    names: dict[str, object] = {}
    exec(line.replace("pyflink", "penstock"), names)
    asked = line.partition(" import ")[2].split(", ")
    assert [name for name in asked if name not in names] == []


def test_a_name_is_the_same_thing_wherever_it_is_had_from() -> None:
    assert connectors.KafkaSource is kafka.KafkaSource  # type: ignore[attr-defined]
    assert connectors.FileSink is file_system.FileSink  # type: ignore[attr-defined]
    assert connectors.JdbcSink is jdbc.JdbcSink  # type: ignore[attr-defined]
    for place in (penstock.common, penstock.common.serialization):
        assert place.JsonRowDeserializationSchema is JsonRowDeserializationSchema


@pytest.mark.parametrize("module", ["common", "common.serialization", "datastream.connectors"])
def test_a_name_that_is_nowhere_is_an_error(module: str) -> None:
    with pytest.raises(ImportError, match="cannot import name 'KafkaSorce'"):
        exec(f"from penstock.{module} import KafkaSorce")


@pytest.mark.parametrize("place", ["connectors.kafka", "connectors.file_system", "formats.json", "formats"])
def test_a_module_is_an_attribute_of_its_package_before_it_is_imported(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    package, _, name = f"penstock.datastream.{place}".rpartition(".")
    found = importlib.import_module(package)
    wanted = importlib.import_module(f"{package}.{name}")
    monkeypatch.delattr(found, name)
    assert getattr(found, name) is wanted


def test_the_version_is_where_pyflink_has_it() -> None:
    assert penstock.version.__version__ == penstock.__version__ == metadata.version("penstock")


def test_builders_under_the_names_that_pyflink_has() -> None:
    config = OutputFileConfig.OutputFileConfigBuilder().with_part_prefix("a").with_part_suffix(".txt").build()
    assert (config.get_part_prefix(), config.get_part_suffix()) == ("a", ".txt")
    strategy = FileCompactStrategy.Builder().enable_compaction_on_checkpoint(3).build()
    assert strategy.checkpoints == 3


# --- the settings behind an environment, as programs of 1.x reach for them ----------------------


def test_settings_by_way_of_java_are_those_of_the_environment() -> None:
    env = environment()
    config = Configuration(
        j_configuration=java_utils.get_j_env_configuration(env._j_stream_execution_environment)
    )
    config.set_integer("parallelism.default", 3)
    assert env.get_parallelism() == 3
    env.set_parallelism(2)
    assert config.get_integer("parallelism.default", 0) == 2


def test_a_configuration_of_another_is_a_copy_still() -> None:
    first = Configuration().set_string("pipeline.name", "a")
    Configuration(first).set_string("pipeline.name", "b")
    assert first.get(options.JOB_NAME) == "a"


@pytest.mark.parametrize(
    "call",
    [
        get_gateway,
        lambda: java_utils.to_jarray(None, []),
        lambda: java_utils.load_java_class("java.lang.String"),
        lambda: environment()._j_stream_execution_environment.getConfig(),
    ],
)
def test_java_itself_is_refused_with_the_way_out(call: object) -> None:
    with pytest.raises(ConfigError, match=r"no Java here: use .* docs/guides/pyflink.md"):
        call()  # type: ignore[operator]


def test_what_a_job_fails_with_is_caught_as_in_pyflink() -> None:
    env = environment()
    env.from_collection([0], type_info=Types.INT()).map(lambda n: 1 // n, output_type=Types.INT()).print()
    with local_cluster(slots=1), pytest.raises(JavaException) as caught:
        env.execute()
    assert isinstance(caught.value, JobFailedError)


def test_marks_of_stability_change_nothing() -> None:
    def function() -> int:
        return 1

    assert Public()(function) is function
    with pytest.warns(DeprecationWarning, match=r"function is deprecated since 1\.9\. Use another\."):
        assert Deprecated("1.9", "Use another.")(function) is function


def test_what_stands_for_javas_environment_can_be_shown() -> None:
    assert "JavaEnvironment" in repr(StreamExecutionEnvironment()._j_stream_execution_environment)
