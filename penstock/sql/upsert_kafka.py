"""The connector ``upsert-kafka``: a topic with one record per key, in which the last one holds.

A row that is gone leaves a record without a value.  Written again after a failure a record says the same, so
delivery at least once is exact for whoever reads the topic by key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from penstock.common.types import Row, RowKind
from penstock.datastream.connectors.base import DeliveryGuarantee
from penstock.datastream.connectors.kafka import KafkaRecordSerializationSchema, KafkaSink
from penstock.datastream.formats.json import JsonRowSerializationSchema
from penstock.sql.row_types import row_type


class UpsertRecords(KafkaRecordSerializationSchema):
    """Rows as records: the columns of the key as key, all columns as value, both as JSON objects."""

    def __init__(self, topic: str, schema: pa.Schema, key: Sequence[str]) -> None:
        self._topic = topic
        self._names = tuple(schema.names)
        self._key = tuple(key)
        self._values = JsonRowSerializationSchema(row_type(schema))
        self._keys = JsonRowSerializationSchema(row_type(pa.schema([schema.field(name) for name in key])))

    def topic(self, value: Any) -> str:
        return self._topic

    def key(self, value: Any) -> bytes | None:
        return self._keys.serialize(Row(**{name: value[name] for name in self._key}))

    def value(self, value: Any) -> bytes | None:
        if value.get_row_kind() in (RowKind.DELETE, RowKind.UPDATE_BEFORE):
            return None
        return self._values.serialize(Row(**{name: value[name] for name in self._names}))


class UpsertKafkaSink(KafkaSink):
    """Writes rows that replace each other by a key."""

    def __init__(self, key: tuple[str, ...], properties: Mapping[str, str], records: UpsertRecords) -> None:
        super().__init__(dict(properties), records.encoder(), DeliveryGuarantee.AT_LEAST_ONCE, None)
        self._upsert_key = key

    @property
    def upsert_key(self) -> tuple[str, ...]:
        """The columns by which rows replace each other."""
        return self._upsert_key
