"""Lines of text from a socket: for trying things out.

The job connects, and reads until the other side closes.  A socket cannot be asked for what it said before, so
there is nothing to replay: records that were read and not yet published when the job fails are lost, and the
restarted job connects again.  At most once, whatever the checkpoints say.  To lose nothing, put a log in
between, or let the other side post to a :class:`~penstock.connectors.http.server.WebhookServer`.
"""

from __future__ import annotations

import codecs
import socket
from typing import Any

from penstock.connectors.source import EndOfSplit, FixedSplits, Source, Split, SplitEnumerator, SplitReader
from penstock.core.batch import Batch
from penstock.core.clock import Clock
from penstock.core.errors import ConfigError, ConnectorError
from penstock.core.typeinfo import Types

_CHUNK = 1 << 16
_CONNECT_S = 5.0
_LONGEST = 16 << 20


class SocketTextSource(Source):
    """Pieces of text between delimiters, in UTF-8. The last one need not end with a delimiter."""

    bounded = False

    def __init__(self, hostname: str, port: int, delimiter: str = "\n") -> None:
        if not delimiter or not 0 < port < 65536:
            raise ConfigError(
                f"a socket needs a port from 1 to 65535 and a delimiter, not {port}, {delimiter!r}"
            )
        self._address = (hostname, port)
        self._delimiter = delimiter

    def create_enumerator(self, parallelism: int) -> SplitEnumerator:
        return FixedSplits([Split("socket")])

    def open_split(self, split: Split, position: Any | None, clock: Clock) -> SplitReader:
        return _SocketReader(self._address, self._delimiter, bool(position))

    def produced_type(self) -> Any:
        return Types.STRING()


class _SocketReader(SplitReader):
    """The position says only whether the end was reached."""

    def __init__(self, address: tuple[str, int], delimiter: str, ended: bool) -> None:
        self._address = address
        self._delimiter = delimiter
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""
        self._pieces: list[str] = []
        self._ended = ended
        self._socket: socket.socket | None = None
        if not ended:
            self._connect()

    def _connect(self) -> None:
        host, port = self._address
        try:
            self._socket = socket.create_connection(self._address, _CONNECT_S)
        except OSError as e:
            raise ConnectorError(
                f"cannot connect to the socket {host}:{port}: {e}. Start what listens there first; "
                "the job connects from an executor, so the host must be reachable from there"
            ) from e
        self._socket.setblocking(False)

    def poll(self, max_rows: int) -> Batch | None:
        if not self._pieces and self._socket is not None:
            self._receive(self._socket)
        if not self._pieces:
            if self._ended:
                raise EndOfSplit
            return None
        taken, self._pieces = self._pieces[:max_rows], self._pieces[max_rows:]
        return Batch.of_rows(list(taken))

    def _receive(self, connection: socket.socket) -> None:
        try:
            data = connection.recv(_CHUNK)
        except BlockingIOError:
            return
        except OSError as e:
            raise ConnectorError(f"the socket {self._address[0]}:{self._address[1]} broke: {e}") from e
        text = self._rest + self._decoder.decode(data, final=not data)
        *self._pieces, self._rest = text.split(self._delimiter)
        if len(self._rest) > _LONGEST:
            raise ConnectorError(
                f"no {self._delimiter!r} came in {_LONGEST >> 20} MB of text; is it the delimiter?"
            )
        if self._delimiter == "\n":  # as Flink does it: lines of Windows and of telnet
            self._pieces = [piece.removesuffix("\r") for piece in self._pieces]
        if not data:
            self._ended = True
            self._pieces += [self._rest] if self._rest else []
            self.close()

    def position(self) -> bool:
        return self._ended and not self._pieces

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
