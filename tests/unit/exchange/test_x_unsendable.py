"""A record that cannot leave its process: where it was going, what of it, and what to do."""

from __future__ import annotations

import socket
import threading
from typing import Any

import pytest

from penstock.core.batch import Batch
from penstock.core.errors import TypeMismatchError
from penstock.core.ids import ChannelId, EdgeId, SubtaskIndex
from penstock.core.signals import Element
from penstock.exchange.codec import ChannelEncoder
from penstock.exchange.frames import FramedSocket
from penstock.exchange.outputs import OutputEdge
from penstock.exchange.partition import Broadcast, Hash, make_router


class Connection:
    def __init__(self) -> None:
        self.lock = threading.Lock()


class ToTheWire:
    """A sender that encodes at once."""

    limit = 1 << 20

    def __init__(self) -> None:
        self._pair = socket.socketpair()
        self._encoder = ChannelEncoder(
            ChannelId(EdgeId(0), SubtaskIndex(0), SubtaskIndex(0)), FramedSocket(self._pair[0])
        )

    def send(self, element: Element) -> None:
        self._encoder.encode(element)

    def writable(self) -> bool:
        return True

    def close(self) -> None:
        for sock in self._pair:
            sock.close()


def told(partitioning: Any, rows: list[Any]) -> str:
    sender = ToTheWire()
    router = make_router(partitioning, SubtaskIndex(0), 1, 1, 128)
    edge = OutputEdge(router, {SubtaskIndex(0): sender}, 8192, "step 'total'")  # type: ignore[dict-item]
    try:
        with pytest.raises(TypeMismatchError) as raised:
            edge.emit(Batch.of_rows(rows))
            edge.flush()
    finally:
        sender.close()
    return str(raised.value)


def test_a_record_that_cannot_be_pickled_is_named() -> None:
    text = told(Broadcast(), [1, ("a", {"c": Connection()})])
    assert "on the way to step 'total': a record cannot be sent to another slot" in text
    assert "field 'lock' of a Connection is a lock" in text and "open()" in text


def test_a_field_that_the_key_asks_for_names_the_step_that_wants_it() -> None:
    text = told(Hash(columns=("amount",)), [(1, 2)])
    assert "on the way to step 'total': field 'amount' was asked for" in text
