"""What goes into a part file: the contract of formats, and the row formats.

A :class:`PartFormat` makes one :class:`PartWriter` per file.  Row formats are made from an encoder that
has either ``encode_batch(values) -> bytes`` (preferred: one call per batch) or ``encode(value, stream)``,
and perhaps ``typed(type_info)`` to get an encoder that knows the stream's type.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, BinaryIO, Protocol

import numpy as np

from penstock.connectors.files.compact import ConcatFileCompactor
from penstock.core.batch import Batch
from penstock.core.errors import ConfigError
from penstock.core.row import Row
from penstock.core.typeinfo import TypeInformation

_BUFFERED_BYTES = 256 << 20
"""What all open files of a writer may hold back together."""


class PartWriter(Protocol):
    """Writes one file. ``finish`` is the last call; the stream is closed by the caller."""

    def write(self, batch: Batch) -> None:
        """Take the records of a batch."""
        ...

    def finish(self) -> None:
        """Write what is left, and a footer if the format has one."""
        ...


class PartFormat(Protocol):
    """Makes writers. Shipped to slots by pickling."""

    def create(self, stream: BinaryIO) -> PartWriter:
        """A writer of one file into ``stream``."""
        ...


def limit_buffers(writers: Sequence[PartWriter]) -> None:
    """Let writers that gather blocks write them out, if together they hold back too much."""
    blocks = [writer for writer in writers if hasattr(writer, "buffered_bytes")]
    if sum(writer.buffered_bytes for writer in blocks) > _BUFFERED_BYTES:
        for writer in blocks:
            writer.write_group()  # type: ignore[attr-defined]


class EncodedParts:
    """A row format: what the encoder makes of each record, one after the other."""

    def __init__(self, encoder: Any) -> None:
        if not (hasattr(encoder, "encode_batch") or hasattr(encoder, "encode")):
            raise ConfigError(
                f"a {type(encoder).__name__} is not an encoder: it needs encode_batch(values) -> bytes or "
                "encode(value, stream); for text use Encoder.simple_string_encoder()"
            )
        self._encoder = encoder

    def typed(self, type_info: TypeInformation | None) -> EncodedParts:
        """The same for records of a known type, if the encoder cares about types."""
        typed = getattr(self._encoder, "typed", None)
        return self if typed is None else EncodedParts(typed(type_info))

    def create(self, stream: BinaryIO) -> PartWriter:
        """A writer of one file."""
        return _EncodedPart(stream, self._encoder)

    def compactor(self) -> ConcatFileCompactor:
        """The way to merge such files."""
        return ConcatFileCompactor()


class _EncodedPart:
    """One file of encoded records."""

    def __init__(self, stream: BinaryIO, encoder: Any) -> None:
        self._stream = stream
        self._encode_batch = getattr(encoder, "encode_batch", None)
        self._encode = getattr(encoder, "encode", None)

    def write(self, batch: Batch) -> None:
        values = batch.to_rows()
        if self._encode_batch is not None:
            self._stream.write(self._encode_batch(values))
            return
        assert self._encode is not None
        for value in values:
            self._encode(value, self._stream)

    def finish(self) -> None:
        """Nothing is held back."""


class JsonLinesEncoder:
    """Each record as one line of JSON.

    Named rows become objects, other rows and tuples arrays; dates and times are ISO 8601 text, decimals
    text, bytes base64.
    """

    def encode_batch(self, values: list[Any]) -> bytes:
        """The lines of a batch, in UTF-8."""
        encode = _JSON.encode
        return "".join([encode(value) + "\n" for value in values]).encode()


def _plain(value: Any) -> Any:
    """What ``json`` cannot write by itself, as something it can."""
    if isinstance(value, Row):
        return list(value) if value.field_names() is None else value.as_dict()
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(value).decode()
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    raise TypeError(
        f"a {type(value).__name__} cannot be written as JSON; map it to a Row, dict, list or text"
    )


_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=_plain)
