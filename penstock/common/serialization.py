"""PyFlink's ``common.serialization``: records to bytes and back.

Unlike in PyFlink these are real Python classes: derive from :class:`SerializationSchema` or
:class:`DeserializationSchema` for a format of your own.  Instances travel to the slots by pickling.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, Generic

from penstock.core.batch import Batch
from penstock.core.elsewhere import found_in
from penstock.core.errors import ConfigError
from penstock.core.render import java_text
from penstock.core.type_vars import IN, OUT
from penstock.core.typeinfo import RowTypeInfo, TypeInformation, Types

__all__ = [
    "BulkWriter",
    "BulkWriterFactory",
    "ByteArraySchema",
    "DeserializationSchema",
    "Encoder",
    "RowDataBulkWriterFactory",
    "RowFieldExtractorSchema",
    "SerializationSchema",
    "SimpleStringSchema",
]

ROW_SCHEMAS = {
    f"penstock.datastream.formats.{module}": f"{name}RowDeserializationSchema {name}RowSerializationSchema"
    for module, name in (("avro", "Avro"), ("csv", "Csv"), ("json", "Json"))
}
"""What stood here and in ``common`` before PyFlink 1.16, and programs still look for here."""
if not TYPE_CHECKING:  # else a typing error in any name would pass for one of these
    __getattr__ = found_in(__name__, {**ROW_SCHEMAS, "penstock.common": "typeinfo"})


class SerializationSchema(ABC, Generic[IN]):
    """Turns records into bytes, for sinks. ``serialize`` runs per record on the task's thread.

    >>> class Lines(SerializationSchema[str]):
    ...     def serialize(self, value: str) -> bytes:
    ...         return value.encode() + b";"
    >>> Lines().serialize("a")
    b'a;'
    """

    @abstractmethod
    def serialize(self, value: IN) -> bytes:
        """The bytes of one record."""


class DeserializationSchema(ABC, Generic[OUT]):
    """Turns bytes into records, for sources. ``deserialize`` runs per message on the task's thread.

    >>> class Number(DeserializationSchema[int]):
    ...     def deserialize(self, data: bytes) -> int | None:
    ...         return int(data) if data else None
    >>> Number().deserialize(b"12")
    12
    """

    @abstractmethod
    def deserialize(self, data: bytes) -> OUT | None:
        """The record of one message; ``None`` means the message holds none and is skipped."""

    def get_produced_type(self) -> TypeInformation | None:
        """The type of the records, ``None`` if they are plain Python objects."""
        return None


class SimpleStringSchema(SerializationSchema[object], DeserializationSchema[str]):
    """Text in a charset; of what is no text, ``str`` of it.

    >>> SimpleStringSchema().serialize("tea"), SimpleStringSchema().deserialize(b"tea")
    (b'tea', 'tea')
    """

    def __init__(self, charset: str = "UTF-8") -> None:
        self._charset = _known(charset)

    def serialize(self, value: object) -> bytes:
        return str(value).encode(self._charset)

    def deserialize(self, data: bytes) -> str:
        return data.decode(self._charset)

    def get_produced_type(self) -> TypeInformation:
        return Types.STRING()


class ByteArraySchema(SerializationSchema[bytes | bytearray | memoryview], DeserializationSchema[bytes]):
    """Bytes as they are.

    >>> ByteArraySchema().serialize(bytearray(b"tea"))
    b'tea'
    """

    def serialize(self, value: bytes | bytearray | memoryview) -> bytes:
        return bytes(value)

    def deserialize(self, data: bytes) -> bytes:
        return data

    def get_produced_type(self) -> TypeInformation:
        return Types.PRIMITIVE_ARRAY(Types.BYTE())


class RowFieldExtractorSchema(SerializationSchema):
    """One field of a row: for keys and topics. Bytes as they are, else its text; nothing for ``None``.

    Flink takes bytes only.
    """

    def __init__(self, field_index: int) -> None:
        if field_index < 0:
            raise ConfigError(f"Field index must be non-negative, got: {field_index}")
        self.field_index = field_index

    def serialize(self, value: Any) -> bytes:
        field = None if value is None else value[self.field_index]
        if isinstance(field, bytes | bytearray | memoryview):
            return bytes(field)
        return b"" if field is None else str(field).encode()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RowFieldExtractorSchema) and self.field_index == other.field_index

    def __hash__(self) -> int:
        return hash(self.field_index)


class Encoder:
    """Writes records to a file, one line each; for ``FileSink.for_row_format``.

    >>> Encoder.simple_string_encoder().encode_batch(["a", 2])
    b'a\\n2\\n'
    """

    def __init__(self, charset_name: str, type_info: TypeInformation | None = None) -> None:
        self._charset = _known(charset_name)
        self._type_info = type_info

    @staticmethod
    def simple_string_encoder(charset_name: str = "UTF-8") -> Encoder:
        """Lines of text: ``str(record)``, or Flink's rendering if the stream has a type."""
        return Encoder(charset_name)

    def typed(self, type_info: TypeInformation | None) -> Encoder:
        """The same encoder for a stream of ``type_info``; called by the sink's face."""
        return Encoder(self._charset, type_info)

    def encode(self, value: object, stream: BinaryIO) -> None:
        """Write one record."""
        stream.write(self.encode_batch([value]))

    def encode_batch(self, values: Sequence[object]) -> bytes:
        """The bytes of many records."""
        if not values:
            return b""
        kind = self._type_info
        lines = map(str, values) if kind is None else (java_text(v, kind, spaced=True) for v in values)
        return ("\n".join(lines) + "\n").encode(self._charset)


class BulkWriter(ABC):
    """Writes batches into one file of a bulk format. Used by one thread."""

    @abstractmethod
    def write(self, batch: Batch) -> None:
        """Take the records of a batch."""

    @abstractmethod
    def size(self) -> int:
        """Bytes written so far, for the rolling policy."""

    @abstractmethod
    def finish(self) -> None:
        """Complete the format (footers and such); must not close the stream."""


class BulkWriterFactory(ABC):
    """Makes a :class:`BulkWriter` for each new file. Travels to the slots by pickling."""

    @abstractmethod
    def create(self, stream: BinaryIO) -> BulkWriter:
        """A writer into ``stream``, which belongs to the caller."""


class RowDataBulkWriterFactory(BulkWriterFactory):
    """A factory that knows the type of its rows."""

    def __init__(self, row_type: RowTypeInfo) -> None:
        self._row_type = row_type

    def get_row_type(self) -> RowTypeInfo:
        """The type of the rows."""
        return self._row_type


def _known(charset: str) -> str:
    try:
        "".encode(charset)
    except LookupError:
        raise ConfigError(f"there is no charset {charset!r}; write for instance 'UTF-8'") from None
    return charset
