"""Two slots that exchange data over TCP with little credit, and strangers at the door."""

from __future__ import annotations

import selectors
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from penstock.core.batch import Batch
from penstock.core.errors import TransportError
from penstock.core.ids import ChannelId, EdgeId, EventTime, SlotId, SubtaskIndex
from penstock.core.signals import END_OF_INPUT, Watermark
from penstock.exchange.auth import new_secret
from penstock.exchange.channel import InputChannel
from penstock.exchange.network import RemoteSender, TcpNetwork
from tests.patience import PATIENCE_S

LIMIT = 2000
SECRET = new_secret()


class Node:
    """A slot's network with its loop."""

    def __init__(self, slot: int, secret: bytes = SECRET, generation: int = 1) -> None:
        self.selector = selectors.DefaultSelector()
        self.network = TcpNetwork(SlotId(slot), "job", generation, secret, self.selector)

    def turn(self) -> None:
        self.network.send_all()
        for key, events in self.selector.select(0.01):
            self.network.on_ready(key.data, events)

    def close(self) -> None:
        self.network.close()
        self.selector.close()


@pytest.fixture
def nodes() -> Iterator[list[Node]]:
    made = [Node(0), Node(1)]
    yield made
    for node in made:
        node.close()


def both(actions: list[Callable[[], None]]) -> None:
    errors: list[BaseException] = []

    def run(action: Callable[[], None]) -> None:
        try:
            action()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(action,)) for action in actions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
        assert not thread.is_alive()
    if errors:
        raise errors[0]


def addresses(nodes: list[Node]) -> dict[SlotId, tuple[str, int]]:
    return {SlotId(n): node.network.address for n, node in enumerate(nodes)}


def pump(node: Node, me: int, count: int, seen: list[Any], most: list[int]) -> None:
    """Send ``count`` batches to the other one, never beyond the bound, and read what it sends."""
    other = 1 - me
    out = ChannelId(EdgeId(0), SubtaskIndex(me), SubtaskIndex(other))
    incoming = InputChannel(ChannelId(EdgeId(0), SubtaskIndex(other), SubtaskIndex(me)))
    node.network.register(incoming)
    sender: RemoteSender = node.network.sender(SlotId(other), out, LIMIT)
    sent, ended = 0, False
    deadline = time.monotonic() + PATIENCE_S
    while (not ended or sent <= count or sender.in_flight) and time.monotonic() < deadline:
        while sent < count and sender.writable():
            sender.send(Batch.of_rows([(me, sent, "x" * (sent % 300))]))
            most.append(sender.in_flight)
            if sent % 10 == 0:
                sender.send(Watermark(EventTime(sent)))
            sent += 1
        if sent == count:
            sender.send(END_OF_INPUT)
            sent += 1
        node.turn()
        for _ in range(min(len(incoming), 3)):
            element = incoming.take()
            ended = ended or element is END_OF_INPUT
            seen.append(element.rows[0][1] if isinstance(element, Batch) else element)
    for _ in range(5):
        node.turn()


def test_everything_arrives_in_order_within_the_bound(nodes: list[Node]) -> None:
    count = 400
    seen: list[list[Any]] = [[], []]
    most: list[list[int]] = [[], []]
    ready = threading.Barrier(2)

    def run(me: int) -> None:
        nodes[me].network.connect(addresses(nodes))
        ready.wait(PATIENCE_S)
        pump(nodes[me], me, count, seen[me], most[me])
        ready.wait(PATIENCE_S)

    both([lambda: run(0), lambda: run(1)])
    expected: list[Any] = []
    for n in range(count):
        expected.append(n)
        if n % 10 == 0:
            expected.append(Watermark(EventTime(n)))
    for me in (0, 1):
        assert seen[me] == [*expected, END_OF_INPUT]
        assert max(most[me]) < LIMIT + 500


def test_strangers_do_not_keep_the_others_waiting(nodes: list[Node]) -> None:
    """Several callers that say nothing, one that talks nonsense and one of another job come first."""
    silent = [socket.create_connection(nodes[1].network.address) for _ in range(3)]
    noisy = socket.create_connection(nodes[1].network.address)
    noisy.sendall(b"GET / HTTP/1.1\r\n\r\n" * 10)
    stranger = Node(0, new_secret())
    with pytest.raises(TransportError):
        stranger.network.connect({SlotId(1): nodes[1].network.address})
    both([lambda node=node: node.network.connect(addresses(nodes), PATIENCE_S) for node in nodes])
    for sock in silent:
        sock.setblocking(False)
        with pytest.raises(BlockingIOError):
            sock.recv(1)  # they are still being waited for
    for sock in (*silent, noisy):
        sock.close()
    stranger.close()


def test_an_old_generation_is_refused(nodes: list[Node]) -> None:
    old = Node(0, generation=0)
    with pytest.raises(TransportError, match="generation 0"):
        old.network.connect({SlotId(1): nodes[1].network.address})
    old.close()


def test_a_slot_that_is_not_there_is_named() -> None:
    node = Node(0)
    gone = socket.create_server(("127.0.0.1", 0))
    address = gone.getsockname()
    gone.close()
    with pytest.raises(TransportError, match="slot 1"):
        node.network.connect({SlotId(1): address})
    with pytest.raises(TransportError, match="did not connect"):
        lonely()
    node.close()


def lonely() -> None:
    node = Node(1)
    try:
        node.network.connect({SlotId(0): ("127.0.0.1", 1)}, timeout_s=0.05)
    finally:
        node.close()


def test_a_peer_that_leaves_is_an_error_with_its_number(nodes: list[Node]) -> None:
    both([lambda node=node: node.network.connect(addresses(nodes)) for node in nodes])
    nodes[1].close()
    with pytest.raises(TransportError, match="slot 1"):
        for _ in range(100):
            nodes[0].turn()


def test_data_for_an_unknown_channel_is_refused(nodes: list[Node]) -> None:
    both([lambda node=node: node.network.connect(addresses(nodes)) for node in nodes])
    sender = nodes[0].network.sender(SlotId(1), ChannelId(EdgeId(9), SubtaskIndex(0), SubtaskIndex(1)), LIMIT)
    sender.send(Batch.of_rows([1]))
    nodes[0].turn()
    with pytest.raises(TransportError, match="does not exist"):
        for _ in range(100):
            nodes[1].turn()
