"""From messages to records: by their values alone, or by all there is to a message."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from penstock.connectors.decoding import Records
from penstock.formats.bad_records import deserialized
from penstock.formats.value_format import SchemaFormat, as_format


class KafkaRecord(NamedTuple):
    """A message as a :class:`RecordSchema` sees it."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    """In milliseconds; -1 if the message has none."""
    key: bytes | None
    value: bytes | None
    """``None`` in a message that says that its key is deleted."""
    headers: tuple[tuple[str, bytes | None], ...]


class RecordSchema(Protocol):
    """Makes records of whole messages."""

    def deserialize(self, record: KafkaRecord) -> Any:
        """The record of one message; ``None`` means that it holds none and is skipped."""
        ...


class MessageDecoder(ABC):
    """Decodes many messages at once. Shipped to slots by pickling."""

    skips_none: bool

    @abstractmethod
    def select(self, messages: list[Any]) -> tuple[list[Any], list[Any]]:
        """The messages that hold a record, and what ``decode`` needs of each."""

    @abstractmethod
    def decode(self, items: list[Any]) -> Records:
        """One record per item; :class:`DecodeError` with the place of a bad one."""

    @abstractmethod
    def produced_type(self) -> Any | None:
        """Type information of the records, if known."""


class ValueDecoder(MessageDecoder):
    """Decodes values; messages without one (deletions in compacted topics) are left out."""

    def __init__(self, schema: Any) -> None:
        self._schema = schema
        self._format = as_format(schema)
        self.skips_none = self._format.skips_none

    def select(self, messages: list[Any]) -> tuple[list[Any], list[Any]]:
        values = [message.value() for message in messages]
        if None in values:
            messages = [m for m, value in zip(messages, values, strict=True) if value is not None]
            values = [value for value in values if value is not None]
        return messages, values

    def decode(self, items: list[Any]) -> Records:
        if isinstance(self._format, SchemaFormat) and self._format.is_by_value:
            return self._format.decode_each(items)
        return self._format.decode(pa.array(items, pa.binary()))

    def produced_type(self) -> Any | None:
        produced = getattr(self._schema, "get_produced_type", None)
        return None if produced is None else produced()


class RecordDecoder(MessageDecoder):
    """Decodes whole messages, one at a time."""

    skips_none = True

    def __init__(self, schema: RecordSchema) -> None:
        self._schema = schema

    def select(self, messages: list[Any]) -> tuple[list[Any], list[Any]]:
        return messages, [_record(message) for message in messages]

    def decode(self, items: list[Any]) -> Records:
        return deserialized(self._schema, items)

    def produced_type(self) -> Any | None:
        produced = getattr(self._schema, "get_produced_type", None)
        return None if produced is None else produced()


def _record(message: Any) -> KafkaRecord:
    return KafkaRecord(
        message.topic(),
        message.partition(),
        message.offset(),
        message.timestamp()[1],
        message.key(),
        message.value(),
        tuple(message.headers() or ()),
    )
