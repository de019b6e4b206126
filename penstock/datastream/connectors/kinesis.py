"""Amazon Kinesis Data Streams under PyFlink's names, and a source with a builder as in Flink 2."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from penstock.common.serialization import DeserializationSchema, SerializationSchema
from penstock.common.watermark_strategy import AssignerWithPeriodicWatermarksWrapper
from penstock.connectors.kinesis.client import KinesisAccess
from penstock.connectors.kinesis.sink import (
    MOST_BYTES,
    MOST_RECORD_BYTES,
    MOST_RECORDS,
    KinesisSink,
    KinesisSinkSettings,
    any_key,
)
from penstock.connectors.kinesis.source import KinesisSettings, KinesisSource
from penstock.connectors.sink import Sink
from penstock.connectors.source import OnTruncated
from penstock.core.discreet import log_of
from penstock.core.errors import ConfigError
from penstock.datastream._wrappers import SourceFunction
from penstock.datastream.connectors._kinesis_properties import numbers_of, start_of, unknown_in
from penstock.formats.bad_records import Diverted, ErrorPolicy, OnError

__all__ = [
    "Diverted",
    "FlinkKinesisConsumer",
    "KinesisDeserializationSchema",
    "KinesisShardAssigner",
    "KinesisStreamsSink",
    "KinesisStreamsSinkBuilder",
    "KinesisStreamsSource",
    "KinesisStreamsSourceBuilder",
    "OnError",
    "PartitionKeyGenerator",
    "WatermarkTracker",
]
# PyFlink has these here, too, from its other modules.
__all__ += [
    "AssignerWithPeriodicWatermarksWrapper",
    "DeserializationSchema",
    "SerializationSchema",
    "Sink",
    "SourceFunction",
]

_log = log_of(__name__)


class KinesisShardAssigner:
    """Taken for PyFlink's sake: a shard goes to the subtask that has fewest."""

    @staticmethod
    def default_shard_assigner() -> KinesisShardAssigner:
        """Taken for PyFlink's sake."""
        return KinesisShardAssigner()

    @staticmethod
    def uniform_shard_assigner() -> KinesisShardAssigner:
        """Taken for PyFlink's sake."""
        return KinesisShardAssigner()


class KinesisDeserializationSchema:
    """PyFlink's wrapper of a Java class; there is no Java here, so it cannot be made."""

    def __init__(self, *_: object) -> None:
        raise ConfigError(
            "KinesisDeserializationSchema wraps a Java object; derive from DeserializationSchema in Python"
        )


class WatermarkTracker:
    """Taken for PyFlink's sake: watermarks of shards and subtasks are always brought together."""

    @staticmethod
    def job_manager_watermark_tracker(
        aggregate_name: str, log_accumulator_interval_millis: int = -1
    ) -> WatermarkTracker:
        """Taken for PyFlink's sake; to hold back fast shards use watermark alignment."""
        return WatermarkTracker()


class KinesisStreamsSource(KinesisSource):
    """Reads streams, exactly once. Made by :meth:`builder`."""

    @staticmethod
    def builder() -> KinesisStreamsSourceBuilder:
        """Begins a source."""
        return KinesisStreamsSourceBuilder()


