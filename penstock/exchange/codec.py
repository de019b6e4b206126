"""Elements as frames and back.

Columns travel as Arrow IPC messages behind a schema that is sent once per channel (and again when it
changes), or as whole IPC streams if a column is dictionary-encoded; rows are pickled; event times are
raw int64.  Signals are a tag and up to three numbers; a savepoint's barrier has its place behind them.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from penstock.core.batch import Batch
from penstock.core.error_codes import Code
from penstock.core.errors import SnapshotError, TransportError, TypeMismatchError
from penstock.core.ids import ChannelId, Epoch, EventTime, WallMs
from penstock.core.pickling import culprit, dumps, loads
from penstock.core.row import Row
from penstock.core.signals import (
    ACTIVE,
    END_OF_INPUT,
    IDLE,
    Active,
    Barrier,
    CancelBarrier,
    Element,
    EndOfInput,
    Idle,
    SnapshotKind,
    Watermark,
)
from penstock.exchange import frames
from penstock.exchange.frames import Buffer, Frame, FrameKind

_SIGNAL = struct.Struct("<Bqqq")
_KINDS = list(SnapshotKind)
_WATERMARK, _IDLE, _ACTIVE, _BARRIER, _CANCEL, _END = range(1, 7)
_PLAIN, _TUPLES = 0, 1
_UNALIGNED = 16
_FLAG = 8


class FrameQueue(Protocol):
    """Where encoded elements go: a socket, or the file of a snapshot."""

    def queue(self, kind: FrameKind, a: int, b: int, c: int, d: int, *payload: Buffer) -> int:
        """Queue a frame; its payload's size."""
        ...


class ChannelEncoder:
    """Writes the elements of one channel as frames."""

    def __init__(self, channel: ChannelId, out: FrameQueue) -> None:
        self._channel = (int(channel.edge), int(channel.sender), int(channel.receiver))
        self._out = out
        self._schema: tuple[Any, tuple[str, ...]] | None = None
        self._streamed = False

    def encode(self, element: Element) -> list[int]:
        """Queue an element; the sizes of the frames that hold it, none for a signal.

        A batch that does not fit into a frame travels in several.
        """
        if not isinstance(element, Batch):
            self._out.queue(FrameKind.SIGNAL, *self._channel, 0, _signal_bytes(element))
            return []
        if len(element) > 1 and element.nbytes() > frames.MAX_PAYLOAD:
            return self._encode_halves(element)
        times: Any = b"" if element.times is None else np.ascontiguousarray(element.times)
        if element.columns is not None:
            kind, body = FrameKind.COLUMNS, self._column_bytes(element)
        else:
            kind, body = FrameKind.ROWS, memoryview(dumped(pack_rows(element), element))
        size = _FLAG + memoryview(times).nbytes + body.nbytes
        if size > frames.MAX_PAYLOAD:
            if len(element) > 1:
                return self._encode_halves(element)
            raise _too_large(size)
        return [self._out.queue(kind, *self._channel, len(element), _flag(times), times, body)]

    def _encode_halves(self, batch: Batch) -> list[int]:
        middle = len(batch) // 2
        halves = batch.slice(0, middle), batch.slice(middle, len(batch))
        return [size for half in halves for size in self.encode(_with_own_dictionaries(half))]

    def _column_bytes(self, batch: Batch) -> memoryview:
        """The columns; their schema goes ahead if it is new."""
        schema = (batch.columns.schema, batch.key_columns)
        known = self._schema
        if known is None or known[1] != schema[1] or not known[0].equals(schema[0]):
            keys = json.dumps(batch.key_columns).encode()
            payload = (struct.pack("<I", len(keys)), keys, memoryview(batch.columns.schema.serialize()))
            self._out.queue(FrameKind.SCHEMA, *self._channel, 0, *payload)
            self._schema = schema
            self._streamed = _has_dictionary(batch.columns.schema)
        return memoryview(to_stream(batch.columns) if self._streamed else batch.columns.serialize())


def dumped(value: Any, batch: Batch) -> bytes:
    """Bytes of ``value``, in which the rows of the batch are; one of them that cannot be pickled is named."""
    try:
        return dumps(value)
    except Exception as error:
        raise TypeMismatchError(
            f"a record cannot be sent to another slot: {culprit(batch.to_rows())}, which cannot be pickled "
            f"({error}). Send only data on, and make files, locks and connections in the function's open()",
            code=Code.RECORD_NOT_PICKLABLE,
        ) from error


