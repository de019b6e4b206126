"""Text from a socket."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterable, Iterator

import pytest

from penstock.connectors.builtin.socket import SocketTextSource
from penstock.connectors.source import EndOfSplit, SplitReader
from penstock.core.clock import ManualClock
from penstock.core.errors import ConfigError, ConnectorError
from penstock.datastream import StreamExecutionEnvironment
from penstock.testing.local import local_cluster
from tests.patience import PATIENCE_S


class Speaker:
    """Says pieces to the first who connects, and hangs up."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._speak, args=(list(pieces),), daemon=True)
        self._thread.start()

    def _speak(self, pieces: list[bytes]) -> None:
        connection, _ = self._listener.accept()
        with connection:
            for piece in pieces:
                connection.sendall(piece)

    def close(self) -> None:
        self._thread.join(PATIENCE_S)
        self._listener.close()


def read_all(reader: SplitReader, size: int = 3) -> Iterator[str]:
    while True:
        try:
            batch = reader.poll(size)
        except EndOfSplit:
            return
        assert batch is None or 0 < len(batch) <= size
        yield from batch.to_rows() if batch is not None else ()


def open_at(port: int, delimiter: str = "\n") -> SplitReader:
    source = SocketTextSource("127.0.0.1", port, delimiter)
    (split,) = source.create_enumerator(1).discover()
    return source.open_split(split, None, ManualClock())


@pytest.mark.parametrize(
    ("pieces", "delimiter", "expected"),
    [
        ([b"one\ntwo\nthree\n"], "\n", ["one", "two", "three"]),
        ([b"o", b"ne\n\ntw", b"o"], "\n", ["one", "", "two"]),
        (["grün|b".encode()[:3], "grün|b".encode()[3:]], "|", ["grün", "b"]),
        ([b"a--b-", b"-c"], "--", ["a", "b", "c"]),
        ([], "\n", []),
        ([b"one\r", b"\ntwo\r\n\r\nthree\r"], "\n", ["one", "two", "", "three\r"]),
        ([b"one\r|two\r"], "|", ["one\r", "two\r"]),
        ([b"bad \xff byte\n"], "\n", ["bad � byte"]),
    ],
)
def test_pieces_between_delimiters(pieces: list[bytes], delimiter: str, expected: list[str]) -> None:
    speaker = Speaker(pieces)
    reader = open_at(speaker.port, delimiter)
    assert list(read_all(reader)) == expected
    assert reader.position() is True
    speaker.close()


def test_an_ended_socket_is_not_connected_to_again() -> None:
    source = SocketTextSource("127.0.0.1", 1)
    (split,) = source.create_enumerator(1).discover()
    with pytest.raises(EndOfSplit):
        source.open_split(split, True, ManualClock()).poll(1)


def test_nobody_listens() -> None:
    with pytest.raises(ConnectorError, match="Start what listens there first"):
        open_at(1)


def test_wrong_settings() -> None:
    for port, delimiter in ((0, "\n"), (70_000, "\n"), (5, "")):
        with pytest.raises(ConfigError, match="a port from 1"):
            SocketTextSource("localhost", port, delimiter)


def test_in_a_job() -> None:
    speaker = Speaker([f"{i}\n".encode() for i in range(500)])
    with local_cluster(slots=2):
        env = StreamExecutionEnvironment.get_execution_environment()
        stream = env.socket_text_stream("127.0.0.1", speaker.port).map(int)
        assert sorted(stream.execute_and_collect()) == list(range(500))
    speaker.close()