class KinesisStreamsSourceBuilder:
    """Collects what a source needs: streams, a schema, and properties as Flink's connector has them."""

    def __init__(self) -> None:
        self._streams: list[str] = []
        self._schema: Any = None
        self._properties: dict[str, str] = {}
        self._bounded = False
        self._on_truncated = OnTruncated.ERROR
        self._policy = ErrorPolicy()

    def set_stream_arn(self, stream_arn: str) -> KinesisStreamsSourceBuilder:
        """The stream, by its ARN or its name."""
        return self.set_streams(stream_arn)

    def set_streams(self, *streams: str) -> KinesisStreamsSourceBuilder:
        """The streams, by names or ARNs."""
        self._streams = list(streams)
        return self

    def set_source_config(self, source_config: Any) -> KinesisStreamsSourceBuilder:
        """Properties: a dictionary or a ``Configuration``."""
        found = source_config if isinstance(source_config, Mapping) else source_config.to_dict()
        self._properties |= {str(name): str(value) for name, value in found.items()}
        return self

    def set_deserialization_schema(self, deserialization_schema: Any) -> KinesisStreamsSourceBuilder:
        """How bytes become records."""
        self._schema = deserialization_schema
        return self

    def set_kinesis_shard_assigner(self, assigner: KinesisShardAssigner) -> KinesisStreamsSourceBuilder:
        """Taken for Flink's sake."""
        return self

    def set_bounded(self, bounded: bool = True) -> KinesisStreamsSourceBuilder:
        """End with what has arrived when the job starts."""
        self._bounded = bounded
        return self

    def set_on_truncated(self, on_truncated: OnTruncated | str) -> KinesisStreamsSourceBuilder:
        """What to do if records are gone that were not read: ``"error"``, or ``"earliest"`` to go on."""
        self._on_truncated = OnTruncated(on_truncated)
        return self

    def set_on_error(self, on_error: OnError | str, divert_to: Any = None) -> KinesisStreamsSourceBuilder:
        """What to do with records that cannot be decoded."""
        self._policy = ErrorPolicy.of(on_error, divert_to)
        return self

    def build(self) -> KinesisStreamsSource:
        """The source."""
        if self._schema is None:
            raise ConfigError("a Kinesis source needs set_deserialization_schema()")
        for name in unknown_in(self._properties):
            _log.warning("%s: not a property of the Kinesis source, and not used", name)
        return KinesisStreamsSource(
            KinesisSettings(
                self._streams,
                self._schema,
                KinesisAccess(self._properties),
                start_of(self._properties),
                self._bounded,
                self._on_truncated,
                self._policy,
                **numbers_of(self._properties),
            )
        )


class FlinkKinesisConsumer(SourceFunction):
    """The 1.x face of :class:`KinesisStreamsSource`, for ``add_source``. ``streams``: a name, or a list."""

    def __init__(
        self,
        streams: str | Sequence[str],
        deserializer: DeserializationSchema,
        config_props: Mapping[str, Any],
    ) -> None:
        names = [streams] if isinstance(streams, str) else list(streams)
        builder = KinesisStreamsSource.builder().set_streams(*names).set_source_config(config_props)
        super().__init__(builder.set_deserialization_schema(deserializer).build())

    def set_shard_assigner(self, shard_assigner: KinesisShardAssigner) -> FlinkKinesisConsumer:
        """Taken for PyFlink's sake."""
        return self

    def set_periodic_watermark_assigner(self, periodic_watermark_assigner: Any) -> FlinkKinesisConsumer:
        """Refused: it takes a Java object."""
        raise ConfigError(
            "set_periodic_watermark_assigner() takes a Java object; call assign_timestamps_and_watermarks() "
            "on the stream, with a WatermarkStrategy"
        )

    def set_watermark_tracker(self, watermark_tracker: WatermarkTracker) -> FlinkKinesisConsumer:
        """Taken for PyFlink's sake."""
        return self


class PartitionKeyGenerator:
    """How a record gets its partition key, and so its shard."""

    def __init__(self, choose: Callable[[Any], str] | None = None) -> None:
        self.choose = choose

    @staticmethod
    def fixed() -> PartitionKeyGenerator:
        """One key for each subtask of the sink."""
        return PartitionKeyGenerator()

    @staticmethod
    def random() -> PartitionKeyGenerator:
        """A key by chance for each record."""
        return PartitionKeyGenerator(any_key)

    @staticmethod
    def of(choose: Callable[[Any], str]) -> PartitionKeyGenerator:
        """The key that a function makes of a record: records of one key go to one shard."""
        return PartitionKeyGenerator(choose)