class ChannelDecoder:
    """Reads the elements of one channel."""

    def __init__(self, loads: Callable[[Any], Any] = loads) -> None:
        self._loads = loads
        self._schema: pa.Schema | None = None
        self._streamed = False
        self._keys: tuple[str, ...] = ()

    def decode(self, frame: Frame) -> Element | None:
        """The element of a frame; ``None`` for a schema. Bytes that make no sense are refused."""
        try:
            if frame.kind is FrameKind.SIGNAL:
                return _signal_of(frame.payload)
            if frame.kind is FrameKind.SCHEMA:
                self._learn(frame.payload)
                return None
            return self._batch(frame)
        except (TransportError, SnapshotError):
            raise
        except Exception as error:
            raise TransportError(f"a peer sent data that cannot be read: {error}") from error

    def _learn(self, payload: bytes | bytearray) -> None:
        (length,) = struct.unpack_from("<I", payload)
        self._keys = tuple(json.loads(payload[4 : 4 + length]))
        self._schema = pa.ipc.read_schema(pa.py_buffer(memoryview(payload)[4 + length :]))
        self._streamed = _has_dictionary(self._schema)

    def _batch(self, frame: Frame) -> Batch:
        view = memoryview(frame.payload)
        rows = frame.d
        start = _FLAG
        times = None
        if view[0]:
            times = np.frombuffer(view, np.int64, rows, _FLAG)
            start += 8 * rows
        if frame.kind is FrameKind.COLUMNS:
            if self._schema is None:
                raise TransportError("a peer sent columns before their schema")
            body = pa.py_buffer(view[start:])
            columns = (
                pa.ipc.open_stream(body).read_next_batch()
                if self._streamed
                else pa.ipc.read_record_batch(body, self._schema)
            )
            columns.validate(full=self._loads is not loads)  # what was stored may be anybody's
            if columns.num_rows != rows:
                raise TransportError(f"a peer sent {columns.num_rows} rows and said {rows}")
            return Batch(columns=columns, times=times, key_columns=self._keys)
        return unpack_rows(self._loads(view[start:]), times)


def _with_own_dictionaries(batch: Batch) -> Batch:
    """A part of a batch with only those dictionary entries that it uses."""
    columns = batch.columns
    if columns is None or not _has_dictionary(columns.schema):
        return batch
    arrays = [
        array.dictionary_decode().cast(array.type) if pa.types.is_dictionary(array.type) else array
        for array in columns.columns
    ]
    compact = pa.RecordBatch.from_arrays(arrays, schema=columns.schema)
    return Batch(columns=compact, times=batch.times, key_columns=batch.key_columns)


def _too_large(size: int) -> TransportError:
    return TransportError(
        f"one record takes {size} bytes, and a frame holds at most {frames.MAX_PAYLOAD}; split the record, "
        "or keep what is so large in a file or an object store and send only where it is"
    )


def _has_dictionary(schema: pa.Schema) -> bool:
    """Whether a bare record batch message would leave some of the values behind."""
    return any("dictionary<" in str(kind) for kind in schema.types)


def to_stream(columns: pa.RecordBatch) -> pa.Buffer:
    """Columns with their schema, readable on their own."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, columns.schema) as writer:
        writer.write_batch(columns)
    return sink.getvalue()


def _flag(times: Any) -> bytes:
    """Whether event times follow; eight bytes, so that they and what is behind them are aligned."""
    return bytes(_FLAG) if isinstance(times, bytes) else b"\1" + bytes(_FLAG - 1)


def pack_rows(batch: Batch) -> tuple[int, Any, list[Any], list[Any] | None]:
    """Rows of one shape travel as bare tuples: a fraction of the cost of pickling each ``Row``."""
    rows = batch.rows
    assert rows is not None
    if rows and type(rows[0]) is Row:
        fields, kind = rows[0]._fields, rows[0]._kind
        values = [
            row._values for row in rows if type(row) is Row and row._fields == fields and row._kind is kind
        ]
        if len(values) == len(rows):
            return _TUPLES, (fields, kind), values, batch.keys
    return _PLAIN, None, rows, batch.keys


def unpack_rows(packed: tuple[int, Any, list[Any], list[Any] | None], times: Any) -> Batch:
    """What :func:`pack_rows` packed."""
    layout, shape, rows, keys = packed
    if layout == _TUPLES:
        fields, kind = shape
        rows = Row.many(fields, rows)
        for row in rows if kind is not rows[0]._kind else ():
            row._kind = kind
    return Batch(rows=rows, times=times, keys=keys)


def _signal_bytes(signal: Element) -> bytes:
    if isinstance(signal, Watermark):
        return _SIGNAL.pack(_WATERMARK, signal.time, 0, 0)
    if isinstance(signal, Barrier):
        kind = _KINDS.index(signal.kind) + (_UNALIGNED if signal.unaligned else 0)
        head = _SIGNAL.pack(_BARRIER, signal.epoch, kind, signal.triggered_ms)
        return head if signal.location is None else head + signal.location.encode()
    if isinstance(signal, CancelBarrier):
        return _SIGNAL.pack(_CANCEL, signal.epoch, 0, 0)
    if isinstance(signal, Idle):
        return _SIGNAL.pack(_IDLE, 0, 0, 0)
    if isinstance(signal, Active):
        return _SIGNAL.pack(_ACTIVE, 0, 0, 0)
    assert isinstance(signal, EndOfInput)
    return _SIGNAL.pack(_END, 0, 0, 0)


def _signal_of(payload: bytes | bytearray) -> Element:
    tag, x, y, z = _SIGNAL.unpack_from(payload)
    rest = bytes(payload[_SIGNAL.size :])
    if rest and tag != _BARRIER:
        raise TransportError("a peer sent a signal with something behind it")
    if tag == _WATERMARK:
        return Watermark(EventTime(x))
    if tag == _BARRIER:
        unaligned, kind = divmod(y, _UNALIGNED)
        return Barrier(Epoch(x), _KINDS[kind], WallMs(z), bool(unaligned), rest.decode() if rest else None)
    if tag == _CANCEL:
        return CancelBarrier(Epoch(x))
    if tag == _IDLE:
        return IDLE
    if tag == _ACTIVE:
        return ACTIVE
    if tag == _END:
        return END_OF_INPUT
    raise TransportError(f"a peer sent an unknown signal ({tag})")
