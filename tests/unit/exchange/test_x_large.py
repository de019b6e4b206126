"""Batches larger than a frame, and what a channel between slots counts for its elements."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

from penstock.core.batch import Batch
from penstock.core.errors import TransportError
from penstock.core.ids import ChannelId, EdgeId, SlotId, SubtaskIndex
from penstock.core.row import Row
from penstock.exchange import frames as frames_module
from penstock.exchange.channel import InputChannel
from penstock.exchange.channel_state import decode, encode
from penstock.exchange.codec import ChannelDecoder
from penstock.exchange.frames import FramedSocket, FrameKind
from penstock.exchange.network import Peer, RemoteSender
from penstock.exchange.outputs import OutputEdge
from penstock.exchange.partition import Global, make_router

CHANNEL = ChannelId(EdgeId(0), SubtaskIndex(0), SubtaskIndex(0))
MOST = 4000
KEY = (0, 0, 0)


@pytest.fixture
def peers(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Peer, Peer]]:
    monkeypatch.setattr(frames_module, "MAX_PAYLOAD", MOST)
    left, right = socket.socketpair()
    with left, right:
        yield Peer(SlotId(1), FramedSocket(left)), Peer(SlotId(0), FramedSocket(right))


def connect(peers: tuple[Peer, Peer], limit: int = 1 << 20) -> tuple[RemoteSender, InputChannel]:
    here, there = peers
    sender, channel = RemoteSender(here, CHANNEL, limit), InputChannel(CHANNEL)
    here.senders[KEY] = sender
    there.inputs[KEY] = (channel, ChannelDecoder())
    channel.on_consumed(lambda size: there.credit(CHANNEL, size))
    return sender, channel


def deliver(sender: Peer, receiver: Peer) -> None:
    while True:
        sender.frames.send()
        found = list(receiver.frames.receive())
        for frame in found:
            receiver.on_frame(frame)
        if not found and not sender.frames.has_output:
            return


def test_rows_that_do_not_fit_travel_in_several_frames(peers: tuple[Peer, Peer]) -> None:
    sender, channel = connect(peers)
    rows = [Row(n, f"{n:0500}") for n in range(100)]
    sender.send(Batch.of_rows(rows, list(range(100)), [str(n) for n in range(100)]))
    deliver(*peers)
    assert len(channel) > 10, "in pieces"
    taken = [channel.take() for _ in range(len(channel))]
    batches = [element for element in taken if isinstance(element, Batch)]
    assert [row for batch in batches for row in batch.to_rows()] == rows
    assert [time for batch in batches for time in batch.time_list()] == list(range(100))
    assert [key for batch in batches for key in batch.key_list()] == [str(n) for n in range(100)]
    deliver(peers[1], peers[0])
    assert sender.in_flight == 0, "all credit has come back"


@pytest.mark.parametrize("kind", [pa.string(), pa.dictionary(pa.int32(), pa.string())])
def test_columns_that_do_not_fit_travel_in_several_frames(
    peers: tuple[Peer, Peer], kind: pa.DataType
) -> None:
    sender, channel = connect(peers)
    texts = pa.array([f"{n:0200}" for n in range(100)]).cast(kind)
    columns = pa.record_batch({"n": list(range(100)), "text": texts})
    sender.send(Batch.of_columns(columns, np.arange(100, dtype=np.int64), ("n",)))
    deliver(*peers)
    taken = [channel.take() for _ in range(len(channel))]
    assert len(taken) > 3 and all(isinstance(batch, Batch) for batch in taken)
    parts = [batch.columns for batch in taken if isinstance(batch, Batch)]
    assert all(part.schema.equals(columns.schema) for part in parts)
    assert [row for part in parts for row in part.to_pylist()] == columns.to_pylist()


def test_a_single_record_that_does_not_fit_is_an_error_that_helps(peers: tuple[Peer, Peer]) -> None:
    sender, _ = connect(peers)
    out = OutputEdge(make_router(Global(), 0, 1, 1, 128), {0: sender}, 100, "step 'sink'")
    out.emit(Batch.of_rows(["small"] * 10))
    with pytest.raises(TransportError, match="way to step 'sink': one record takes 50.*object store"):
        out.emit(Batch.of_rows(["small"] * 10 + ["x" * 5000]))
        out.flush()


def test_what_an_unaligned_snapshot_records_is_cut_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames_module, "MAX_PAYLOAD", MOST)
    rows = [f"{n:0500}" for n in range(100)]
    found = decode(b"".join(encode([Batch.of_rows(rows)])))
    assert len(found) > 10 and [row for batch in found for row in batch.to_rows()] == rows


def test_a_channel_counts_what_its_rows_will_occupy(peers: tuple[Peer, Peer]) -> None:
    """A thousand times the same text is pickled once; numbers become objects."""
    sender, channel = connect(peers, limit=20_000)
    batch = Batch.of_rows([(n % 100, n % 100, n % 100) for n in range(400)])
    assert sender.writable()
    sender.send(batch)
    assert sender.in_flight >= 0.99 * batch.nbytes() > 40_000 and not sender.writable()
    deliver(*peers)
    assert channel.queued_bytes < 10_000, "on the wire it was less"
    while len(channel):
        channel.take()
    deliver(peers[1], peers[0])
    assert sender.in_flight == 0 and sender.writable()


def test_credit_is_told_by_frames_of_one_kind(peers: tuple[Peer, Peer]) -> None:
    _, there = peers
    _, channel = connect(peers)
    channel.put(Batch.of_rows([1]), 10)
    channel.take()
    there.frames.send()
    assert [frame.kind for frame in peers[0].frames.receive()] == [FrameKind.CREDIT]
