"""Frames and the codec over a real socket pair: round trips in odd pieces, and garbage."""

from __future__ import annotations

import random
import socket
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.batch import Batch
from penstock.core.errors import TransportError
from penstock.core.ids import ChannelId, EdgeId, Epoch, EventTime, SubtaskIndex
from penstock.core.row import Row, RowKind
from penstock.core.signals import (
    ACTIVE,
    END_OF_INPUT,
    IDLE,
    Barrier,
    CancelBarrier,
    Element,
    SnapshotKind,
    Watermark,
)
from penstock.exchange import frames as frames_module
from penstock.exchange.codec import ChannelDecoder, ChannelEncoder
from penstock.exchange.frames import HEADER, MAX_PAYLOAD, Frame, FramedSocket, FrameKind

CHANNEL = ChannelId(EdgeId(3), SubtaskIndex(1), SubtaskIndex(2))


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    left, right = socket.socketpair()
    yield left, right
    left.close()
    right.close()


def encoded(elements: list[Element]) -> bytes:
    """The bytes that an encoder puts on the wire."""
    left, right = socket.socketpair()
    with left, right:
        out = FramedSocket(left)
        encoder = ChannelEncoder(CHANNEL, out)
        for element in elements:
            encoder.encode(element)
        return b"".join(bytes(part) for part in out._out)