class KinesisStreamsSink(KinesisSink):
    """Writes a stream, at least once. Made by :meth:`builder`."""

    @staticmethod
    def builder() -> KinesisStreamsSinkBuilder:
        """Begins a sink."""
        return KinesisStreamsSinkBuilder()


class KinesisStreamsSinkBuilder:
    """Collects what a sink needs."""

    def __init__(self) -> None:
        self._stream: str | None = None
        self._schema: SerializationSchema | None = None
        self._keys: PartitionKeyGenerator | None = None
        self._properties: dict[str, str] = {}
        self._fail_on_error = False
        self._most_records, self._most_bytes = MOST_RECORDS, MOST_BYTES
        self._most_record_bytes, self._longest_ms = MOST_RECORD_BYTES, 5000

    def set_stream_name(self, stream_name: str | Sequence[str]) -> KinesisStreamsSinkBuilder:
        """The stream, by its name or ARN."""
        self._stream = stream_name if isinstance(stream_name, str) else stream_name[0]
        return self

    def set_serialization_schema(self, serialization_schema: Any) -> KinesisStreamsSinkBuilder:
        """How records become bytes."""
        self._schema = serialization_schema
        return self

    def set_partition_key_generator(
        self, partition_key_generator: PartitionKeyGenerator
    ) -> KinesisStreamsSinkBuilder:
        """How records get their keys."""
        self._keys = partition_key_generator
        return self

    def set_fail_on_error(self, fail_on_error: bool) -> KinesisStreamsSinkBuilder:
        """Whether a record that Kinesis refuses fails the job, or is sent again. The default is again."""
        self._fail_on_error = fail_on_error
        return self

    def set_kinesis_client_properties(
        self, kinesis_client_properties: Mapping[str, Any]
    ) -> KinesisStreamsSinkBuilder:
        """``aws.region``, ``aws.endpoint``, ``aws.credentials.provider...``."""
        self._properties |= {str(name): str(value) for name, value in kinesis_client_properties.items()}
        return self

    def set_max_batch_size(self, max_batch_size: int) -> KinesisStreamsSinkBuilder:
        """Records in a call, 500 at most."""
        self._most_records = max_batch_size
        return self

    def set_max_in_flight_requests(self, max_in_flight_requests: int) -> KinesisStreamsSinkBuilder:
        """Taken for PyFlink's sake: a subtask has one call under way."""
        return self

    def set_max_buffered_requests(self, max_buffered_requests: int) -> KinesisStreamsSinkBuilder:
        """Taken for PyFlink's sake: a subtask gathers the records of one call."""
        return self

    def set_max_batch_size_in_bytes(self, max_batch_size_in_bytes: int) -> KinesisStreamsSinkBuilder:
        """Bytes in a call, 5 MiB at most."""
        self._most_bytes = max_batch_size_in_bytes
        return self

    def set_max_time_in_buffer_ms(self, max_time_in_buffer_ms: int) -> KinesisStreamsSinkBuilder:
        """How long a record waits for others."""
        self._longest_ms = max_time_in_buffer_ms
        return self

    def set_max_record_size_in_bytes(self, max_record_size_in_bytes: int) -> KinesisStreamsSinkBuilder:
        """Bytes in a record with its key; 1 MiB unless your stream takes more."""
        self._most_record_bytes = max_record_size_in_bytes
        return self

    def build(self) -> KinesisStreamsSink:
        """The sink."""
        if self._stream is None or self._schema is None or self._keys is None:
            raise ConfigError(
                "a Kinesis sink needs set_stream_name(), set_serialization_schema() and "
                "set_partition_key_generator()"
            )
        return KinesisStreamsSink(
            KinesisSinkSettings(
                self._stream,
                self._schema,
                KinesisAccess(self._properties),
                self._keys.choose,
                self._fail_on_error,
                self._most_records,
                self._most_bytes,
                self._most_record_bytes,
                self._longest_ms,
            )
        )
