"""The Kafka source under PyFlink's names, and the 1.x consumer on top of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from penstock.common.serialization import DeserializationSchema
from penstock.connectors.kafka.client import COMMIT_ON_CHECKPOINT, DISCOVERY_INTERVAL
from penstock.connectors.kafka.offsets import (
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaTopicPartition,
)
from penstock.connectors.kafka.reader import KafkaRecord
from penstock.connectors.kafka.source import KafkaSource, KafkaSourceBuilder
from penstock.connectors.source import Source
from penstock.core.errors import ConfigError
from penstock.core.typeinfo import TypeInformation
from penstock.datastream._wrappers import SourceFunction
from penstock.formats.bad_records import Diverted, OnError

__all__ = [
    "Diverted",
    "FlinkKafkaConsumer",
    "FlinkKafkaConsumerBase",
    "KafkaOffsetResetStrategy",
    "KafkaOffsetsInitializer",
    "KafkaRecord",
    "KafkaRecordDeserializationSchema",
    "KafkaSource",
    "KafkaSourceBuilder",
    "KafkaTopicPartition",
    "OnError",
]


class KafkaRecordDeserializationSchema(ABC):
    """Turns whole messages into records: derive from it, or use :meth:`value_only`."""

    value_schema: DeserializationSchema | None = None
    """Set if nothing but the value is needed."""

    @abstractmethod
    def deserialize(self, record: KafkaRecord) -> Any:
        """The record of one message, on the task's thread; ``None`` to skip it.

        A message that marks a key as deleted has a ``value`` of ``None``.
        """

    def get_produced_type(self) -> TypeInformation | None:
        """The type of the records, ``None`` if they are plain Python objects."""
        return None

    @staticmethod
    def value_only(deserialization_schema: DeserializationSchema) -> KafkaRecordDeserializationSchema:
        """Values alone; messages without one are skipped."""
        return _ValueOnly(deserialization_schema)


class _ValueOnly(KafkaRecordDeserializationSchema):
    def __init__(self, schema: DeserializationSchema) -> None:
        self.value_schema = schema

    def deserialize(self, record: KafkaRecord) -> Any:
        assert self.value_schema is not None
        return None if record.value is None else self.value_schema.deserialize(record.value)


class FlinkKafkaConsumerBase(SourceFunction):
    """The 1.x face of :class:`KafkaSource`, for ``add_source``."""

    def __init__(self, builder: KafkaSourceBuilder, schema: Any, properties: Mapping[str, Any]) -> None:
        self._builder = builder
        self._schema = schema
        self._properties = properties
        self.set_start_from_group_offsets()

    @property
    def source(self) -> Source:  # type: ignore[override]
        """The source that ``add_source`` reads."""
        return self._builder.build()

    def set_commit_offsets_on_checkpoints(self, commit_on_checkpoints: bool) -> FlinkKafkaConsumerBase:
        """Whether to commit offsets to the brokers when a checkpoint completes."""
        self._builder.set_property(COMMIT_ON_CHECKPOINT, commit_on_checkpoints)
        return self

    def set_start_from_earliest(self) -> FlinkKafkaConsumerBase:
        """Start at the first records that are there."""
        self._builder.set_starting_offsets(KafkaOffsetsInitializer.earliest())
        return self

    def set_start_from_latest(self) -> FlinkKafkaConsumerBase:
        """Start behind the last records."""
        self._builder.set_starting_offsets(KafkaOffsetsInitializer.latest())
        return self

    def set_start_from_timestamp(self, startup_offsets_timestamp: int) -> FlinkKafkaConsumerBase:
        """Start at the first records at or after a time in milliseconds."""
        self._builder.set_starting_offsets(KafkaOffsetsInitializer.timestamp(startup_offsets_timestamp))
        return self

    def set_start_from_group_offsets(self) -> FlinkKafkaConsumerBase:
        """Start where the group is; without that, as ``auto.offset.reset`` says. The default."""
        chosen = str(self._properties.get("auto.offset.reset", "latest")).upper()
        if chosen not in KafkaOffsetResetStrategy.__members__:
            raise ConfigError(f"auto.offset.reset is latest, earliest or none, not {chosen.lower()!r}")
        reset = KafkaOffsetResetStrategy[chosen]
        self._builder.set_starting_offsets(KafkaOffsetsInitializer.committed_offsets(reset))
        return self

    def disable_filter_restored_partitions_with_subscribed_topics(self) -> FlinkKafkaConsumerBase:
        """Restored partitions are always read on, whatever the topics are now."""
        return self

    def get_produced_type(self) -> TypeInformation | None:
        """The type of the records."""
        produced: TypeInformation | None = self._schema.get_produced_type()
        return produced


class FlinkKafkaConsumer(FlinkKafkaConsumerBase):
    """Reads topics (a name, or a list of them). New partitions are looked for if the properties say so."""

    def __init__(
        self,
        topics: str | list[str],
        deserialization_schema: DeserializationSchema,
        properties: Mapping[str, Any],
    ) -> None:
        builder = KafkaSource.builder().set_property(DISCOVERY_INTERVAL, -1).set_properties(properties)
        builder.set_topics(*([topics] if isinstance(topics, str) else topics))
        builder.set_value_only_deserializer(deserialization_schema)
        super().__init__(builder, deserialization_schema, properties)