def decoded(data: bytes, pieces: list[int]) -> list[Element]:
    """Decode bytes that arrive in pieces of the given sizes (the last size repeats)."""
    left, right = socket.socketpair()
    with left, right:
        left.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        incoming = FramedSocket(right)
        decoder = ChannelDecoder()
        found = []
        position = 0
        for size in [*pieces, *[pieces[-1]] * (len(data) // pieces[-1] + 1)]:
            if position >= len(data):
                break
            left.sendall(data[position : position + size])
            position += size
            for frame in incoming.receive():
                element = decoder.decode(frame)
                if element is not None:
                    found.append(element)
        return found


def plain(element: Element) -> Any:
    """Something that compares."""
    if not isinstance(element, Batch):
        return element
    times = None if element.times is None else element.times.tolist()
    if element.is_columnar:
        return ("columns", element.columns.schema, element.columns.to_pylist(), times, element.key_columns)
    return ("rows", element.rows, times, element.keys)


def column_batch(values: list[int], keyed: bool, timed: bool, kind: str) -> Batch:
    words = pa.array([str(value) for value in values], pa.string())
    columns = {
        "a": pa.array(values, pa.int64()),
        kind: words.dictionary_encode() if kind == "coded" else words,
    }
    times = np.array(values, np.int64) if timed else None
    return Batch.of_columns(pa.record_batch(columns), times, ("a",) if keyed else ())


VALUES = st.lists(st.integers(-(2**40), 2**40), min_size=1, max_size=8)
ROWS = st.one_of(
    st.lists(st.one_of(st.integers(), st.text(max_size=3), st.none()), min_size=1, max_size=5),
    st.lists(
        st.builds(lambda a, b: Row(a=a, b=b), st.integers(), st.text(max_size=3)), min_size=1, max_size=5
    ),
    st.lists(st.builds(lambda a: Row(a), st.integers()), min_size=1, max_size=3),
    st.lists(
        st.builds(lambda k, a: Row.of_kind(k, a), st.sampled_from(RowKind), st.integers()),
        min_size=1,
        max_size=3,
    ),
)
ELEMENTS = st.one_of(
    st.builds(Watermark, st.integers(-(2**63), 2**63 - 1)),
    st.sampled_from([IDLE, ACTIVE, END_OF_INPUT]),
    st.builds(Barrier, st.integers(0, 2**40), st.sampled_from(SnapshotKind), st.integers(0, 2**45)),
    st.builds(CancelBarrier, st.integers(0, 2**40)),
    st.builds(column_batch, VALUES, st.booleans(), st.booleans(), st.sampled_from(["b", "c", "coded"])),
    st.builds(
        lambda rows, timed, keyed: Batch.of_rows(
            rows,
            list(range(len(rows))) if timed else None,
            [str(n) for n in range(len(rows))] if keyed else None,
        ),
        ROWS,
        st.booleans(),
        st.booleans(),
    ),
)


@settings(max_examples=80, deadline=None)
@given(st.lists(ELEMENTS, max_size=8), st.lists(st.integers(1, 900), min_size=1, max_size=20))
def test_elements_survive_the_wire_in_any_pieces(elements: list[Element], pieces: list[int]) -> None:
    assert [plain(e) for e in decoded(encoded(elements), pieces)] == [plain(e) for e in elements]


def test_row_kinds_and_names_survive() -> None:
    rows = [Row.of_kind(RowKind.DELETE, a=1), Row.of_kind(RowKind.DELETE, a=2)]
    (batch,) = decoded(encoded([Batch.of_rows(rows)]), [1000])
    assert batch.rows == rows and batch.rows[0].get_row_kind() is RowKind.DELETE and batch.rows[1].a == 2


def test_times_arrive_aligned() -> None:
    (batch,) = decoded(encoded([column_batch([1, 2, 3], False, True, "b")]), [1 << 16])
    assert batch.times is not None and batch.times.flags.aligned


def test_large_payloads_go_through_while_both_sides_take_turns(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    sender, receiver = FramedSocket(pair[0]), FramedSocket(pair[1])
    encoder, decoder = ChannelEncoder(CHANNEL, sender), ChannelDecoder()
    sent = [Batch.of_rows([bytes([n]) * size]) for n, size in enumerate((3_000_000, 10, 300_000, 1, 700_000))]
    for batch in sent:
        encoder.encode(batch)
    found = []
    for _ in range(10_000):
        sender.send()
        found += [decoder.decode(frame) for frame in receiver.receive()]
        if len(found) == len(sent):
            break
    assert [batch.rows for batch in found] == [batch.rows for batch in sent] and not sender.has_output


def test_what_an_element_counts_is_the_size_of_its_frame(pair: tuple[socket.socket, socket.socket]) -> None:
    sender, receiver = FramedSocket(pair[0]), FramedSocket(pair[1])
    encoder = ChannelEncoder(CHANNEL, sender)
    (size,) = encoder.encode(column_batch([1, 2], True, True, "b"))
    assert encoder.encode(END_OF_INPUT) == []
    sender.send()
    kinds = {frame.kind: len(frame.payload) for frame in receiver.receive()}
    assert kinds[FrameKind.COLUMNS] == size and list(kinds) == [
        FrameKind.SCHEMA,
        FrameKind.COLUMNS,
        FrameKind.SIGNAL,
    ]


# --- garbage ------------------------------------------------------------------------------------


def test_an_oversized_length_is_refused_before_anything_is_allocated(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    pair[0].sendall(HEADER.pack(MAX_PAYLOAD + 1, FrameKind.ROWS, 0, 0, 0, 0))
    with pytest.raises(TransportError, match="makes no sense"):
        list(FramedSocket(pair[1]).receive())


def test_an_unknown_kind_is_refused(pair: tuple[socket.socket, socket.socket]) -> None:
    pair[0].sendall(HEADER.pack(1, 99, 0, 0, 0, 0) + b"x")
    with pytest.raises(TransportError):
        list(FramedSocket(pair[1]).receive())


def test_a_frame_too_large_is_refused_by_its_sender(
    pair: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frames_module, "MAX_PAYLOAD", 100)
    with pytest.raises(TransportError, match="larger than"):
        FramedSocket(pair[0]).queue(FrameKind.ROWS, 0, 0, 0, 0, b"x" * 101)


def test_the_end_of_the_stream_is_an_error(pair: tuple[socket.socket, socket.socket]) -> None:
    receiver = FramedSocket(pair[1])
    assert list(receiver.receive()) == []
    pair[0].sendall(HEADER.pack(500_000, FrameKind.ROWS, 0, 0, 0, 0) + b"x" * 100)
    assert list(receiver.receive()) == []
    pair[0].close()
    with pytest.raises(TransportError, match="closed"):
        list(receiver.receive())
    sender = FramedSocket(pair[1])
    sender.queue(FrameKind.ROWS, 0, 0, 0, 0, b"x")
    with pytest.raises(TransportError, match="broke"):
        sender.send()


@pytest.mark.parametrize("seed", range(30))
def test_random_bytes_never_do_more_than_raise(seed: int) -> None:
    rng = random.Random(seed)
    left, right = socket.socketpair()
    with left, right:
        left.sendall(rng.randbytes(rng.randint(1, 5000)))
        elements = 0
        try:
            for frame in FramedSocket(right).receive():
                ChannelDecoder().decode(frame)
                elements += 1
        except TransportError:
            pass
        assert elements == 0, "chance does not make an element"


@pytest.mark.parametrize(
    ("kind", "d", "payload"),
    [
        (FrameKind.SIGNAL, 0, b""),
        (FrameKind.SIGNAL, 0, b"\x63" + bytes(24)),
        (FrameKind.SIGNAL, 0, struct.pack("<Bqqq", 4, 1, 77, 0)),
        (FrameKind.SCHEMA, 0, b""),
        (FrameKind.SCHEMA, 0, b"\xff\xff\xff\xff[]"),
        (FrameKind.SCHEMA, 0, b"\x02\0\0\0[]junk"),
        (FrameKind.COLUMNS, 1, b"\0" * 40),
        (FrameKind.COLUMNS, 2**32 - 1, b"\1" + b"\0" * 40),
        (FrameKind.ROWS, 0, b""),
        (FrameKind.ROWS, 1, bytes(8) + b"not a pickle"),
        (FrameKind.ROWS, 2**32 - 1, b"\1" * 30),
    ],
)
def test_frames_that_make_no_sense_are_refused(kind: FrameKind, d: int, payload: bytes) -> None:
    with pytest.raises(TransportError):
        ChannelDecoder().decode(Frame(kind, 0, 0, 0, d, bytearray(payload)))


def test_columns_after_a_broken_body_are_refused() -> None:
    decoder = ChannelDecoder()
    data = encoded([column_batch([1, 2, 3], False, False, "b")])
    left, right = socket.socketpair()
    with left, right:
        left.sendall(data)
        schema, columns = FramedSocket(right).receive()
    assert decoder.decode(schema) is None
    for cut in (8, 20, len(columns.payload) // 2):
        with pytest.raises(TransportError):
            decoder.decode(columns._replace(payload=columns.payload[:cut]))


def test_event_times() -> None:
    assert decoded(
        encoded([Watermark(EventTime(-5)), Barrier(Epoch(2), SnapshotKind.CHECKPOINT, 9)]), [1]
    ) == [
        Watermark(EventTime(-5)),
        Barrier(Epoch(2), SnapshotKind.CHECKPOINT, 9),
    ]
