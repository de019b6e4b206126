"""Bytes on a data connection: elements or a ``TransportError``, in whatever pieces they arrive.

Frames of rows are left out of the decoding: they are pickles, read only from peers that have proven to
know the job's secret.  What a stranger can reach is in ``test_fuzz_greeting``.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest
from fuzz_tools import FUZZ, bounded, mutated, pair, pieces_of
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.batch import Batch
from penstock.core.errors import TransportError
from penstock.core.ids import ChannelId, EdgeId, Epoch, EventTime, SubtaskIndex
from penstock.core.signals import END_OF_INPUT, IDLE, Barrier, CancelBarrier, Element, Watermark
from penstock.exchange.codec import ChannelDecoder, ChannelEncoder
from penstock.exchange.frames import HEADER, MAX_PAYLOAD, FramedSocket, FrameKind

CHANNEL = ChannelId(EdgeId(3), SubtaskIndex(1), SubtaskIndex(2))


def encoded(*elements: Element) -> bytes:
    with pair() as (left, _):
        out = FramedSocket(left)
        encoder = ChannelEncoder(CHANNEL, out)
        for element in elements:
            encoder.encode(element)
        return b"".join(bytes(part) for part in out._out)


def columns(coded: bool) -> Batch:
    words = pa.array(["one", "two", None, "four"])
    batch = pa.record_batch(
        {"n": [1, 2, 3, 4], "w": words.dictionary_encode() if coded else words, "l": [[1], [], None, [2, 3]]}
    )
    return Batch.of_columns(batch, np.arange(4, dtype=np.int64), ("n",))


SIGNALS = encoded(Watermark(EventTime(5)), IDLE, Barrier(Epoch(3)), CancelBarrier(Epoch(3)), END_OF_INPUT)
VALID = (
    SIGNALS,
    encoded(columns(False), Watermark(EventTime(5)), columns(False)),
    encoded(columns(True), columns(False), columns(True)),
    encoded(Batch.of_rows([1, 2]), IDLE),
)


def received(data: bytes, cuts: list[int]) -> Iterator[Element]:
    """All elements in ``data``, until something is refused."""
    with pair() as (left, right):
        incoming, decoder = FramedSocket(right), ChannelDecoder()
        for piece in pieces_of(data, cuts):
            left.sendall(piece)
            for frame in incoming.receive():
                if frame.kind in (FrameKind.ROWS, FrameKind.CONTROL, FrameKind.CREDIT):
                    continue
                element = decoder.decode(frame)
                if element is not None:
                    yield element


def well_formed(element: Element) -> None:
    if isinstance(element, Batch):
        assert element.times is None or len(element.times) == len(element)
        assert element.columns.schema is not None
        element.columns.validate()


@FUZZ
@given(
    st.one_of(st.binary(max_size=300), mutated(*VALID)),
    st.lists(st.integers(0, 1 << 16), max_size=6),
)
def test_any_bytes_are_elements_or_refused(data: bytes, cuts: list[int]) -> None:
    with bounded():
        try:
            for element in received(data, cuts):
                well_formed(element)
        except TransportError:
            pass


@FUZZ
@given(
    st.sampled_from([FrameKind.SCHEMA, FrameKind.COLUMNS, FrameKind.SIGNAL]),
    st.integers(0, 2**32 - 1),
    st.one_of(st.binary(max_size=120), mutated(SIGNALS[HEADER.size : HEADER.size + 25])),
)
def test_any_payload_in_a_good_frame_is_an_element_or_refused(
    kind: FrameKind, rows: int, payload: bytes
) -> None:
    frame = HEADER.pack(len(payload), kind, 3, 1, 2, rows) + payload
    with bounded():
        try:
            for element in received(VALID[1] + frame, []):
                well_formed(element)
        except TransportError:
            pass


@pytest.mark.parametrize("size", [300_000, 100 << 20, MAX_PAYLOAD])
def test_a_promise_of_much_is_not_paid_in_advance(size: int) -> None:
    with bounded(), pair() as (left, right):
        incoming = FramedSocket(right)
        left.sendall(HEADER.pack(size, FrameKind.ROWS, 0, 0, 0, 0) + b"x" * 1000)
        assert list(incoming.receive()) == []
        left.sendall(b"y" * 1000)
        assert list(incoming.receive()) == []


def test_large_payloads_arrive_whole_and_in_their_place() -> None:
    body = bytes(range(256)) * 80_000
    with pair() as (left, right):
        left.setblocking(False)
        incoming = FramedSocket(right)
        data = HEADER.pack(len(body), FrameKind.ROWS, 1, 2, 3, 4) + body
        data += HEADER.pack(1, FrameKind.SIGNAL, 5, 6, 7, 8) + b"z"
        assert [bytes(f.payload) for f in pumped(left, incoming, data)] == [body, b"z"]


def pumped(left: socket.socket, incoming: FramedSocket, data: bytes) -> Iterator:  # type: ignore[type-arg]
    view = memoryview(data)
    while view:
        view = view[left.send(view[:100_001]) :]
        yield from incoming.receive()


def test_columns_with_another_number_of_rows_than_times_are_refused() -> None:
    good = encoded(columns(False))
    at = good.index(HEADER.pack(0, FrameKind.COLUMNS, 3, 1, 2, 0)[4:17])
    fewer = good[:at] + HEADER.pack(0, FrameKind.COLUMNS, 3, 1, 2, 3)[4:] + good[at + 17 :]
    with pytest.raises(TransportError):
        list(received(fewer, []))
