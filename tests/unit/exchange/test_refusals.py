"""Who has no business here is refused: at the driver's control port and at a slot's data port alike.

Without the job's secret, of another job, or of an old generation; and what an admitted slot may not do.
"""

from __future__ import annotations

import selectors
import socket
from collections.abc import Iterator

import pytest
from control_desk import RIGHT, SECRET, Desk, hung_up, say

from penstock.core.errors import TransportError
from penstock.core.ids import Generation, SlotId
from penstock.core.pickling import dumps
from penstock.exchange.auth import Hello, call, new_secret
from penstock.exchange.frames import FramedSocket
from penstock.exchange.network import TcpNetwork
from tests.patience import PATIENCE_S

STRANGERS = [
    pytest.param(RIGHT, new_secret(), "does not know the job's secret", id="wrong secret"),
    pytest.param(RIGHT, b"", "does not know the job's secret", id="no secret"),
    pytest.param(Hello("other", 3, 1, "control"), SECRET, "another job", id="another job"),
    pytest.param(Hello("job", 2, 1, "control"), SECRET, "generation 2", id="old generation"),
    pytest.param(Hello("job", 4, 1, "control"), SECRET, "generation 4", id="later generation"),
]


@pytest.fixture
def desk() -> Iterator[Desk]:
    made = Desk()
    yield made
    made.server.close()


@pytest.mark.parametrize(("hello", "secret", "why"), STRANGERS)
def test_the_driver_refuses(desk: Desk, hello: Hello, secret: bytes, why: str) -> None:
    with pytest.raises(TransportError, match=why):
        desk.enter(hello, secret)
    slot = desk.enter()
    say(slot, dumps("still there"))
    assert desk.wait(lambda: desk.messages == ["still there"])
    assert desk.hellos == [RIGHT] and desk.lost == []
    slot.close()


def test_the_driver_does_not_read_messages_of_strangers(desk: Desk) -> None:
    """A pickle in place of a greeting is never loaded."""
    with socket.create_connection(desk.server.address, timeout=PATIENCE_S) as sock:
        frames = FramedSocket(sock)
        say(frames, dumps("let me in"))
        assert hung_up(frames)
    assert desk.hellos == [] and desk.messages == []


def test_slots_of_an_old_generation_are_dropped_when_a_new_one_is_expected(desk: Desk) -> None:
    old = desk.enter()
    assert desk.wait(lambda: len(desk.hellos) == 1)
    desk.server.expect(Generation(4))
    assert hung_up(old)
    with pytest.raises(TransportError, match="generation 3"):
        desk.enter()
    assert desk.lost == [], "the coordinator knows already"
    old.close()


def test_a_message_that_cannot_be_read_costs_its_slot_only(desk: Desk) -> None:
    first, second = desk.enter(), desk.enter(Hello("job", 3, 2, "control"))
    say(first, b"\x80\x05cno_such_module\nThing\n.")
    assert desk.wait(lambda: len(desk.lost) == 1)
    assert "cannot be read in the driver" in desk.lost[0] and hung_up(first)
    say(second, dumps("well"))
    assert desk.wait(lambda: desk.messages == ["well"])
    first.close()
    second.close()


@pytest.mark.parametrize(("hello", "secret", "why"), STRANGERS)
def test_a_slot_refuses(hello: Hello, secret: bytes, why: str) -> None:
    selector = selectors.DefaultSelector()
    network = TcpNetwork(SlotId(2), "job", 3, SECRET, selector)
    try:
        with (
            socket.create_connection(network.address, timeout=PATIENCE_S) as sock,
            pytest.raises(TransportError, match=why),
        ):
            call(sock, hello, secret)
        with pytest.raises(TransportError, match="did not connect"):
            network.connect({SlotId(1): ("127.0.0.1", 9)}, timeout_s=0.05)
        with socket.create_connection(network.address, timeout=PATIENCE_S) as sock:
            call(sock, RIGHT, SECRET)
            network.connect({SlotId(1): ("127.0.0.1", 9)}, timeout_s=PATIENCE_S)
    finally:
        network.close()
        selector.close()
