"""Ports from settings: one listener a process, on the first that is free, or a paragraph why not."""

from __future__ import annotations

import errno
import selectors
import socket

import pytest

from penstock.core.clock import SystemClock
from penstock.core.config import Configuration
from penstock.core.errors import ClusterError, ConfigError
from penstock.core.ids import SlotId
from penstock.core.option import ports_in
from penstock.core.security_options import CONTROL_PORT, DATA_PORT
from penstock.exchange.acceptor import Ports, listen
from penstock.exchange.auth import new_secret
from penstock.exchange.lines import Transport, unpacked
from penstock.exchange.network import TcpNetwork
from penstock.spark.control import ControlServer

SETTING = "taskmanager.data.port"


def free(count: int) -> list[int]:
    """Ports that are free now; together, so that they differ."""
    taken = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(one.getsockname()[1]) for one in taken]
    for one in taken:
        one.close()
    return ports


@pytest.mark.parametrize(
    ("text", "ports"),
    [
        ("0", [0]),
        ("50000", [50000]),
        ("50000-50003", [50000, 50001, 50002, 50003]),
        ("50100, 50000-50001", [50100, 50000, 50001]),
    ],
)
def test_what_a_setting_allows(text: str, ports: list[int]) -> None:
    assert list(ports_in(DATA_PORT.parse(text))) == ports


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "-1",
        "50001-50000",
        "1-",
        "70000",
        "0-10",
        "0,5",
        "50000-50001-50002",
        "5;6",
        "1,,2",
        "1-999999999999999",
    ],
)
def test_what_names_no_ports_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ConfigError, match=r"'taskmanager.data.port': .* a range \(50000-50100\)"):
        DATA_PORT.parse(text)


def test_the_first_free_one_is_taken() -> None:
    first, second = free(2)
    ports = Ports(SETTING, f"{first},{second}")
    with listen("127.0.0.1", ports) as one, listen("127.0.0.1", ports) as other:
        assert (one.getsockname()[1], other.getsockname()[1]) == (first, second)
        with pytest.raises(ClusterError) as caught:
            listen("127.0.0.1", ports)
    text = str(caught.value)
    assert text.startswith(
        f"taskmanager.data.port allows ports {first},{second}, and on 127.0.0.1 all 2 are taken"
    )
    assert "allow more" in text and "\n" not in text


def test_a_port_that_is_for_root_is_said_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(address: tuple[str, int], backlog: int) -> socket.socket:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(socket, "create_server", refuse)
    with pytest.raises(ClusterError, match=r"taskmanager.data.port allows 80, .* below 1024 are for root"):
        listen("127.0.0.1", Ports(SETTING, "80"))


def test_a_host_that_is_not_ours_is_said_so() -> None:
    with pytest.raises(ClusterError, match=r"nobody can listen on 192\.0\.2\.1"):
        listen("192.0.2.1", Ports(SETTING))


def test_driver_and_slots_listen_where_they_are_told() -> None:
    control, data = free(2)
    transport = Transport(control_ports=str(control), data_ports=str(data))
    assert unpacked(transport.packed()) == transport
    selector = selectors.DefaultSelector()
    network = TcpNetwork(SlotId(0), "job", 1, new_secret(), selector, transport=transport)
    nothing = lambda *_: None  # noqa: E731
    server = ControlServer(
        "job", new_secret(), "127.0.0.1", SystemClock(), 60.0, nothing, nothing, nothing, transport=transport
    )
    assert server.address == ("127.0.0.1", control) and network.address == ("127.0.0.1", data)
    with pytest.raises(ClusterError, match=f"taskmanager.data.port allows port {data}, .* it is taken"):
        TcpNetwork(SlotId(1), "job", 1, new_secret(), selector, transport=transport)
    server.close()
    network.close()
    selector.close()


def test_the_settings_have_flinks_names_and_any_port_is_the_default() -> None:
    empty = Configuration()
    assert (CONTROL_PORT.key, DATA_PORT.key) == ("jobmanager.rpc.bind-port", SETTING)
    assert empty.get(DATA_PORT) == empty.get(CONTROL_PORT) == Ports(SETTING).text == "0"
