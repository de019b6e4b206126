"""The frame: what one append writes, and all that the bytes of a segment consist of.

::

    magic "PSLF" | version u8 | 0 u8 | header size u16 | header crc u32 | payload crc u32
    payload length u64 | base offset i64 | records u32 | producer length u16 | 0 u16
    first timestamp i64 | largest timestamp i64 | producer epoch i64
    producer id (UTF-8), zero-padded to a multiple of 8
    payload: Arrow IPC record batch messages of SCHEMA, one or more

All little-endian.  The header crc covers the header except itself, so headers can be walked without
reading payloads; the payload crc sits in the header, so a staged payload is copied as it is and only
the header is made anew.  Sizes are multiples of 8: Arrow's buffers stay aligned in place.

Invariant: nothing is allocated on the word of a header.  A caller first checks that the file really
holds ``header.size`` more bytes.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from penstock.connectors.log.errors import CorruptLogError
from penstock.core.errors import ConnectorError

MAGIC = b"PSLF"
VERSION = 1
NO_EPOCH = -1

SCHEMA = pa.schema(
    [
        pa.field("timestamp", pa.int64(), nullable=False),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary(), nullable=False),
    ]
)
"""Columns of a record batch in a payload."""

_FIXED = struct.Struct("<4sBBHIIQqIHHqqq")
FIXED_SIZE = _FIXED.size
MAX_HEADER_SIZE = 0xFFFF
_CRC_AT = 8

Bytes = bytes | memoryview


@dataclass(frozen=True, slots=True)
class FrameHeader:
    """What a frame says about itself."""

    base_offset: int
    records: int
    first_timestamp: int
    max_timestamp: int
    payload_length: int
    payload_crc: int
    producer: str = ""
    epoch: int = NO_EPOCH

    @property
    def header_size(self) -> int:
        """Bytes before the payload."""
        return FIXED_SIZE + _padded(len(self.producer.encode()))

    @property
    def size(self) -> int:
        """Bytes of the whole frame."""
        return self.header_size + self.payload_length

    @property
    def next_offset(self) -> int:
        """Offset of the record after this frame."""
        return self.base_offset + self.records

    def at(self, base_offset: int) -> FrameHeader:
        """The same frame at another place in the log."""
        return replace(self, base_offset=base_offset)

    def of_epoch(self, epoch: int) -> FrameHeader:
        """The same frame as the transaction ``epoch`` of its producer."""
        return replace(self, epoch=epoch)

    def extended(self, more: FrameHeader, message: pa.Buffer) -> FrameHeader:
        """Header of this frame with another message, described by ``more``, behind its payload."""
        return replace(
            self,
            records=self.records + more.records,
            first_timestamp=self.first_timestamp if self.records else more.first_timestamp,
            max_timestamp=max(self.max_timestamp, more.max_timestamp) if self.records else more.max_timestamp,
            payload_length=self.payload_length + more.payload_length,
            payload_crc=zlib.crc32(message, self.payload_crc),
        )

    def encode(self) -> bytes:
        """The header's bytes."""
        producer = self.producer.encode()
        size = FIXED_SIZE + _padded(len(producer))
        if size > MAX_HEADER_SIZE:
            raise ConnectorError(f"producer id of {len(producer)} bytes is too long: use a shorter job name")
        fixed = (self.payload_crc, self.payload_length, self.base_offset, self.records, len(producer), 0)
        times = (self.first_timestamp, self.max_timestamp, self.epoch)
        raw = bytearray(size)
        _FIXED.pack_into(raw, 0, MAGIC, VERSION, 0, size, 0, *fixed, *times)
        raw[FIXED_SIZE : FIXED_SIZE + len(producer)] = producer
        struct.pack_into("<I", raw, _CRC_AT, _header_crc(raw))
        return bytes(raw)


def _padded(length: int) -> int:
    return -(-length // 8) * 8


def _header_crc(raw: bytes | bytearray | memoryview) -> int:
    return zlib.crc32(raw[_CRC_AT + 4 :], zlib.crc32(raw[:_CRC_AT]))


def parse_header(raw: Bytes) -> FrameHeader | None:
    """The header at the start of ``raw``, or ``None`` if there is no whole, valid one."""
    if len(raw) < FIXED_SIZE or raw[:4] != MAGIC:
        return None
    fields = _FIXED.unpack_from(raw)
    (
        _,
        version,
        _,
        size,
        crc,
        payload_crc,
        length,
        base,
        records,
        producer_length,
        _,
        first,
        largest,
        epoch,
    ) = fields
    if size != FIXED_SIZE + _padded(producer_length) or len(raw) < size or _header_crc(raw[:size]) != crc:
        return None
    if version != VERSION:
        raise ConnectorError(
            f"a log frame has format version {version} and this Penstock reads version {VERSION}: "
            "upgrade Penstock to read this topic"
        )
    producer = bytes(raw[FIXED_SIZE : FIXED_SIZE + producer_length]).decode("utf-8", "replace")
    return FrameHeader(base, records, first, largest, length, payload_crc, producer, epoch)


def payload_crc(parts: Iterable[Bytes | pa.Buffer]) -> int:
    """Checksum over the parts of a payload, in order."""
    crc = 0
    for part in parts:
        crc = zlib.crc32(part, crc)
    return crc


def record_batch(timestamps: pa.Array, keys: pa.Array, values: pa.Array) -> pa.RecordBatch:
    """Columns as a batch of :data:`SCHEMA`; a null value is refused."""
    if values.null_count:
        raise ConnectorError("a log record needs a value; None is only possible as a key")
    return pa.RecordBatch.from_arrays([timestamps, keys, values], schema=SCHEMA)


def describe_batches(batches: Sequence[pa.RecordBatch], messages: Sequence[pa.Buffer]) -> FrameHeader:
    """Header, for offset 0, of a frame that holds ``batches``, serialised as ``messages``."""
    return FrameHeader(
        base_offset=0,
        records=sum(batch.num_rows for batch in batches),
        first_timestamp=batches[0].column(0)[0].as_py(),
        max_timestamp=max(pc.max(batch.column(0)).as_py() for batch in batches),
        payload_length=sum(message.size for message in messages),
        payload_crc=payload_crc(messages),
    )


def decode_payload(header: FrameHeader, payload: Bytes | pa.Buffer, where: str) -> list[pa.RecordBatch]:
    """The record batches of a payload whose checksum was found right."""
    reader = pa.BufferReader(payload)
    batches: list[pa.RecordBatch] = []
    try:
        while reader.tell() < header.payload_length:
            batch = pa.ipc.read_record_batch(pa.ipc.read_message(reader), SCHEMA)
            batch.validate(full=True)
            batches.append(batch)
    except (pa.ArrowException, OSError, EOFError) as e:
        raise CorruptLogError(
            f"{where}: the frame's checksum is right but its content is not ours ({e})"
        ) from e
    if sum(batch.num_rows for batch in batches) != header.records:
        raise CorruptLogError(f"{where}: the frame holds another number of records than its header says")
    return batches
